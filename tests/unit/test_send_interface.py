"""Where frames may end up: interfaces and routes as files of a made-up /sys and /proc."""

import socket
from pathlib import Path

import pytest

from flowcheck_net.errors import SendError
from flowcheck_net.receive import send_interface
from flowcheck_net.receive.send_interface import behind, default_routes, look, transmit_counters

ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
{}
"""
ROUTES6 = "{zero} {length} {zero} 00 {zero} 00000400 00000001 00000000 {flags} {name}\n"


class Sys:
    """A /sys/class/net that grows."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(self, name: str, *, hardware: bool = False, lower: tuple[str, ...] = (), link: str = "") -> None:
        place = self.root / name
        place.mkdir()
        number = len(list(self.root.iterdir()))
        (place / "ifindex").write_text(f"{number}\n")
        (place / "iflink").write_text(f"{self.number(link) if link else number}\n")
        if hardware:
            (place / "device").mkdir()
        for each in lower:
            self.enslave(name, each, master=False)

    def number(self, name: str) -> int:
        return int((self.root / name / "ifindex").read_text())

    def enslave(self, upper: str, lower: str, *, master: bool = True) -> None:
        (self.root / upper / f"lower_{lower}").symlink_to(self.root / lower)
        if master:
            (self.root / lower / "master").symlink_to(self.root / upper)

    def pair(self, one: str, other: str) -> None:
        self.add(one)
        self.add(other, link=one)
        (self.root / one / "iflink").write_text(str(self.number(other)))


@pytest.fixture
def sys(tmp_path: Path) -> Sys:
    made = Sys(tmp_path)
    made.add("eth0", hardware=True)
    return made


def test_hardware_itself_and_what_stands_on_it(sys: Sys) -> None:
    sys.add("vlan7", lower=("eth0",))
    sys.add("bond0", lower=("eth0",))
    sys.add("br0", lower=("bond0",))
    sys.add("dummy0")
    found = {name: behind(name, sys.root) for name in ("eth0", "vlan7", "bond0", "br0", "dummy0")}
    assert found == {"eth0": "eth0", "vlan7": "eth0", "bond0": "eth0", "br0": "eth0", "dummy0": ""}


def test_a_veth_whose_other_end_is_in_a_bridge_with_hardware(sys: Sys) -> None:
    sys.pair("near", "far")
    assert behind("near", sys.root) == ""
    sys.add("br0")
    sys.enslave("br0", "far")
    assert behind("near", sys.root) == ""
    sys.enslave("br0", "eth0")
    assert behind("near", sys.root) == "eth0"
    assert behind("far", sys.root) == ""  # what is sent on it comes out of near, not in the bridge


def test_the_number_of_a_peer_in_another_namespace_means_nothing_here(sys: Sys) -> None:
    sys.add("br0")
    sys.add("other")
    sys.enslave("br0", "other")
    sys.enslave("br0", "eth0")
    sys.add("near", link="other")  # the same number, but other does not name near
    assert behind("near", sys.root) == ""


def test_circles_end(sys: Sys) -> None:
    sys.add("one")
    sys.add("two", lower=("one",))
    sys.enslave("one", "two", master=False)
    assert behind("one", sys.root) == ""
    assert behind("nosuch", sys.root) == ""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0", {"eth0"}),
        ("eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0", set()),
        ("eth0\t00000000\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0", set()),  # 0.0.0.0/8
        ("*\t00000000\t00000000\t0201\t0\t0\t0\t00000000\t0\t0\t0", set()),  # unreachable default
    ],
)
def test_default_routes_of_ipv4(tmp_path: Path, line: str, found: set[str]) -> None:
    (tmp_path / "route").write_text(ROUTES.format(line))
    assert default_routes(tmp_path) == found


@pytest.mark.parametrize(
    ("length", "flags", "found"), [("00", "00000003", {"eth1"}), ("40", "00000003", set()), ("00", "00200200", set())]
)
def test_default_routes_of_ipv6(tmp_path: Path, length: str, flags: str, found: set[str]) -> None:
    (tmp_path / "ipv6_route").write_text(ROUTES6.format(zero="0" * 32, length=length, flags=flags, name="eth1"))
    assert default_routes(tmp_path) == found


def test_no_routes_at_all(tmp_path: Path) -> None:
    assert default_routes(tmp_path) == frozenset()


def test_the_loopback_of_this_machine() -> None:
    names = [name for _, name in socket.if_nameindex()]
    if "lo" not in names:
        pytest.skip("no loopback interface here")
    try:
        facts = look("lo")
    except SendError as error:
        assert "is down" in error.message  # noqa: PT017 - a namespace without a loopback that is up
        return
    assert facts.longest == facts.mtu + 14
    assert facts.doubts == ()
    counters = transmit_counters("lo")
    assert counters is not None
    assert counters.packets >= 0
    assert transmit_counters("nosuch") is None


@pytest.mark.parametrize("name", ["nosuch", "", "a" * 16, "../lo"])
def test_names_that_are_no_interface(name: str) -> None:
    with pytest.raises(SendError, match="no such interface") as caught:
        look(name)
    assert "lo" in caught.value.hint


def test_both_doubts_are_told(monkeypatch: pytest.MonkeyPatch, sys: Sys, tmp_path: Path) -> None:
    (tmp_path / "route").write_text(ROUTES.format("eth0\t00000000\t0\t0003\t0\t0\t0\t00000000\t0\t0\t0"))
    monkeypatch.setattr(send_interface, "_SYS", sys.root)
    monkeypatch.setattr(send_interface, "_PROC", tmp_path)
    monkeypatch.setattr(socket, "if_nametoindex", sys.number)
    sys.add("vlan7", lower=("eth0",))
    assert send_interface._doubts("eth0", "") == ("is hardware", "carries the default route")
    assert send_interface._doubts("eth0", "0000:00:03.0")[0] == "is hardware (at 0000:00:03.0)"
    assert send_interface._doubts("l1h1", "tap")[0].startswith("is a tap: a program")
    assert send_interface._doubts("vlan7", "") == ("leads to hardware, eth0",)
    monkeypatch.setattr(socket, "if_nametoindex", lambda _: 99)  # /sys is that of another namespace
    assert send_interface._doubts("vlan7", "") == ()
