"""The judge of all importers, on cables written by hand and on random fabrics reported from both sides."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcheck_net.importers.cables import Cable, Device, End, FindingKind, PortIdKind, Role, Source, Survey
from flowcheck_net.importers.merge import merge

FILE = "x"


def _survey(*cables: Cable, silent: str = "", names: str = "") -> Survey:
    """Every device that tells what it hears gives a report; ``silent`` ones too, without any cable."""
    reporting = {cable.a.device for cable in cables if cable.reported_by_a} | set(silent.split())
    mentioned = {end.device for cable in cables for end in (cable.a, cable.b) if end.device} | set(names.split())
    devices = [
        Device(name, Source(FILE), Role.SWITCH, reports=name in reporting) for name in sorted(mentioned | reporting)
    ]
    return Survey("test", "test", tuple(devices), cables, (FILE,))


def _end(text: str, kind: PortIdKind = PortIdKind.UNSAID, description: str = "") -> End:
    device, _, port = text.partition(":")
    return End(device, port, kind, description)


def _heard(a: str, b: str, line: int = 1, kind: PortIdKind = PortIdKind.UNSAID, description: str = "") -> Cable:
    return Cable(_end(a), _end(b, kind, description), None, Source(FILE, line), reported_by_a=True)


def _stated(a: str, b: str, line: int = 1, speed: str | None = None) -> Cable:
    return Cable(_end(a), _end(b), speed, Source(FILE, line))


def _links(survey: Survey, **options: bool) -> list[str]:
    return [f"{link.a} {link.b}" for link in merge(survey, **options).links]


def _found(survey: Survey, kind: FindingKind, **options: bool) -> list[str]:
    return [finding.message for finding in merge(survey, **options).findings if finding.kind is kind]


def test_a_cable_that_both_ends_report_is_a_link():
    survey = _survey(_heard("a:Eth1/1", "b:Ethernet1/2"), _heard("b:Eth1/2", "a:Ethernet1/1"))
    assert _links(survey) == ["a:Ethernet1/1 b:Ethernet1/2"]
    assert merge(survey).findings == ()


def test_a_cable_that_a_source_states_is_a_link_and_twice_is_once():
    assert _links(_survey(_stated("a:e1", "b:e2"), _stated("b:e2", "a:e1"))) == ["a:e1 b:e2"]


def test_no_report_of_the_other_end():
    survey = _survey(_heard("a:e1", "b:e2", 7))
    assert _links(survey) == []
    assert _found(survey, FindingKind.ONE_SIDED) == ["a reports a:e1 -- b:e2; there is no report of b"]
    assert [finding.source.line for finding in merge(survey).findings] == [7]
    assert _links(survey, accept_one_sided=True) == ["a:e1 b:e2"]
    assert _found(survey, FindingKind.ASSUMED, accept_one_sided=True) == ["a:e1 -- b:e2 is reported by a only"]


def test_a_report_that_is_silent_about_a_cable_refutes_it_always():
    survey = _survey(_heard("a:e1", "b:e2"), silent="b")
    assert _links(survey, accept_one_sided=True) == []
    (message,) = _found(survey, FindingKind.ONE_SIDED, accept_one_sided=True)
    assert message == "a reports a:e1 -- b:e2, but the report of b does not have it"


def test_ends_that_contradict_each_other():
    """b hears c where a hears b: the port of b has two cables, and neither is believed."""
    survey = _survey(_heard("a:e1", "b:e1", 1), _heard("b:e1", "c:e1", 2), _heard("c:e1", "b:e1", 3))
    assert _links(survey) == []
    assert _found(survey, FindingKind.CONFLICT) == ["port b:e1 has 2 cables: a:e1 -- b:e1 (x:1) and b:e1 -- c:e1 (x:2)"]


def test_a_port_cabled_twice_spoils_both_cables_and_no_other():
    survey = _survey(_stated("a:e1", "b:e1", 1), _stated("a:e1", "c:e1", 2), _stated("b:e2", "c:e2", 3))
    assert _links(survey) == ["b:e2 c:e2"]
    assert len(_found(survey, FindingKind.CONFLICT)) == 1


def test_two_spellings_of_a_port_are_one_port():
    survey = _survey(_stated("a:Eth1/1", "b:e1"), _stated("a:Ethernet1/1", "c:e1"))
    assert len(_found(survey, FindingKind.CONFLICT)) == 1


def test_a_cable_of_a_device_with_itself():
    assert _found(_survey(_stated("a:e1", "a:e2")), FindingKind.CONFLICT) == [
        "a:e1 -- a:e2 connects a device with itself"
    ]


def test_a_cable_to_a_device_that_is_not_declared():
    cables = (_stated("a:e1", "b:e1"),)
    survey = Survey("test", "test", (Device("a", Source(FILE)),), cables, (FILE,))
    assert _found(survey, FindingKind.UNKNOWN_END) == ["a:e1 -- b:e1: there is no device 'b'"]


def test_an_unknown_end_says_why():
    cable = Cable(_end("a:e1"), End("", "", description="ends in the wall"), None, Source(FILE, 3))
    assert _found(_survey(cable), FindingKind.UNKNOWN_END) == ["a:e1: ends in the wall"]


def test_a_mac_address_as_port_is_answered_by_the_other_side():
    survey = _survey(
        _heard("a:Ethernet8", "b:000f.532e.ced1", kind=PortIdKind.MAC),
        _heard("b:eth3", "a:Ethernet8", kind=PortIdKind.NAME),
    )
    assert _links(survey) == ["a:Ethernet8 b:eth3"]


def test_a_mac_address_without_an_answer_falls_back_to_the_description():
    survey = _survey(_heard("a:Ethernet8", "b:000f.532e.ced1", description="eth3"))
    assert _links(survey, accept_one_sided=True) == ["a:Ethernet8 b:eth3"]


@pytest.mark.parametrize("port", ["000f.532e.ced1", "597"])
def test_no_name_of_the_far_port_at_all(port):
    survey = _survey(_heard("a:e47", f"b:{port}", 4, description="To switch"))
    assert _links(survey, accept_one_sided=True) == []
    (message,) = _found(survey, FindingKind.UNKNOWN_END, accept_one_sided=True)
    assert message == f"a:e47 hears b, port {port}: which port is that?"


def test_the_identifier_comes_before_the_description():
    """NX-OS sends the description that an operator wrote, and operators write the *other* end there."""
    survey = _survey(
        _heard("a:Ethernet1/1", "b:Ethernet1/9", description="Ethernet1/1"),
        _heard("b:Ethernet1/9", "a:Ethernet1/1", description="Ethernet1/9"),
        _heard("b:Ethernet1/1", "c:Ethernet1/1"),
        _heard("c:Ethernet1/1", "b:Ethernet1/1"),
    )
    assert _links(survey) == ["a:Ethernet1/1 b:Ethernet1/9", "b:Ethernet1/1 c:Ethernet1/1"]


def test_an_alias_is_what_the_device_answers():
    """SONiC sends its alias; its own report has the real name."""
    survey = _survey(_heard("a:swp1", "b:etp4", kind=PortIdKind.LOCAL), _heard("b:Ethernet12", "a:swp1"))
    assert _links(survey) == ["a:swp1 b:Ethernet12"]
    assert _found(survey, FindingKind.ASSUMED) == ["a:swp1 -- b:etp4: b calls this port Ethernet12 itself"]


@pytest.mark.parametrize(("sent", "own"), [("Eth1/4", "Ethernet12"), ("etp4", "Ethernet12"), ("Ethernet4/1", "swp4")])
def test_a_name_of_another_shape_may_be_an_alias(sent, own):
    survey = _survey(_heard("a:swp1", f"b:{sent}"), _heard(f"b:{own}", "a:swp1"))
    assert _links(survey) == [f"a:swp1 b:{own}"]


@pytest.mark.parametrize("kind", [PortIdKind.UNSAID, PortIdKind.LOCAL, PortIdKind.NAME])
def test_a_name_of_the_same_shape_is_a_contradiction(kind):
    """a hears b's Ethernet16 where b hears a on its Ethernet12: one of the two reports is old."""
    survey = _survey(_heard("a:swp1", "b:Ethernet16", kind=kind), _heard("b:Ethernet12", "a:swp1"))
    assert _links(survey) == []
    assert len(_found(survey, FindingKind.CONFLICT)) == 1


