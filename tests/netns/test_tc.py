"""tc on this kernel: which packets are copied, counted at the far end; what of others is left alone."""

import asyncio
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

from flowcheck_net.drivers.checks import limits_of
from flowcheck_net.drivers.tc import TcDriver, open_tc
from flowcheck_net.drivers.tc_shell import shell_of
from flowcheck_net.errors import ConnectError, Rejected
from flowcheck_net.ids import Address, SessionName, SwitchName
from flowcheck_net.intent import FlowFilter, MirrorSession, RemarkKind, SwitchAddress
from tests.conformance.bench import create, delete
from tests.doubles.eos_box import EosBox
from tests.doubles.ovs_lab import frame, mac
from tests.doubles.ssh_box import PASSWORD, USER, SshBox
from tests.doubles.switches import session as named
from tests.doubles.tc_lab import TcLab, missing

PORTS = ("host1", "host2", "uplink")
V4, V6 = ("10.0.0.1", "10.0.0.2"), ("fd77::1", "fd77::2")


@pytest.fixture(scope="module")
def lab() -> Iterator[TcLab]:
    if why := missing():
        pytest.skip(why)
    with TcLab() as made:
        made.add_bridge("br0", PORTS)
        made.add_cables(["mon1", "mon2"])
        yield made


@pytest.fixture
def bare(lab: TcLab) -> TcLab:
    """Without a classifier at any port: the driver leaves its own one there."""
    for port in PORTS:
        lab.run("sh", "-c", f"tc qdisc del dev {port} clsact 2>/dev/null || true")
    return lab


@pytest.fixture
def driver(bare: TcLab) -> Iterator[TcDriver]:
    where = SwitchAddress(SwitchName("leaf1"), "linux", f"tc:netns:{bare.namespace}")
    with TcDriver(where, "gpt", limits_of(where), shell_of(where.management)) as made:
        yield made


def pair(ends: tuple[str, str]) -> FlowFilter:
    return FlowFilter(Address(ends[0]), Address(ends[1]))


def tagged(data: bytes, *tags: tuple[int, int]) -> bytes:
    """``data`` with VLAN tags, (ethertype, VLAN), the outer one first."""
    return data[:12] + b"".join(struct.pack(">HH", kind, vlan) for kind, vlan in tags) + data[12:]


def with_options(data: bytes) -> bytes:
    """IPv4 with four bytes of no-operation options."""
    length = struct.unpack(">H", data[16:18])[0]
    longer = data[:14] + b"\x46" + data[15:16] + struct.pack(">H", length + 4) + data[18:34] + b"\x01" * 4 + data[34:]
    return summed(longer)


def later_fragment(data: bytes) -> bytes:
    """The same bytes as a fragment that is not the first: what stands in the place of ports are none."""
    return summed(data[:20] + struct.pack(">H", 100) + data[22:])


def changed(data: bytes, at: int, to: int) -> bytes:
    return summed(data[:at] + bytes([to]) + data[at + 1 :])


def summed(data: bytes) -> bytes:
    """With a right IPv4 header checksum: a bridge with netfilter drops packets without."""
    if data[12:14] != b"\x08\x00":
        return data
    end = 14 + 4 * (data[14] & 15)
    head = data[14:24] + bytes(2) + data[26:end]
    total = sum(struct.unpack(f">{len(head) // 2}H", head))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return data[:24] + struct.pack(">H", ~total & 0xFFFF) + data[26:]


def without(driver: TcDriver, *kinds: str) -> TcDriver:
    """As on a kernel that lacks these classifiers."""
    driver._missing |= set(kinds)
    return driver


UPLINK = 3
"""The number of the port to which all frames go."""
FOUR, SIX = frame(UPLINK, pair(V4)), frame(UPLINK, pair(V6))
FRAMES = {
    "v4": (FOUR, True),
    "v6": (SIX, True),
    "v4, one tag": (tagged(FOUR, (0x8100, 7)), True),
    "v6, one tag": (tagged(SIX, (0x8100, 7)), True),
    "v4, two tags": (tagged(FOUR, (0x88A8, 7), (0x8100, 8)), True),
    "v6, two tags": (tagged(SIX, (0x88A8, 7), (0x8100, 8)), True),
    "v4 with options": (with_options(FOUR), True),
    "v4 the other way": (frame(UPLINK, pair(V4[::-1])), False),
    "v6 the other way": (frame(UPLINK, pair(V6[::-1])), False),
    "v4 to another address": (changed(FOUR, 33, 3), False),
    "v6 to another address": (changed(SIX, 53, 3), False),
    "v4, another port": (changed(FOUR, 37, 0xB6), False),
    "v6, another port": (changed(SIX, 57, 0xB6), False),
    "v4, TCP": (changed(FOUR, 23, 6), False),
    "v6, TCP": (changed(SIX, 20, 6), False),
    "v4, a later fragment": (later_fragment(FOUR), False),
    "ARP": (FOUR[:12] + struct.pack(">H", 0x0806) + FOUR[14:], False),
}


