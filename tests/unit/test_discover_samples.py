"""What switches really printed (../shared/samples), through the drivers with napalm as it is."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.ids import SwitchName
from flowcheck_net.importers.lldp import Report
from flowcheck_net.importers.lldp_read import read_lldp
from flowcheck_net.intent import Surroundings, SwitchAddress
from tests.conformance.bench_netconf import NetconfBench
from tests.conformance.bench_ssh import Environment, EosBench, NxosBench
from tests.doubles.ssh_box import ENABLE, PASSWORD, USER
from tests.doubles.surroundings import JUNOS_HEAD, SpeakingEapi, SpeakingNetconf, SpeakingNxapi, junos_neighbor

pytest.importorskip("napalm")
LLDP = Path(__file__).parents[2].parent / "shared" / "samples" / "lldp"
pytestmark = pytest.mark.skipif(not LLDP.is_dir(), reason="../shared/samples/lldp is not here")
EOS_TABLE = "Port Name Status Vlan Duplex Speed Type\nEt1  connected 1 full 400G DR4\n"
NXOS_TABLE = "Port  Name  Status  Vlan  Duplex  Speed  Type\nEth1/1  --  connected 1 full 400G DR4\n"


@pytest.fixture
def login() -> Iterator[None]:
    environment = Environment()
    environment.set(USER=USER, PASSWORD=PASSWORD, ENABLE=ENABLE)
    yield
    environment.restore()


def asked(platform: str, management: str) -> Surroundings:
    address = SwitchAddress(SwitchName("leaf1"), platform, management)
    with open_driver(address, "discover", Path("/nonexistent")) as driver:
        return driver.surroundings()  # type: ignore[attr-defined, no-any-return]


def test_eos_through_eapi(tmp_path: Path, login: None):
    answer = json.loads((LLDP / "eos_normal.show_lldp_neighbors_detail.json").read_text())
    wanted = json.loads((LLDP / "eos_normal.expected.json").read_text())
    heard = answer["lldpNeighbors"].items()
    text = "".join(f"Interface {p} detected {len(v['lldpNeighborInfo'])} LLDP neighbors:\n\n" for p, v in heard)
    facts = {"modelName": "DCS-7050", "serialNumber": "J", "internalVersion": "4.15", "bootupTimestamp": 1.0}
    shown = {
        "show version": {"version": "4.30.1F", **facts},
        "show hostname": {"hostname": "leaf1", "fqdn": "leaf1"},
        "show interfaces": {"interfaces": {}},
        "show lldp neighbors detail": answer,
    }
    texts = {
        "show lldp neighbors detail": text,
        "show interfaces status": EOS_TABLE,
        "show hostname": "Hostname: leaf1\n",
        "show version": "Arista DCS-7050\n",
    }
    with SpeakingEapi(EosBench.platform(), tmp_path, shown, texts) as server:
        around = asked("eos", f"eapi:127.0.0.1:{server.port}?ca={server.ca}&retries=0")
    assert around.doubts == ()
    assert json.loads(around.neighbors) == wanted


def test_nxos_through_nxapi(tmp_path: Path, login: None):
    text = (LLDP / "cisco_nxos_show_lldp_neighbors_detail.raw").read_text()
    shown: dict[str, Any] = {
        "show version": {"chassis_id": "Nexus9000", "host_name": "leaf1", "sys_ver_str": "7.0"},
        "show inventory": {"TABLE_inv": {"ROW_inv": [{"name": "Chassis", "serialnum": "FDO1"}]}},
        "show interface": {"TABLE_interface": {"ROW_interface": []}},
        "show hostname": {"hostname": "leaf1"},
    }
    texts = {
        "show lldp neighbors detail": text,
        "show interface status": NXOS_TABLE,
        "show version": "Cisco Nexus Operating System (NX-OS) Software\n  Device name: leaf1\n",
    }
    with SpeakingNxapi(NxosBench.platform(), tmp_path, shown, texts) as server:
        around = asked("nxos", f"nxapi:127.0.0.1:{server.port}?ca={server.ca}&retries=0")
    assert around.doubts == ()
    heard = json.loads(around.neighbors)
    ports = re.findall(r"^Local Port id: (\S+)", text, re.MULTILINE)
    assert sum(len(rows) for rows in heard.values()) == len(ports)
    # napalm writes names in full, that of the management port too.
    assert {p.replace("Eth", "Ethernet").replace("mgmt", "Management") for p in ports} == set(heard)


def test_junos_through_netconf(tmp_path: Path, login: None, monkeypatch: pytest.MonkeyPatch):
    from ncclient.transport import session

    # The time that ncclient's thread sleeps between two looks.
    monkeypatch.setattr(session, "TICK", 0.002)
    wanted = json.loads((LLDP / "junos_qfx5110.expected_result.json").read_text())
    (port,) = wanted
    box = SpeakingNetconf(NetconfBench.platform(), tmp_path)
    box.replies = {
        "get-interface-information": "<interface-information/>",
        "get-lldp-neighbors-information": inside("junos_qfx5110.get-lldp-neighbors-information.xml"),
        "get-ethernet-switching-table-information": "<l2ng-l2ald-rtb-macdb/>",
        f"get-lldp-interface-neighbors {port}": inside("junos_qfx5110.get-lldp-interface-neighbors.xml"),
    }
    box.texts = {
        "show lldp neighbors": JUNOS_HEAD + junos_neighbor(port, "x", "y", "0c:42:a1:aa:00:01") * len(wanted[port]),
        'show interfaces | match "Physical interface|Speed"': f"Physical interface: {port}, Physical link is Up\n",
        "show version": "Hostname: leaf1\nModel: qfx5110\nJunos: 18.1\nJUNOS OS libs [x]\n",
    }
    with box:
        around = asked("junos-qfx", f"netconf:127.0.0.1:{box.port}?known_hosts={box.known_hosts}&retries=0")
    assert around.doubts == ()
    got = json.loads(around.neighbors)
    for mine, theirs in zip(got[port], wanted[port], strict=True):
        assert {k: mine[k] or "" for k in theirs} == {k: v or "" for k, v in theirs.items()}


def inside(name: str) -> str:
    """The first element in a reply."""
    root = ElementTree.fromstring((LLDP / name).read_text())
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        element.attrib.clear()
    inner = root if root.tag != "rpc-reply" else root[0]
    return ElementTree.tostring(inner, "unicode")


@pytest.mark.parametrize("name", sorted(p.name for p in LLDP.glob("*.raw")) if LLDP.is_dir() else [])
def test_every_text_answer_gives_cables(name: str):
    """By the reader of ``ssh:`` platforms; findings would say what was not read."""
    survey = read_lldp([Report(LLDP / name, "leaf1")])
    assert survey.cables or survey.findings
    assert not [f for f in survey.findings if f.is_problem]
