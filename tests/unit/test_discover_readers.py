"""The readers of ``discover`` on each platform's layout, and the driver that asks for it over SSH."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from flowcheck_net.drivers.dialects import survey_facts, survey_speeds
from flowcheck_net.drivers.dialects.base import ParseError
from flowcheck_net.drivers.dialects.survey_xml import os10_neighbors, os10_speeds
from flowcheck_net.errors import ConnectError
from flowcheck_net.ids import PortName
from flowcheck_net.intent import DeviceFacts
from tests.conformance.bench_numbered import ComwareBench, CumulusBench, Os10Bench, VrpBench
from tests.conformance.bench_ssh import Environment, EosBench, JunosBench, NxosBench, SshBench
from tests.doubles.ssh_box import SshBox
from tests.doubles.surroundings import JUNOS_HEAD, eos_neighbor, hearing, junos_neighbor, nxos_neighbor

MAC = "0c42.a1aa.bb01"
EOS_STATUS = """\
Port       Name                   Status       Vlan        Duplex  Speed Type
Et1        to full 10G spine      connected    routed      full    400G  400GBASE-DR4
Et2/1      rail 2                 connected    trunk       a-full  a-100G 100GBASE-CR4
Et3        spare                  notconnect   1           full    400G  400GBASE-DR4
Et4                               errdisabled  1           auto    auto  Not Present
Ma1                               connected    routed      a-full  a-1G  10/100/1000
"""
NXOS_STATUS = """\
--------------------------------------------------------------------------------
Port          Name               Status    Vlan      Duplex  Speed   Type
--------------------------------------------------------------------------------
mgmt0         --                 connected routed    full    1000    --
Eth1/1        half 25G old name  connected trunk     full    400G    QSFP-DD-400G-DR4
Eth1/2        --                 connected 1         full    1000    10/100/1000
Eth1/3        --                 notconnec 1         auto    auto    --
"""
JUNOS_INTERFACES = """\
Physical interface: et-0/0/1, Enabled, Physical link is Up
  Link-level type: Ethernet, MTU: 9192, LAN-PHY mode, Speed: 100Gbps, BPDU Error: None, Speed Configuration: 40G
Physical interface: ge-0/0/2, Enabled, Physical link is Up
  Link-mode: Full-duplex, Speed: 1000mbps, BPDU Error: None,
Physical interface: et-0/0/3, Enabled, Physical link is Down
  Link-level type: Ethernet, MTU: 9192, Speed: 100Gbps, BPDU Error: None
Physical interface: et-0/0/4, Enabled, Physical link is Up
  Link-level type: Ethernet, MTU: 9192, Speed: Auto, BPDU Error: None
Physical interface: dsc, Enabled, Physical link is Up
  Type: Software-Pseudo, Link-level type: Unspecified, MTU: Unlimited, Speed: Unlimited
"""
COMWARE_INTERFACES = """\
HundredGigE1/0/25
Current state: UP
Line protocol state: UP
Description: 40Gbps-speed mode of old
Bandwidth: 100000000 kbps
100Gbps-speed mode, full-duplex mode
Link speed type is autonegotiation, link duplex type is autonegotiation

Ten-GigabitEthernet1/0/1
Current state: DOWN ( Administratively )
Unknown-speed mode, unknown-duplex mode

GigabitEthernet1/0/2 current state: UP
 1000Mbps-speed mode, full-duplex mode

Vlan-interface7
Current state: UP
Bandwidth: 10000000 kbps
"""
VRP_INTERFACES = """\
100GE1/0/1 current state : UP (ifindex: 6)
Line protocol current state : UP
Port Mode: COMMON FIBER, Transceiver: 100GBASE_SR4
Speed:  100000,  Loopback: NONE
Duplex: FULL,   Negotiation: -

40GE1/0/2 current state : DOWN
Speed :  40000,  Loopback: NONE