def copies(lab: TcLab, frames: list[bytes], *, enters: str = "host1", monitor: str = "mon1") -> list[bytes]:
    """What arrives at a monitor port while these frames pass the bridge."""
    passed, copied = lab.listen("uplink"), lab.listen(monitor)
    lab.send(enters, frames)
    passed.wait_for(len(frames))
    copied.count()
    for each in (passed, copied):
        each.close()
    return copied.frames


@pytest.mark.parametrize("name", FRAMES)
def test_a_filter_chooses_by_addresses_and_udp_port(lab: TcLab, driver: TcDriver, name: str):
    data, chosen = FRAMES[name]
    driver.write(create(named("fcn-gpt-0", "host1:rx", to="mon1", filters=[V4, V6])))
    assert len(copies(lab, [data] * 3)) == (3 if chosen else 0)
    assert driver.counters().sessions == {"fcn-gpt-0": 3 if chosen else 0}


@pytest.mark.parametrize("name", [n for n in FRAMES if "tag" not in n and "options" not in n])
def test_u32_chooses_the_same_of_untagged_packets(lab: TcLab, driver: TcDriver, name: str):
    data, chosen = FRAMES[name]
    wanted = named("fcn-gpt-0", "host1:rx", to="mon1", filters=[V4, V6])
    without(driver, "bpf", "flower").write(create(wanted))
    assert "u32" in lab.run("tc", "filter", "show", "dev", "host1", "ingress")
    assert driver.read().owned == (wanted,)
    assert len(copies(lab, [data] * 3)) == (3 if chosen else 0)


@pytest.mark.parametrize("missing_kinds", [(), ("matchall", "bpf")])
def test_a_copy_is_the_packet_byte_for_byte_both_ways(lab: TcLab, driver: TcDriver, missing_kinds: tuple[str, ...]):
    without(driver, *missing_kinds).write(create(named("fcn-gpt-0", "uplink:rx", "uplink:tx", to="mon1")))
    sent = [data for data, _ in FRAMES.values()]
    back = frame(1, pair(V4[::-1]), 9)
    copied, arrived = lab.listen("mon1"), lab.listen("host1")
    lab.send("host1", sent)
    copied.wait_for(len(sent))
    lab.send("uplink", [back])
    copied.wait_for(len(sent) + 1)
    arrived.wait_for(1)
    # The kernel hands the outermost tag to a packet socket beside the frame.
    plain = [f[:12] + f[16:] if f[12:14] in (b"\x81\x00", b"\x88\xa8") else f for f in sent]
    assert copied.frames == [*plain, back]
    counts = driver.counters()
    assert sorted(counts.sources.values()) == [1, len(sent)]
    copied.close()
    arrived.close()


def test_a_packet_of_two_sessions_is_copied_for_each(lab: TcLab, driver: TcDriver):
    driver.write(
        create(named("fcn-gpt-0", "host1:rx", to="mon1"), named("fcn-gpt-1", "host1:rx", to="mon2", filters=[V4]))
    )
    second = lab.listen("mon2")
    assert len(copies(lab, [FOUR, SIX])) == 2
    assert second.count() == 1
    second.close()


def redirect_all(lab: TcLab, pref: int) -> None:
    """A filter of others: what comes into host1 leaves at mon2."""
    lab.run("tc", "qdisc", "add", "dev", "host1", "clsact")
    place = f"filter add dev host1 ingress protocol all pref {pref} u32 match u32 0 0"
    lab.run("tc", *place.split(), *["action", "mirred", "egress", "redirect", "dev", "mon2"])


