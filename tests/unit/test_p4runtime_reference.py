"""What stands after p4rt: in management, and what is said when it is wrong."""

from pathlib import Path

import pytest

from flowcheck_net.drivers.p4runtime_reference import Push, Reference, parse_reference
from flowcheck_net.drivers.registry import open_driver
from flowcheck_net.errors import ConnectError, PlanError
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import SwitchAddress


def test_the_shortest_form():
    assert parse_reference("p4rt:10.0.0.9:9559?device=0") == Reference("10.0.0.9", 9559, 0)


def test_a_socket_of_this_machine():
    found = parse_reference("p4rt:unix:/run/a/p4rt.sock?device=3&ports=p")
    assert (found.server, found.device, found.ports) == ("unix:/run/a/p4rt.sock", 3, "p")


def test_a_socket_where_nobody_listens(tmp_path: Path):
    reference = f"p4rt:unix:{tmp_path}/none.sock?device=1"
    driver = open_driver(SwitchAddress(SwitchName("leaf1"), "bmv2", reference), "gpt", Path())
    with pytest.raises(ConnectError, match=r"none\.sock cannot be reached: No such file"), driver:
        pass


def test_all_words():
    text = "p4rt:[2001:db8::9]:9559?device=1&election=7&role=mirror&tls=yes&name=leaf1&ports=Ethernet"
    assert parse_reference(text) == Reference("2001:db8::9", 9559, 1, 7, "mirror", True, "leaf1", "Ethernet")
    assert parse_reference(text).server == "[2001:db8::9]:9559"


def test_a_pipeline_to_push():
    found = parse_reference("p4rt:sw:1?device=1&p4info=/a/b.txtpb&program=/a/b.json&push=empty")
    assert (found.p4info, found.program, found.push) == (Path("/a/b.txtpb"), Path("/a/b.json"), Push.EMPTY)


@pytest.mark.parametrize(
    ("reference", "told"),
    [
        ("p4rt:leaf1", "does not name a P4Runtime server"),
        ("p4rt:leaf1:9559", "p4rt:HOST:9559?device=1"),
        ("p4rt:leaf1:99999?device=1", "does not name"),
        ("p4rt:leaf1:9559?role=x", "does not say which device"),
        ("p4rt:leaf1:9559?device=one", "device=one: a number"),
        ("p4rt:leaf1:9559?device=1&device=2", "'device=2' is not understood"),
        ("p4rt:leaf1:9559?device=1&password=x", "of device, election, role"),
        ("p4rt:leaf1:9559?device=1&tls=no", "write tls=yes, or leave it out"),
        ("p4rt:leaf1:9559?device=1&election=0", "use 1 or more"),
        ("p4rt:leaf1:9559?device=1&push=empty", "needs p4info=FILE and program=FILE"),
        ("p4rt:leaf1:9559?device=18446744073709551616", "below 2^64"),
    ],
)
def test_what_is_wrong_is_named(reference: str, told: str):
    with pytest.raises(ConnectError) as caught:
        open_driver(SwitchAddress(SwitchName("leaf1"), "bmv2", reference), "gpt", Path())
    assert told in caught.value.message
    assert caught.value.message.startswith("leaf1: ")


def test_a_platform_without_a_table_is_named():
    with pytest.raises(PlanError, match="leaf1: platform 'ip6' is not known"):
        open_driver(SwitchAddress(SwitchName("leaf1"), "ip6", "p4rt:a:1?device=1"), "gpt", Path())