Eth-Trunk4 current state : UP
Current BW : 200Gbps
"""
SYSFS = """\
/sys/class/net/eth0/speed:1000
/sys/class/net/swp1/speed:400000
/sys/class/net/swp2/speed:-1
"""
OS10_INTERFACES = """\
<?xml version="1.0"?>
<rpc-reply xmlns:ns="x"><bulk><data><interface><name>ethernet1/1/1</name><oper-status>up</oper-status>
<speed>100000000000</speed></interface></data></bulk></rpc-reply>
<?xml version="1.0"?>
<rpc-reply><bulk><data><interface><name>ethernet1/1/2</name><oper-status>down</oper-status><speed>0</speed></interface>
<interface><name>ethernet1/1/3:1</name><oper-status>up</oper-status><speed>25000000000</speed></interface></data></bulk>
</rpc-reply>
"""
OS10_NEIGHBORS = """\
<?xml version="1.0"?>
<rpc-reply><bulk><data><interface><name>ethernet1/1/1</name><lldp-rem-neighbor-info><info>
<rem-lldp-chassis-id-subtype>mac-address</rem-lldp-chassis-id-subtype><rem-lldp-chassis-id>DEKhqrsB</rem-lldp-chassis-id>
<rem-lldp-port-id>ZXRoZXJuZXQxLzEvOA==</rem-lldp-port-id><rem-port-desc>ethernet1/1/8</rem-port-desc>
<rem-system-name>spine1</rem-system-name><rem-system-desc>a switch</rem-system-desc>
</info></lldp-rem-neighbor-info></interface></data></bulk></rpc-reply>
"""

Reader = Callable[[str], Mapping[PortName, int]]
SPEEDS: list[tuple[Reader, str, dict[str, int]]] = [
    (survey_speeds.status_table, EOS_STATUS, {"Ethernet1": 400_000, "Ethernet2/1": 100_000, "Management1": 1000}),
    (survey_speeds.status_table, NXOS_STATUS, {"Ethernet1/1": 400_000, "Ethernet1/2": 1000}),
    (survey_speeds.junos, JUNOS_INTERFACES, {"et-0/0/1": 100_000, "ge-0/0/2": 1000}),
    (survey_speeds.comware, COMWARE_INTERFACES, {"HundredGigE1/0/25": 100_000, "GigabitEthernet1/0/2": 1000}),
    (survey_speeds.vrp, VRP_INTERFACES, {"100GE1/0/1": 100_000}),
    (survey_speeds.sysfs, SYSFS, {"eth0": 1000, "swp1": 400_000}),
    (os10_speeds, OS10_INTERFACES, {"ethernet1/1/1": 100_000, "ethernet1/1/3:1": 25_000}),
]


@pytest.mark.parametrize(("reader", "text", "speeds"), SPEEDS)
def test_the_speeds_of_ports_with_a_link(reader: Reader, text: str, speeds: dict[str, int]):
    assert reader(text) == speeds


@pytest.mark.parametrize("reader", [reader for reader, _, _ in SPEEDS])
def test_an_answer_that_says_something_and_has_no_port_is_an_error(reader: Reader):
    with pytest.raises(ParseError):
        reader("Authorization failed for this\nuser\n")
    assert not reader("")


def test_what_os10_hears_with_identifiers_in_base64():
    """0c:42:a1:aa:bb:01 and ethernet1/1/8, coded by hand with base64(1)."""
    heard = json.loads(os10_neighbors(OS10_NEIGHBORS))
    (row,) = heard["ethernet1/1/1"]
    assert row["remote_chassis_id"] == "0c:42:a1:aa:bb:01"
    assert (row["remote_system_name"], row["remote_port"]) == ("spine1", "ethernet1/1/8")
    plain = OS10_NEIGHBORS.replace("ZXRoZXJuZXQxLzEvOA==", "ethernet1/1/8").replace("DEKhqrsB", "0c:42:a1:aa:bb:01")
    assert json.loads(os10_neighbors(plain)) == heard
    for text in ("<rpc-reply><oops/></rpc-reply>", "% Error: Illegal command.", "<?xml version='1.0'?><bulk><data>"):
        with pytest.raises(ParseError):
            os10_neighbors(text)


def test_facts_of_another_maker_are_none():
    with pytest.raises(ParseError, match="no Arista"):
        survey_facts.eos("Cisco Nexus Operating System (NX-OS) Software\n")


NXOS_VERSION = """\
Cisco Nexus Operating System (NX-OS) Software
Software
  NXOS: version 10.4(5) [Maintenance Release]
Hardware
  cisco Nexus9000 C9364C-GX Chassis
  Processor Board ID FDO00000001
  Device name: leaf1