def test_filters_of_others_still_do_what_they_did(lab: TcLab, driver: TcDriver):
    """A filter behind ours redirects: with any other ending than `continue` of ours, it would be skipped."""
    redirect_all(lab, pref=20000)
    driver.write(create(named("fcn-gpt-0", "host1:rx", to="mon1")))
    redirected, copied = lab.listen("mon2"), lab.listen("mon1")
    lab.send("host1", [FOUR] * 4)
    redirected.wait_for(4)
    copied.wait_for(4)
    redirected.close()
    copied.close()
    assert [s.destination for s in driver.read().foreign] == ["mon2"]
    before = lab.run("tc", "filter", "show", "dev", "host1", "ingress")
    driver.write(delete(named("fcn-gpt-0", "host1:rx", to="mon1")))
    after = lab.run("tc", "filter", "show", "dev", "host1", "ingress")
    assert "pref 20000" in after
    assert after in before
    assert "clsact" in lab.run("tc", "qdisc", "show", "dev", "host1")


def test_a_filter_that_stands_before_ours_is_remarked(lab: TcLab, driver: TcDriver):
    redirect_all(lab, pref=1)
    driver.write(create(named("fcn-gpt-0", "host1:rx", to="mon1")))
    (found,) = [r for r in driver.read().remarks if r.port == "host1"]
    assert "1 filters of others stand before ours" in found.text
    assert found.kind is RemarkKind.OTHER


def test_the_qdisc_stays_where_somebody_could_use_it_by_now(lab: TcLab, driver: TcDriver):
    one, two = named("fcn-gpt-0", "host1:rx", to="mon1"), named("fcn-gpt-1", "host1:tx", to="mon1")
    driver.write(create(one, two))
    driver.write(delete(one))
    assert "clsact" in lab.run("tc", "qdisc", "show", "dev", "host1")
    driver.write(delete(two))
    assert "clsact" in lab.run("tc", "qdisc", "show", "dev", "host1")
    assert lab.run("tc", "filter", "show", "dev", "host1", "ingress") == ""


def test_a_qdisc_that_was_there_before_us_stays(lab: TcLab, driver: TcDriver):
    lab.run("tc", "qdisc", "add", "dev", "host1", "clsact")
    made = named("fcn-gpt-0", "host1:rx", to="mon1")
    driver.write(create(made))
    driver.write(delete(made))
    assert "clsact" in lab.run("tc", "qdisc", "show", "dev", "host1")


def test_a_session_that_the_kernel_refuses_midway_leaves_nothing(
    lab: TcLab, driver: TcDriver, monkeypatch: pytest.MonkeyPatch
):
    """Of its three sources the second one's filters cannot be added: somebody took the place meanwhile."""
    look = driver._look
    machine = look()
    lab.run("tc", "qdisc", "add", "dev", "host2", "clsact")
    place = ("dev", "host2", "ingress", "protocol", "all", "pref", "4096", "u32")
    lab.run(
        "tc", "filter", "add", *place, "match", "u32", "0", "0", "action", "mirred", "egress", "mirror", "dev", "mon2"
    )
    stale = iter([machine])
    monkeypatch.setattr(driver, "_look", lambda: next(stale, None) or look())
    with pytest.raises(Rejected):
        driver.write(create(named("fcn-gpt-0", "host1:rx", "host2:rx", "uplink:rx", to="mon1")))
    assert driver.read().owned == ()
    for port, left in (("host1", ""), ("uplink", ""), ("host2", "pref 4096")):
        assert left in lab.run("tc", "filter", "show", "dev", port, "ingress")


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (named("fcn-gpt-0", "host1:rx", to="nowhere"), "no interface nowhere"),
        (named("fcn-gpt-0", "host9:rx", to="mon1"), "no interface host9"),
        (named("fcn-gpt-0", "mon1:rx", to="mon1"), "source and destination"),
        (named("fcn-gpt-0", "host1:rx", to="lo"), "loopback"),
        (named("fcn-gpt-4294967296", "host1:rx", to="mon1"), "cookie"),
        (named("fcn-gpt-007", "host1:rx", to="mon1"), "not a session of job"),
        (named("fcn-gpt-0", "host1:rx", to="mon1", filters=[("10.0.0.1", "fd77::2")]), "two IP versions"),
        (MirrorSession(SessionName("fcn-gpt-0"), (), named("x", to="mon1").destination), "no source"),
    ],
)
def test_what_cannot_be_is_refused(driver: TcDriver, wanted: MirrorSession, why: str):
    with pytest.raises(Rejected, match=why):
        driver.write(create(wanted))
    assert driver.read().owned == ()


