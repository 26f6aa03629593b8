"""``flowcheck-net discover`` through napalm's getters: eAPI, NX-API, NETCONF; three switches in a triangle."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from flowcheck_net.cli.main import cli
from flowcheck_net.spec.dump import dump_yaml
from flowcheck_net.spec.load import load_topology, load_yaml
from tests.conformance.bench_netconf import NetconfBench
from tests.conformance.bench_ssh import Environment, EosBench, NxosBench
from tests.doubles.ssh_box import ENABLE, PASSWORD, USER
from tests.doubles.surroundings import (
    JUNOS_HEAD,
    SpeakingEapi,
    SpeakingNetconf,
    SpeakingNxapi,
    eos_neighbor,
    junos_neighbor,
    nxos_neighbor,
)

pytest.importorskip("napalm")
A, B, C = "0c42.a1aa.0001", "0c42.a1aa.0002", "0c42.a1aa.0003"
EOS_TABLE = "Port Name Status Vlan Duplex Speed Type\nEt1  connected 1 full 400G DR4\nEt2  connected 1 full 100G SR4\n"
NXOS_TABLE = "Port  Name  Status  Vlan  Duplex  Speed  Type\nEth1/1  --  connected 1 full 400G DR4\n"
NXOS_TABLE += "Eth1/2  --  connected 1 full 100G SR4\n"
JUNOS_LINES = "".join(
    f"Physical interface: et-0/0/{n}, Enabled, Physical link is Up\n  Link-level type: Ethernet, Speed: 100Gbps\n"
    for n in (1, 2)
)


def eos_row(far: str, port: str, chassis: str) -> dict[str, Any]:
    return {
        "systemCapabilities": {"bridge": True, "router": True},
        "neighborInterfaceInfo": {"interfaceId": f'"{port}"', "interfaceIdType": "interfaceName"},
        "chassisId": chassis,
        "chassisIdType": "macAddress",
        "systemName": far,
        "systemDescription": "a switch",
    }


def eos_interface(speed: int) -> dict[str, Any]:
    return {
        "lineProtocolStatus": "up",
        "interfaceStatus": "connected",
        "description": "",
        "mtu": 9214,
        "bandwidth": speed,
        "physicalAddress": "0c42.a1aa.0101",
    }


def nxos_interface(port: str, kilobits: int) -> dict[str, str]:
    return {
        "interface": port,
        "state": "up",
        "admin_state": "up",
        "eth_bw": str(kilobits),
        "eth_mtu": "9216",
        "eth_hw_addr": "0c42.a1aa.0201",
        "eth_link_flapped": "2week(s) 1day(s)",
    }


def junos_interface(port: str) -> str:
    return (
        f"<physical-interface><name>\n{port}\n</name><admin-status>\nup\n</admin-status><oper-status>\nup\n"
        "</oper-status><speed>\n100Gbps\n</speed><mtu>\n9192\n</mtu></physical-interface>"
    )


def junos_row(port: str, far: str, far_port: str, chassis: str) -> str:
    mac = ":".join(chassis.replace(".", "")[n : n + 2] for n in range(0, 12, 2))
    return (
        f"<lldp-neighbor-information><lldp-local-port-id>{port}</lldp-local-port-id>"
        f"<lldp-remote-chassis-id>{mac}</lldp-remote-chassis-id><lldp-remote-port-id>{far_port}</lldp-remote-port-id>"
        f"<lldp-remote-system-name>{far}</lldp-remote-system-name>"
        "<lldp-remote-system-capabilities-enabled>Bridge Router</lldp-remote-system-capabilities-enabled>"
        "</lldp-neighbor-information>"
    )


class Fabric:
    """leaf1 (EOS) -- leaf2 (NX-OS) at 400G, both -- leaf3 (Junos) at 100G."""

    def __init__(self, eos: SpeakingEapi, nxos: SpeakingNxapi, junos: SpeakingNetconf, folder: Path) -> None:
        self.eos, self.nxos, self.junos = eos, nxos, junos
        self.folder = folder

    def inventory(self, **names: str) -> Path:
        path = self.folder / "inventory.yaml"
        said = {
            "leaf1": ("eos", f"eapi:127.0.0.1:{self.eos.port}?ca={self.eos.ca}&retries=0"),
            "leaf2": ("nxos", f"nxapi:127.0.0.1:{self.nxos.port}?ca={self.nxos.ca}&retries=0"),
            "leaf3": (
                "junos-qfx",
                f"netconf:127.0.0.1:{self.junos.port}?known_hosts={self.junos.known_hosts}&retries=0",
            ),
        }
        rows = [
            f'  - {{name: {names.get(n, n)}, platform: {platform}, management: "{way}"}}'
            for n, (platform, way) in said.items()
        ]
        path.write_text("\n".join(["version: 1", "devices:", *rows]) + "\n")
        return path

    def discover(self, path: Path, *words: str) -> Result:
        return CliRunner().invoke(cli, ["discover", str(path), "--at-once", "2", *words])


@pytest.fixture
def fabric(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Fabric]:
    from ncclient.transport import session

    # The time that ncclient's thread sleeps between two looks.
    monkeypatch.setattr(session, "TICK", 0.002)
    environment = Environment()
    environment.set(USER=USER, PASSWORD=PASSWORD, ENABLE=ENABLE)
    try:
        with ExitStack() as stack:
            eos, nxos = stack.enter_context(eos_box(tmp_path)), stack.enter_context(nxos_box(tmp_path))
            junos = junos_box(tmp_path)
            stack.enter_context(junos)
            yield Fabric(eos, nxos, junos, tmp_path)
    finally:
        environment.restore()


def eos_box(folder: Path) -> SpeakingEapi:
    shown = {
        "show version": {
            "version": "4.30.1F",
            "internalVersion": "4.30.1F-1",
            "modelName": "DCS-7060PX4-32",
            "serialNumber": "JPE1",
            "bootupTimestamp": 1.0,
        },
        "show hostname": {"hostname": "leaf1", "fqdn": "leaf1.example.net"},
        "show interfaces": {
            "interfaces": {"Ethernet1": eos_interface(400_000_000_000), "Ethernet2": eos_interface(100_000_000_000)}
        },
        "show lldp neighbors detail": {
            "lldpNeighbors": {
                "Ethernet1": {"lldpNeighborInfo": [eos_row("leaf2", "Ethernet1/1", B)]},
                "Ethernet2": {"lldpNeighborInfo": [eos_row("leaf3", "et-0/0/1", C)]},
            }
        },
    }
    texts = {
        "show lldp neighbors detail": eos_neighbor("Ethernet1", "leaf2", "Ethernet1/1", B)
        + eos_neighbor("Ethernet2", "leaf3", "et-0/0/1", C),
        "show interfaces status": EOS_TABLE,
        "show hostname": "Hostname: leaf1\n",
        "show version": "Arista DCS-7060PX4-32\nSerial number: JPE1\nSoftware image version: 4.30.1F\n",
    }
    return SpeakingEapi(EosBench.platform(), folder, shown, texts)


def nxos_box(folder: Path) -> SpeakingNxapi:
    (folder / "nxos").mkdir()
    platform = NxosBench.platform()
    platform.name = "leaf2"
    rows = [nxos_interface("Ethernet1/1", 400_000_000), nxos_interface("Ethernet1/2", 100_000_000)]
    shown = {
        "show version": {"chassis_id": "Nexus9000 C9364C-GX", "host_name": "leaf2", "sys_ver_str": "10.4(5)"},
        "show inventory": {"TABLE_inv": {"ROW_inv": [{"name": "Chassis", "serialnum": "FDO1"}]}},
        "show interface": {"TABLE_interface": {"ROW_interface": rows}},
        "show hostname": {"hostname": "leaf2"},
    }
    texts = {
        "show lldp neighbors detail": nxos_neighbor("Eth1/1", "leaf1", "Ethernet1", A)
        + nxos_neighbor("Eth1/2", "leaf3", "et-0/0/2", C),
        "show interface status": NXOS_TABLE,
        "show version": "Cisco Nexus Operating System (NX-OS) Software\n  Device name: leaf2\n",
    }
    return SpeakingNxapi(platform, folder / "nxos", shown, texts)


def junos_box(folder: Path) -> SpeakingNetconf:
    platform = NetconfBench.platform()
    platform.name = "leaf3"
    box = SpeakingNetconf(platform, folder)
    one = junos_row("et-0/0/1", "leaf1", "Ethernet2", A)
    two = junos_row("et-0/0/2", "leaf2", "Ethernet1/2", B)
    box.replies = {
        "get-interface-information": f"<interface-information>{junos_interface('et-0/0/1')}"
        f"{junos_interface('et-0/0/2')}</interface-information>",
        "get-lldp-neighbors-information": f"<lldp-neighbors-information>{one}{two}</lldp-neighbors-information>",
        "get-ethernet-switching-table-information": "<l2ng-l2ald-rtb-macdb/>",
        "get-lldp-interface-neighbors et-0/0/1": f"<lldp-neighbors-information>{one}</lldp-neighbors-information>",
        "get-lldp-interface-neighbors et-0/0/2": f"<lldp-neighbors-information>{two}</lldp-neighbors-information>",
    }
    box.texts = {
        "show lldp neighbors": JUNOS_HEAD
        + junos_neighbor("et-0/0/1", "leaf1", "Ethernet2", "0c:42:a1:aa:00:01")
        + junos_neighbor("et-0/0/2", "leaf2", "Ethernet1/2", "0c:42:a1:aa:00:02"),
        'show interfaces | match "Physical interface|Speed"': JUNOS_LINES,
        "show version": "Hostname: leaf3\nModel: qfx5220-32cd\nJunos: 21.4R3\nJUNOS OS libs [x]\n",
    }
    return box


def test_three_apis_become_a_topology_that_loads(fabric: Fabric, tmp_path: Path):
    output, keep = tmp_path / "topology.yaml", tmp_path / "answers"
    done = fabric.discover(fabric.inventory(), "--to", str(output), "--keep", str(keep))
    assert done.exit_code == 0, done.output + str(done.exception)
    document = load_yaml(output)
    assert {frozenset(link) for link in document["links"]} == {
        frozenset({"leaf1:Ethernet1", "leaf2:Ethernet1/1"}),
        frozenset({"leaf1:Ethernet2", "leaf3:et-0/0/1"}),
        frozenset({"leaf2:Ethernet1/2", "leaf3:et-0/0/2"}),
    }
    speeds = {f"{s['name']}:{p['name']}": p["speed"] for s in document["switches"] for p in s["ports"]}
    assert speeds == {
        "leaf1:Ethernet1": "400G",
        "leaf1:Ethernet2": "100G",
        "leaf2:Ethernet1/1": "400G",
        "leaf2:Ethernet1/2": "100G",
        "leaf3:et-0/0/1": "100G",
        "leaf3:et-0/0/2": "100G",
    }
    assert {s["name"]: s.get("asic") for s in document["switches"]} == {
        "leaf1": "broadcom-tomahawk3",
        "leaf2": None,
        "leaf3": None,
    }
    # What the getters gave is what was kept: napalm's words, not the command line's.
    assert sorted(p.name for p in keep.iterdir()) == ["leaf1.json", "leaf2.json", "leaf3.json"]
    foreign = {s["name"]: [f["name"] for f in s.get("foreign_sessions", ())] for s in document["switches"]}
    assert all("netops-span" in names or "session-" in str(names) for names in foreign.values()), foreign
    # Hosts and a checkpoint node are what no switch tells; with them the file is a topology that a plan takes.
    whole = json.loads(json.dumps(document))
    whole["hosts"] = [{"name": "h1", "nics": [{"name": "e1", "speed": "100G", "addresses": ["10.0.0.1"]}]}]
    whole["checkpoint_nodes"] = [{"name": "c1", "nics": [{"name": "e1", "speed": "100G"}]}]
    whole["switches"][0]["ports"] += [{"name": f"Ethernet{n}", "speed": "100G"} for n in (3, 4)]
    whole["links"] += [["h1:e1", "leaf1:Ethernet3"], ["c1:e1", "leaf1:Ethernet4"]]
    output.write_text(dump_yaml(whole))
    assert len(load_topology(output).switches) == 3


def test_the_json_has_what_each_device_is(fabric: Fabric):
    done = fabric.discover(fabric.inventory(), "--json")
    assert done.exit_code == 0, done.output
    asked = {a["name"]: a for a in json.loads(done.stdout)["asked"]}
    assert asked["leaf1"]["model"] == "DCS-7060PX4-32"
    assert asked["leaf1"]["serial"] == "JPE1"
    assert (asked["leaf2"]["hostname"], asked["leaf2"]["version"]) == ("leaf2", "10.4(5)")
    assert (asked["leaf3"]["model"], asked["leaf3"]["answered"]) == ("qfx5220-32cd", True)


def test_what_napalm_leaves_out_or_contradicts_is_a_problem_and_not_written(fabric: Fabric):
    """napalm's NX-OS template drops a neighbour without capabilities; `bandwidth` makes a port seem another one."""
    texts = dict(fabric.nxos.texts)
    heard = "show lldp neighbors detail"
    texts[heard] = texts[heard].replace("Enabled Capabilities: B, R\n", "", 1)
    fabric.nxos.texts = texts
    rows = fabric.nxos.shown["show interface"]["TABLE_interface"]["ROW_interface"]
    rows[0]["eth_bw"] = "10000000"
    done = fabric.discover(fabric.inventory())
    text = done.output + str(done.exception)
    assert done.exit_code != 0
    assert "get_lldp_neighbors_detail reads 1 neighbours, 'show lldp neighbors detail' shows 2" in text
    assert "Ethernet1/1: get_interfaces says 10000 Mbit/s, 'show interface status' says 400000" in text


