"""Comware, VRP, Cumulus and OS10: their outputs as the makers' documents lay them out, labels, and what is in doubt."""

import json

import pytest

from flowcheck_net.drivers.dialects import comware_text, cumulus_text, os10_text, vrp_text
from flowcheck_net.drivers.dialects.base import ParseError, Site
from flowcheck_net.drivers.dialects.boot import boot_mark
from flowcheck_net.drivers.dialects.comware import COMWARE, CONFIGURATION, GROUPS
from flowcheck_net.drivers.dialects.labels import NOWHERE, Label, owners, read_label
from flowcheck_net.drivers.dialects.os10_found import compose, find
from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import Capabilities, Direction, MirrorSource, restarted

SITE = Site("gpt", Capabilities("comware", 4, 32, frozenset(Direction), filters=True, source_in_many_sessions=False))


def rx(port: str) -> MirrorSource:
    return MirrorSource(PortName(port), Direction.RX)


def tx(port: str) -> MirrorSource:
    return MirrorSource(PortName(port), Direction.TX)


def test_comware_groups_of_all_kinds():
    text = """\
Mirroring group 1:
    Type: Local
    Status: Active
    Mirroring port:
        FortyGigE1/0/1  Inbound
        FortyGigE1/0/3  Both
    Monitor port: FortyGigE1/0/2
                  FortyGigE1/0/4
Mirroring group 2:
    Type: Local
    Status: Inactive
    Mirroring port:
        FortyGigE1/0/5  Outbound
    Monitor port: FortyGigE1/0/6
                  Encapsulation: Destination IP address 1.1.1.1
                                 Source IP address 2.2.2.2
                                 DSCP 1
Mirroring group 3:
    Type: Remote source
    Status: Active
    Mirroring port:
        Ten-GigabitEthernet1/0/1  Both
    Reflector port: Ten-GigabitEthernet1/0/3
    Remote probe VLAN: 2
"""
    one, two, three = comware_text.read_groups(text)
    assert (one.kind, one.status, one.monitors) == ("local", "active", ("FortyGigE1/0/2", "FortyGigE1/0/4"))
    assert one.sources == (rx("FortyGigE1/0/1"), rx("FortyGigE1/0/3"), tx("FortyGigE1/0/3"))
    assert (two.status, two.sources) == ("inactive", (tx("FortyGigE1/0/5"),))
    assert two.tunnel == {"destination ip address": "1.1.1.1", "source ip address": "2.2.2.2", "dscp": "1"}
    assert three.others == ("reflector port: Ten-GigabitEthernet1/0/3", "remote probe vlan: 2")
    assert comware_text.read_groups("\n") == ()


@pytest.mark.parametrize(
    ("command", "text"),
    [(GROUPS, "Too many users are logged in."), (CONFIGURATION, "#\n sysname leaf1\n#\ninterface Ten-Gig")],
)
def test_what_is_not_understood_or_cut_off_is_an_error_and_names_the_command(command: str, text: str):
    answers = {GROUPS: "", CONFIGURATION: "#\n sysname leaf1\n#\nreturn", command: text}
    with pytest.raises(ParseError, match=command):
        COMWARE.parse(answers, SITE)


def test_all_tables_of_vrp_port_mirroring():
    rule = "  " + "-" * 77
    text = f"""\
  Observe port mirroring:
{rule}
  MirroringPort         Direction        ObservePort : Interface
{rule}
  100GE1/0/1            Inbound                    1 : 100GE1/0/2
                        Outbound                   2 : 100GE1/0/3
{rule}
  Observe port group mirroring:
{rule}
  MirroringPort         Direction        ObserveGroup
{rule}
  100GE1/0/4            Inbound                     1
{rule}
  Traffic mirroring:
{rule}
  TrafficBehavior                        ObservePort : Interface
{rule}
  b1                                               1 : 100GE1/0/2
{rule}
  VLAN mirroring:
{rule}
  VLAN                  Direction        ObservePort : Interface
{rule}
  VLAN 10               Inbound                    1 : 100GE1/0/2
{rule}
"""
    found = vrp_text.read_in_effect(text)
    assert found.ports == {(rx("100GE1/0/1"), 1), (tx("100GE1/0/1"), 2)}
    assert found.behaviours == {("b1", 1)}
    with pytest.raises(ValueError, match="Error: busy"):
        vrp_text.read_in_effect("Error: busy")


