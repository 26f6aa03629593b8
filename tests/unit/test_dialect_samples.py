"""The parsers on real outputs of their vendors (../shared/samples), against what a person reads there."""

import json
from pathlib import Path

import pytest

from flowcheck_net.drivers.dialects import eos_read, nxos_read
from flowcheck_net.drivers.dialects.base import ParseError, Site
from flowcheck_net.drivers.dialects.text import expand
from flowcheck_net.intent import Direction, MirrorSession, RemarkKind
from flowcheck_net.model.platforms import capabilities

SAMPLES = Path(__file__).parents[2].parent / "shared" / "samples" / "mirror"
RX, TX = Direction.RX, Direction.TX


def sample(name: str) -> str:
    file = SAMPLES / name
    if not file.is_file():
        pytest.skip(f"{file} is not there: the samples are not part of the project")
    return file.read_text()


def eos(text: str) -> eos_read.EosPicture:
    link = "Port Name Status Vlan\nEt1   connected 1 full 100G 100GBASE\n"
    quiet = dict.fromkeys((eos_read.LISTS, eos_read.PENDING, eos_read.REBOOT, eos_read.WORKING), "")
    answers = {**quiet, eos_read.SESSIONS: text, eos_read.STATUS: link}
    return eos_read.picture_of(answers, Site("gpt", capabilities("eos")))


def nxos(config: str, table: str = "", lists: str = "") -> nxos_read.NxosPicture:
    status = "Port          Name               Status    Vlan      Duplex  Speed   Type\n"
    answers = {
        nxos_read.CONFIG: config,
        nxos_read.LISTS: lists,
        nxos_read.WORKING: table,
        nxos_read.STATUS: status,
        nxos_read.REBOOT: "System start time:          Thu May 21 13:14:52 2020\n",
    }
    return nxos_read.picture_of(answers, Site("gpt", capabilities("nxos")))


def watched(session: MirrorSession) -> list[str]:
    return [f"{s.port}:{s.direction}" for s in session.sources]


def test_eos_configuration():
    """Read by hand: ranges, lists of ports, a direction that is not said, several destinations, what copies less."""
    picture = eos(sample("eos_monitor-sessions.cfg"))
    one, second, third, fourth = (s for s in picture.sessions)
    assert [s.name for s in picture.sessions] == [f"myMonitoringSession{n}" for n in (1, 2, 3, 4)]
    assert watched(one) == ["Ethernet0:rx", "Ethernet0:tx", "Ethernet5:rx", "Ethernet5:tx"]
    assert one.destination == "Ethernet48"
    range_of_ten = [f"Ethernet{n}:rx" for n in (10, 11, 12, 13, 14, 15)]
    assert watched(second) == sorted([*range_of_ten, "Ethernet18:tx", "Ethernet3:rx", "Ethernet5:rx"])
    assert second.destination == "Cpu"
    assert (watched(third), third.destination) == (["Ethernet20:rx", "Ethernet20:tx"], "")
    assert "Ethernet18:tx" in watched(fourth)
    kinds = {(r.session, r.kind) for r in picture.remarks}
    assert (one.name, RemarkKind.TRUNCATION) in kinds
    assert (one.name, RemarkKind.FILTER) in kinds
    assert (second.name, RemarkKind.SAMPLING) in kinds
    assert (second.name, RemarkKind.FILTER) in kinds
    assert (third.name, RemarkKind.INACTIVE) in kinds


def test_nxos_configuration():
    (session,) = nxos(sample("nxos_monitor.cfg")).sessions
    assert session.name == "session-1"
    assert watched(session) == [
        *("Ethernet1/1:rx", "Ethernet1/1:tx", "Ethernet1/2:tx", "Ethernet1/3:rx", "Ethernet1/4:rx", "Ethernet1/4:tx")
    ]
    remarks = [r.text for r in nxos(sample("nxos_monitor.cfg")).remarks]
    assert "source vlan 1,2-3" in remarks
    assert "it has a second destination, Ethernet2/4" in remarks


@pytest.mark.parametrize("number", [1, 2])
def test_nxos_session_table(number: int):
    """genie's own reading is the other opinion."""
    text = sample(f"nxos_show_monitor_session_{number}.txt")
    (shown,) = nxos_read.states_in(text).values()
    theirs = json.loads(sample(f"nxos_show_monitor_session_{number}.expected.json"))["session"]
    assert list(nxos_read.states_in(text)) == [theirs["session_number"]]
    assert nxos_read.state_of(shown) == theirs["state"]


def test_what_is_no_configuration_is_not_taken_for_none():
    with pytest.raises(ParseError, match="no session in"):
        eos("Error: configuration is not available right now")
    with pytest.raises(ParseError, match="no configuration in"):
        nxos("Error: configuration is not available right now")
    with pytest.raises(ParseError, match="no session in"):
        nxos("version 9.3(5)", table="Error: timed out")
    assert eos("").sessions == ()
    assert nxos("version 9.3(5)\n").sessions == ()


def test_ranges_of_ports():
    assert expand("Ethernet3, Ethernet5", "x") == ("Ethernet3", "Ethernet5")
    assert expand("Ethernet1/1-3,1/7", "x") == ("Ethernet1/1", "Ethernet1/2", "Ethernet1/3", "Ethernet1/7")
    assert expand("Port-Channel5", "x") == ("Port-Channel5",)
    with pytest.raises(ParseError):
        expand("Ethernet9-3", "x")


def test_a_list_that_permits_more_than_its_pairs_is_no_filter_of_ours():
    config = "version 9\nmonitor session 3\n  filter access-group a\n  source interface Ethernet1/1 rx\n  no shut\n"
    ours = "ip access-list a\n  10 permit udp 10.0.0.1/32 10.0.0.2/32 eq 4791 \n"
    (session,) = nxos(config, lists=ours).sessions
    assert [(f.source, f.destination) for f in session.filters] == [("10.0.0.1", "10.0.0.2")]
    picture = nxos(config, lists=ours + "  20 permit ip any any\n")
    assert picture.sessions[0].filters == ()
    assert [r.kind for r in picture.remarks if r.kind is RemarkKind.FILTER] == [RemarkKind.FILTER]