def test_what_makes_copies_doubtful_is_remarked(lab: TcLab, driver: TcDriver):
    driver.write(create(named("fcn-gpt-0", "host1:rx", to="mon1")))
    lab.run("ip", "address", "add", "192.0.2.1/24", "dev", "mon1")
    lab.run("ip", "link", "set", "mon1", "mtu", "1500")
    lab.run("tc", "qdisc", "add", "dev", "mon1", "root", "tbf", "rate", "1mbit", "burst", "10k", "latency", "1ms")
    try:
        found = {r.kind: r.text for r in driver.read().remarks}
    finally:
        lab.run("ip", "address", "flush", "dev", "mon1")
        lab.run("ip", "link", "set", "mon1", "mtu", "9000")
        lab.run("tc", "qdisc", "del", "dev", "mon1", "root")
    assert found[RemarkKind.RESERVED_PORT].startswith("mon1 has the address 192.0.2.1")
    assert found[RemarkKind.POLICER] == "mon1 has a qdisc tbf: copies above its rate are lost"
    assert "MTU 9000" in found[RemarkKind.OTHER]


def test_copies_that_cannot_be_sent_are_not_counted_as_copies(lab: TcLab, driver: TcDriver):
    driver.write(create(named("fcn-gpt-0", "host1:rx", to="mon1")))
    lab.run("ip", "link", "set", lab.far("mon1"), "down")
    passed = lab.listen("uplink")
    lab.send("host1", [FOUR] * 5)
    passed.wait_for(5)
    passed.close()
    try:
        assert driver.counters().sessions == {"fcn-gpt-0": 0}
        assert "5 copies could not be sent" in {r.text for r in driver.read().remarks}
    finally:
        lab.run("ip", "link", "set", lab.far("mon1"), "up")


class Remote(SshBox):
    """A machine behind SSH whose commands run in the lab's namespace."""

    def __init__(self, lab: TcLab, directory: Path) -> None:
        super().__init__(EosBox(), directory)
        self._lab = lab

    async def _serve(self, process: "asyncssh.SSHServerProcess[str]") -> None:
        if process.command is None:
            await super()._serve(process)
            return
        words = ["nsenter", f"--net={self._lab.namespace}", "--", "sh", "-c", process.command]
        stdin = await process.stdin.read()
        done = await asyncio.to_thread(subprocess.run, words, input=stdin, text=True, capture_output=True, check=False)
        process.stdout.write(done.stdout)
        process.stderr.write(done.stderr)
        process.exit(done.returncode)


@pytest.mark.usefixtures("bare")
def test_the_same_over_ssh(lab: TcLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for key, value in (("USER", USER), ("PASSWORD", PASSWORD)):
        monkeypatch.setenv(f"FLOWCHECK_SWITCH_{key}", value)
    wanted = named("fcn-gpt-0", "host1:rx", to="mon1", filters=[V4, V6])
    with Remote(lab, tmp_path) as box:
        reference = f"tc:ssh:127.0.0.1:{box.port}?known_hosts={box.known_hosts}&retries=0"
        with open_tc(SwitchAddress(SwitchName("leaf1"), "linux", reference), "gpt", tmp_path) as driver:
            driver.write(create(wanted))
            assert driver.read().owned == (wanted,)
            assert len(copies(lab, [FOUR, SIX])) == 2
            assert driver.counters().sessions == {"fcn-gpt-0": 2}
            with pytest.raises(Rejected, match="no interface"):
                driver.write(create(named("fcn-gpt-1", "host1:rx", to="nowhere")))
            driver.write(delete(wanted))
            assert driver.read().owned == ()
        with pytest.raises(ConnectError, match="not connected"):
            driver.read()


def test_a_namespace_that_is_not_there_is_a_connect_error(tmp_path):
    where = SwitchAddress(SwitchName("leaf1"), "linux", "tc:netns:fcn-no-such-namespace")
    with pytest.raises(ConnectError, match="leaf1: there is no network namespace"), open_tc(where, "gpt", tmp_path):
        pass


def test_frames_of_these_tests_are_what_they_say():
    """The oracle's own oracle: offsets that were changed by hand above."""
    assert FOUR[23] == SIX[20] == socket.IPPROTO_UDP
    assert FOUR[36:38] == SIX[56:58] == struct.pack(">H", 4791)
    assert FOUR[30:34] == socket.inet_aton(V4[1])
    assert SIX[38:54] == socket.inet_pton(socket.AF_INET6, V6[1])
    assert FOUR[:6] == mac(UPLINK)