def test_os10_states_with_and_without_reason_and_an_old_table():
    title = (
        "S.Id  Source              Destination         Dir   Mode  Source IP        Dest IP          State     Reason"
    )
    shut = "1     ethernet1/1/3                           both  port  N/A  N/A  false     Destination is not configured"
    old = "1  ethernet1/1/7 port-channel10 rx N/A N/A N/A N/A true Is UP"
    assert os10_text.read_states(f"{title}\n{'-' * 90}\n{shut}") == {1: "Destination is not configured"}
    assert os10_text.read_states(f"S.Id Source Destination Dir SrcIP DstIP DSCP TTL State Reason\n----\n{old}") == {
        1: ""
    }
    with pytest.raises(ValueError, match="Internal"):
        os10_text.read_states("Internal failure")


def test_an_os10_configuration_that_lost_its_indentation():
    """As users paste it; a source without a word is watched both ways, a session without ``no shut`` is shut."""
    text = """\
! Version 10.5.0.2
!
interface ethernet1/1/1
no shutdown
switchport access vlan 1
!
monitor session 1
destination interface port-channel1
source interface ethernet1/1/1
no shut
!
monitor session 2 type rpm-source
destination remote-vlan 10
!
"""
    configuration = os10_text.read_configuration(text)
    one, two = configuration.sessions[1], configuration.sessions[2]
    assert (one.sources, one.destination, one.up) == ((rx("ethernet1/1/1"), tx("ethernet1/1/1")), "port-channel1", True)
    assert (two.up, two.others) == (False, ("destination remote-vlan 10",))
    with pytest.raises(ValueError, match="no interface"):
        os10_text.read_configuration("% Error: Failed to retrieve")


def test_two_os10_sessions_with_one_description_are_foreign():
    one = "interface ethernet1/1/1\n no shutdown\n!\n"
    session = "monitor session {} \n description fcn-gpt-0\n source interface ethernet1/1/{} rx\n no shut\n!\n"
    found = find(os10_text.read_configuration(one + session.format(1, 1) + session.format(2, 2)))
    assert [s.name for s in compose(found)] == ["monitor-session-1", "monitor-session-2"]


def test_nvue_gathers_ports_in_keys():
    assert cumulus_text.expand("swp1-3,swp7") == ("swp1", "swp2", "swp3", "swp7")
    assert cumulus_text.expand("swp1s0-1") == ("swp1s0", "swp1s1")
    with pytest.raises(ValueError, match="range"):
        cumulus_text.expand("swp3-1")
    erspan = {
        "destination": {"dest-ip": {"10.10.10.234": {}}, "source-ip": {"10.10.10.1": {}}},
        "direction": "egress",
        "source-port": {"swp1": {}},
    }
    found = cumulus_text.read_sessions({"1": {"erspan": erspan, "span": {"enable": "off"}}})
    assert (found[1].sources, found[1].destination) == ((tx("swp1"),), "erspan:10.10.10.234")
    settings = {"interface": {"swp1-2": {"type": "swp", "acl": {"a": {"inbound": {}}}}}, "acl": {"a": {"type": "ipv4"}}}
    configuration = cumulus_text.read_configuration(json.dumps([{"header": {}}, {"set": settings}]))
    assert configuration.bound == {"a": (rx("swp1"), rx("swp2"))}


def test_a_number_is_ours_only_where_exactly_one_label_names_it_and_it_sends_there():
    a, b, port = SessionName("fcn-gpt-0"), SessionName("fcn-gpt-1"), PortName("swp31")
    mine = Label((3,), port)
    assert owners({a: mine}, {3: port}) == {3: a}
    assert owners({a: mine}, {3: NOWHERE}) == {3: a}
    assert owners({a: mine}, {3: PortName("swp9")}) == {}
    assert owners({a: mine}, {4: port}) == {}
    assert owners({a: mine, b: Label((3, 4), port)}, {3: port, 4: port}) == {4: b}


@pytest.mark.parametrize(
    "label",
    [
        Label((5,), PortName("swp1")),
        Label((0, 2), PortName("erspan:10.0.0.1"), stp_was_on=True),
        Label((), PortName("swp2")),
    ],
)
def test_a_label_is_read_as_it_was_written(label: Label):
    assert read_label(f'"{label}"') == label
    assert read_label(f"see {label}") is None


def test_a_start_that_is_reckoned_from_an_uptime_bears_its_uncertainty():
    uptime = {"days": 1, "hours": 0, "minutes": 4}
    first = boot_mark("2026-11-30 22:04:05\nMonday", uptime, "8.180")
    assert first == "since 2026-11-29T22:00 within 2 min, 8.180"
    later = boot_mark("2026-11-30 22:05:01\nMonday", uptime, "8.180")
    assert first != later
    assert not restarted(first, later)
    assert restarted(first, boot_mark("2026-11-30 22:05:01", {"days": 0, "hours": 0, "minutes": 1}, "8.180"))
    assert restarted(first, first.replace("8.180", "8.230"))
    assert restarted("boot a", "boot b")
    assert not restarted("", "boot b")
