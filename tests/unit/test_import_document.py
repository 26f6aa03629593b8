"""From proven links to a topology document: roles, order, names, and what is left out on purpose."""

from typing import Any

from flowcheck_net.importers.cables import Cable, Device, End, FindingKind, Role, Source, Survey
from flowcheck_net.importers.options import Choice, Options
from flowcheck_net.importers.run import import_topology

FILE = "x"


def _end(text: str) -> End:
    device, _, port = text.partition(":")
    return End(device, port)


def _survey(*cables: tuple[str, str, str | None], **roles: Role) -> Survey:
    devices = tuple(Device(name.replace("_", "-"), Source(FILE), role) for name, role in roles.items())
    said = tuple(
        Cable(_end(a), _end(b), speed, Source(FILE, line)) for line, (a, b, speed) in enumerate(cables, start=1)
    )
    return Survey("test", "test", devices, said, (FILE,))


def _document(survey: Survey, **options: Any) -> dict[str, Any]:
    return dict(import_topology(survey, Options(**options)).imported.document)


def _said(survey: Survey, kind: FindingKind, **options: Any) -> list[str]:
    findings = import_topology(survey, Options(**options)).imported.findings
    return [finding.message for finding in findings if finding.kind is kind]


def test_a_host_comes_first_in_its_link_whatever_its_name():
    survey = _survey(("a:e1", "z:m0", None), ("a:e2", "b:e1", None), a=Role.SWITCH, b=Role.SWITCH, z=Role.HOST)
    assert _document(survey)["links"] == [["z:m0", "a:e1"], ["a:e2", "b:e1"]]


def test_a_switch_may_be_called_like_a_checkpoint_node():
    survey = _survey(("ckpt-leaf:e1", "ckpt-1:m0", None), ckpt_leaf=Role.SWITCH, ckpt_1=Role.HOST)
    document = _document(survey)
    assert [switch["name"] for switch in document["switches"]] == ["ckpt-leaf"]
    assert [node["name"] for node in document["checkpoint_nodes"]] == ["ckpt-1"]


def test_a_link_below_10g_is_left_out_and_its_devices_need_no_role():
    survey = _survey(("a:e1", "h:m0", "100G"), ("a:e2", "oob:e1", "1G"), a=Role.SWITCH, h=Role.HOST)
    survey = Survey("test", "test", (*survey.devices, Device("oob", Source(FILE))), survey.cables, (FILE,))
    assert _document(survey)["links"] == [["h:m0", "a:e1"]]
    assert _said(survey, FindingKind.IGNORED) == ["a:e2 -- oob:e1: 1G is no speed of a training fabric (10G to 800G)"]
    assert _said(survey, FindingKind.UNKNOWN_ROLE) == []


def test_a_known_speed_is_kept_and_an_open_one_answered():
    survey = _survey(("a:e1", "h:m0", "100G"), ("a:e2", "h:m1", None), a=Role.SWITCH, h=Role.HOST)
    ports = _document(survey, speed=(Choice("*", "400G"),))["switches"][0]["ports"]
    assert ports == [{"name": "e1", "speed": "100G"}, {"name": "e2", "speed": "400G"}]


def test_a_name_that_our_files_cannot_hold_is_renamed_and_said():
    survey = _survey(("a:e 1", "h:m/0", None), a=Role.SWITCH, h=Role.HOST)
    assert _document(survey)["links"] == [["h:m-0", "a:e-1"]]  # a NIC name holds no slash, a port name does
    assert _said(survey, FindingKind.RENAMED) == ["e 1 is written e-1", "m/0 is written m-0"]


def test_a_port_is_excluded_in_either_spelling():
    survey = _survey(("a:Eth1/1", "h:m0", None), ("a:Eth1/2", "h:m1", None), a=Role.SWITCH, h=Role.HOST)
    for glob in ("a:Eth1/1", "a:Ethernet1/1", "h:m0"):
        assert _document(survey, exclude=(glob,))["links"] == [["h:m1", "a:Eth1/2"]]
    assert _said(survey, FindingKind.IGNORED, exclude=("a:Ethernet1/1",)) == ["a:Eth1/1 -- h:m0: excluded"]


def test_kinds_of_open_values_are_said_once_each():
    hosts = {f"h{n}": Role.HOST for n in range(9)}
    survey = _survey(*((f"a:e{n}", f"h{n}:m0", None) for n in range(9)), a=Role.SWITCH, **hosts)
    said = _said(survey, FindingKind.FILL)
    assert "the source does not tell the address of h0:m0, h1:m0, h2:m0, h3:m0 and 5 more" in said
    assert len(said) == 5  # addresses, management, platform, speeds, checkpoint nodes