"""
VRP_VERSION = """\
Huawei Versatile Routing Platform Software
VRP (R) software, Version 8.180 (CE8850EI V200R005C10SPC800)
HUAWEI CE8850-32CQ-EI uptime is 3 days, 0 hour, 20 minutes
"""
COMWARE_VERSION = """\
H3C Comware Software, Version 7.1.070, Release 6555P01
H3C S6850-56HF uptime is 0 weeks, 0 days, 2 hours, 58 minutes
"""
LLDPD = json.dumps(
    {
        "lldp": [
            {
                "interface": [
                    {
                        "name": "swp1",
                        "chassis": [{"id": [{"value": "0c:42:a1:aa:bb:01"}], "name": [{"value": "spine1"}]}],
                        "port": [{"id": [{"value": "swp9"}]}],
                    }
                ]
            }
        ]
    }
)
PLATFORMS: list[tuple[type[SshBench], dict[str, str], tuple[str, int], DeviceFacts]] = [
    (
        EosBench,
        {
            "show lldp neighbors detail": eos_neighbor("Ethernet1", "spine1", "Ethernet9", MAC),
            "show interfaces status": EOS_STATUS,
            "show version": "Arista DCS-7060PX4-32\nSerial number: JPE1\nSoftware image version: 4.30.1F\n",
            "show hostname": "Hostname: leaf1\nFQDN:     leaf1.example.net\n",
        },
        ("Ethernet1", 400_000),
        DeviceFacts("leaf1", "DCS-7060PX4-32", "4.30.1F", "JPE1"),
    ),
    (
        NxosBench,
        {
            "show lldp neighbors detail": nxos_neighbor("Eth1/1", "spine1", "Ethernet1/9", MAC),
            "show interface status": NXOS_STATUS,
            "show version": NXOS_VERSION,
        },
        ("Ethernet1/1", 400_000),
        DeviceFacts("leaf1", "Nexus9000 C9364C-GX", "10.4(5)", "FDO00000001"),
    ),
    (
        JunosBench,
        {
            "show lldp neighbors": JUNOS_HEAD + junos_neighbor("et-0/0/1", "spine1", "et-0/0/9", "0c:42:a1:aa:bb:01"),
            'show interfaces | match "Physical interface|Speed"': JUNOS_INTERFACES,
            "show version": "Hostname: leaf1\nModel: qfx5220-32cd\nJunos: 21.4R3-S3.4\nJUNOS OS libs [x]\n",
        },
        ("et-0/0/1", 100_000),
        DeviceFacts("leaf1", "qfx5220-32cd", "21.4R3-S3.4"),
    ),
    (
        ComwareBench,
        {
            "display lldp neighbor-information list": "System Name          Local Interface Chassis ID      Port ID\n"
            "spine1               HGE1/0/25       0c42-a1aa-bb01  HundredGigE1/0/1\n",
            "display interface": COMWARE_INTERFACES,
            "display version": COMWARE_VERSION,
            "display current-configuration | include sysname": " sysname leaf1",
        },
        ("HundredGigE1/0/25", 100_000),
        DeviceFacts("leaf1", "S6850-56HF", "7.1.070, Release 6555P01"),
    ),
    (
        VrpBench,
        {
            "display lldp neighbor": "100GE1/0/1 has 1 neighbor(s):\n\nNeighbor index                     :1\n",
            "display interface": VRP_INTERFACES,
            "display version": VRP_VERSION,
            "display current-configuration | include sysname": "sysname leaf1",
        },
        ("100GE1/0/1", 100_000),
        DeviceFacts("leaf1", "CE8850-32CQ-EI", "8.180 (CE8850EI V200R005C10SPC800)"),
    ),
    (
        CumulusBench,
        {
            "sudo -n lldpcli -f json0 show neighbors details": LLDPD,
            "grep -sH . /sys/class/net/*/speed": SYSFS,
            "hostname": "leaf1",
            "cat /etc/os-release": 'NAME="Cumulus Linux"\nVERSION_ID=5.9.2\nVERSION="Cumulus Linux 5.9.2"\n',
        },
        ("swp1", 400_000),
        DeviceFacts("leaf1", version="Cumulus Linux 5.9.2"),
    ),
    (
        Os10Bench,
        {
            "show lldp neighbors | display-xml | no-more": OS10_NEIGHBORS,
            "show interface | display-xml | no-more": OS10_INTERFACES,
            "show version": "Dell EMC Networking OS10-Enterprise\nOS Version: 10.5.0.2\nSystem Type: S5232F-ON\n",
            "system hostname": "leaf1",
        },
        ("ethernet1/1/1", 100_000),
        DeviceFacts("leaf1", "S5232F-ON", "10.5.0.2"),
    ),
]


@pytest.fixture
def environment():
    made = Environment()
    yield made
    made.restore()


@pytest.mark.parametrize(("bench", "answers", "fast", "facts"), PLATFORMS, ids=lambda v: getattr(v, "PLATFORM", ""))
def test_every_platform_tells_neighbours_speeds_and_what_it_is(
    bench: type[SshBench],
    answers: dict[str, str],
    fast: tuple[str, int],
    facts: DeviceFacts,
    tmp_path: Path,
    environment: Environment,
):
    platform = bench.platform()
    hearing(platform, answers)
    with SshBox(platform, tmp_path) as box, bench(box, environment).open() as driver:
        around = driver.surroundings()
    assert around.speeds[fast[0]] == fast[1]  # type: ignore[index]
    assert around.facts == facts
    assert (around.doubts, around.refused) == ((), ())
    assert "spine1" in around.neighbors or bench is VrpBench


def test_a_question_that_is_refused_and_an_answer_that_is_none_are_told_apart(tmp_path: Path, environment: Environment):
    platform = EosBench.platform()
    answers = dict(PLATFORMS[0][1])
    del answers["show hostname"]
    answers["show interfaces status"] = "something that nobody knows\n"
    hearing(platform, answers)
    with SshBox(platform, tmp_path) as box, EosBench(box, environment).open() as driver:
        around = driver.surroundings()
    assert around.refused == ("show hostname: % Invalid input",)
    (doubt,) = around.doubts
    assert "no table of ports" in doubt
    assert not around.speeds
    assert around.facts.model == "DCS-7060PX4-32"


def test_neighbours_that_cannot_be_read_are_an_error_of_that_device(tmp_path: Path, environment: Environment):
    platform = CumulusBench.platform()
    command = "sudo -n lldpcli -f json0 show neighbors details"
    hearing(platform, {**PLATFORMS[5][1], command: "sudo: a password is needed"})
    with (
        SshBox(platform, tmp_path) as box,
        CumulusBench(box, environment).open() as driver,
        pytest.raises(ConnectError, match="no JSON"),
    ):
        driver.surroundings()