def test_all_problems_of_an_inventory_come_at_once_with_their_cures(fabric: Fabric):
    """A wrong name, a device that does not answer, what only one side tells, and a speed that nobody tells."""
    fabric.nxos.refuse_connections = 99
    fabric.eos.texts = {**fabric.eos.texts, "show interfaces status": EOS_TABLE.replace("full 100G", "auto auto")}
    fabric.eos.shown = {**fabric.eos.shown, "show interfaces": {"interfaces": {}}}
    done = fabric.discover(fabric.inventory(leaf3="spine9"))
    text = done.output + str(done.exception)
    assert done.exit_code != 0
    assert "leaf2 did not answer" in text
    assert "the inventory says spine9, the device calls itself leaf3" in text
    assert "write {name: leaf3, ...} in the inventory" in text
    assert "leaf1 does not tell the speed of Ethernet2" in text
    assert "--speed 'leaf1:Ethernet2=400G'" in text
    assert "one-sided" in text


def test_one_device_twice_in_the_inventory(fabric: Fabric):
    path = fabric.inventory()
    again = path.read_text().splitlines()[2].replace("leaf1", "leaf1-old")
    path.write_text(f"{path.read_text()}{again}\n")
    done = fabric.discover(path)
    assert done.exit_code != 0
    assert "leaf1 and leaf1-old are one device, or answer as one: hostname leaf1" in str(done.exception)


def test_a_neighbour_with_two_names_is_one_device_by_its_chassis(fabric: Fabric):
    texts = dict(fabric.nxos.texts)
    texts["show lldp neighbors detail"] = texts["show lldp neighbors detail"].replace(
        "System Name: leaf3", "System Name: old-leaf3"
    )
    fabric.nxos.texts = texts
    done = fabric.discover(fabric.inventory())
    assert "leaf3 and old-leaf3 are one device, by its LLDP chassis 0c42a1aa0003" in str(done.exception)