def test_a_stated_interface_name_is_no_alias():
    survey = _survey(_heard("a:swp1", "b:etp4", kind=PortIdKind.NAME), _heard("b:Ethernet12", "a:swp1"))
    assert _links(survey) == []


def test_full_and_short_names_are_one_device():
    survey = _survey(_heard("a:e1", "spine2.company.com:e1"), _heard("spine2:e1", "A.company.com:e1"))
    assert _links(survey) == ["a:e1 spine2:e1"]


def test_a_short_name_of_two_full_names_is_a_conflict():
    survey = _survey(_heard("a:e1", "s:e1"), _heard("s.one.com:e1", "a:e1"), _heard("s.two.com:e2", "a:e2"))
    assert "the name s fits s.one.com, s.two.com" in _found(survey, FindingKind.CONFLICT)
    assert _links(survey) == []


def test_two_domains_are_two_devices():
    survey = _survey(_stated("s.one.com:e1", "s.two.com:e1"))
    assert _links(survey) == ["s.one.com:e1 s.two.com:e1"]


def test_a_cut_off_name():
    long = "dc1-row04-rack17-leaf02"
    survey = _survey(_heard("a:e1", f"{long[:18]}:e1"), _heard(f"{long}:e1", "a:e1"))
    assert _links(survey) == [f"a:e1 {long}:e1"]
    assert _found(survey, FindingKind.ASSUMED) == [f"{long[:18]} is taken for a cut-off {long}"]


def test_a_cut_off_name_is_joined_only_with_a_device_that_reports():
    long = "dc1-row04-rack17-leaf02"
    survey = _survey(_stated("a:e1", f"{long[:18]}:e1"), _stated("b:e1", f"{long}:e2"))
    assert _links(survey) == [f"a:e1 {long[:18]}:e1", f"b:e1 {long}:e2"]


def test_a_short_name_is_no_cut_off_name():
    survey = _survey(_heard("a:e1", "leaf1:e1"), _heard("leaf10:e1", "a:e1"))
    assert _links(survey) == []


def test_speeds_that_differ_are_a_conflict():
    survey = _survey(_stated("a:e1", "b:e1", 1, "100G"), _stated("b:e1", "a:e1", 2, "400G"))
    assert _found(survey, FindingKind.CONFLICT) == [
        "a:e1 -- b:e1 runs at 100G and at 400G, depending on which end is asked"
    ]
    assert [link.speed for link in merge(survey).links] == [None]


def test_a_speed_that_one_statement_has_is_known():
    assert [
        link.speed for link in merge(_survey(_stated("a:e1", "b:e1", 1, "100G"), _stated("b:e1", "a:e1"))).links
    ] == ["100G"]


# --- random fabrics: what LLDP would say, with the usual impurities, must give back the fabric -----------------------


@st.composite
def fabrics(draw):
    """Cables between devices d0.. with ports numbered by use; returns pairs of (device number, port number)."""
    count = draw(st.integers(2, 6))
    wanted = draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), min_size=1, max_size=14))
    used = dict.fromkeys(range(count), 0)
    cables = []
    for a, b in wanted:
        if a != b:
            ends = []
            for device in (a, b):
                used[device] += 1
                ends.append((device, used[device]))
            cables.append(tuple(ends))
    return cables


def _impure(rng: random.Random, hearer: tuple[int, int], heard: tuple[int, int], line: int) -> Cable:
    device, port = heard
    name = rng.choice([f"d{device}", f"D{device}", f"d{device}.example.com"])
    form = rng.randrange(4)
    far = [
        End(name, f"Ethernet{port}/1", PortIdKind.NAME),
        End(name, f"Eth{port}/1", description="Ethernet1/1"),
        End(name, f"02:00:00:00:{device:02x}:{port:02x}", PortIdKind.MAC),
        End(name, str(500 + port), PortIdKind.LOCAL, f"Et{port}/1"),
    ][form]
    near = End(f"d{hearer[0]}", rng.choice(["Et", "Eth", "Ethernet"]) + f"{hearer[1]}/1", PortIdKind.NAME)
    return Cable(near, far, None, Source(FILE, line), reported_by_a=True)


def _reports(cables, seed: int, skip: int | None = None) -> Survey:
    rng = random.Random(seed)
    said = []
    for i, (a, b) in enumerate(cables):
        # where both sides sent a MAC only, nobody could tell; the second side therefore names its port
        first = _impure(rng, a, b, 2 * i)
        second = _impure(rng, b, a, 2 * i + 1)
        while PortIdKind.MAC in (first.b.kind, second.b.kind) and first.b.kind == second.b.kind:
            second = _impure(rng, b, a, 2 * i + 1)
        said += [first, second] if i != skip else [first]
    rng.shuffle(said)
    names = {f"d{end[0]}" for cable in cables for end in cable} | {cable.b.device for cable in said}
    reporting = {f"d{end[0]}" for cable in cables for end in cable}
    devices = [Device(name, Source(FILE), Role.SWITCH, reports=name in reporting) for name in names]
    return Survey("test", "test", tuple(devices), tuple(said), (FILE,))


def _as_links(cables) -> set[frozenset[str]]:
    return {frozenset(f"d{device}:{port}" for device, port in cable) for cable in cables}


def _got(survey: Survey) -> set[frozenset[str]]:
    """Links by device and port number only: the oracle does not know our spellings."""
    return {
        frozenset(
            f"{end.device}:{end.port.removeprefix('Ethernet').removeprefix('Eth').removeprefix('Et')[:-2]}"
            for end in link.ends
        )
        for link in merge(survey).links
    }


@given(fabrics(), st.integers(0, 2**32))
@settings(max_examples=200)
def test_reports_of_both_sides_give_back_the_fabric(cables, seed):
    survey = _reports(cables, seed)
    assert _got(survey) == _as_links(cables)
    assert not [finding for finding in merge(survey).findings if finding.is_problem]


@given(fabrics().filter(bool), st.integers(0, 2**32), st.data())
@settings(max_examples=200)
def test_a_report_that_lost_a_line_loses_that_cable_and_says_so(cables, seed, data):
    lost = data.draw(st.integers(0, len(cables) - 1))
    survey = _reports(cables, seed, skip=lost)
    assert _got(survey) == _as_links(cables) - _as_links([cables[lost]])
    assert [finding.kind for finding in merge(survey).findings if finding.is_problem]


@given(fabrics(), st.integers(0, 2**32))
def test_the_order_of_the_statements_does_not_matter(cables, seed):
    survey = _reports(cables, seed)
    turned = Survey("test", "test", survey.devices[::-1], survey.cables[::-1], (FILE,))
    assert merge(survey) == merge(turned)
