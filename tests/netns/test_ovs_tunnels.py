"""Copies to a collector over the fabric: ERSPAN and GRE tunnels that a session brings with it and takes away again."""

import struct
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from flowcheck_net.drivers.ovs_link import Link
from flowcheck_net.errors import Rejected
from flowcheck_net.intent import RemarkKind, StepKind
from tests.doubles.switches import session
from tests.netns.ovs_two_leaf import TwoLeaves

UNDER, FAR = "fcunder", "10.99.0.2"
REMOTE = session("fcn-gpt-6", "l1h1:rx", to=f"erspan:{FAR}")


@pytest.fixture
def collector(leaves: TwoLeaves) -> Iterator[str]:
    """A bridge with an address of the fabric, and the port behind which the collector is; its neighbour is known."""
    lab = leaves.lab
    if UNDER not in lab.vsctl("list-br").split():
        lab.add_bridge(UNDER, ["fcwire"])
        lab.run("ip", "address", "add", "10.99.0.1/24", "dev", UNDER)
        lab.run("ip", "link", "set", UNDER, "up")
        lab.ofctl(UNDER, "replace-flows", "-", stdin="table=0,priority=0,actions=NORMAL")
    lab.appctl("tnl/neigh/set", UNDER, FAR, "02:00:00:00:99:02")
    yield "fcwire"
    lab.appctl("tnl/neigh/flush")


def grown(frame: bytes) -> tuple[bytes, int, bytes, bytes]:
    """Outer destination MAC, GRE protocol, GRE header's rest, and what is inside; raises where it is no GRE in IPv4."""
    assert frame[12:14] == b"\x08\x00"
    assert frame[23] == 47
    flags, protocol = struct.unpack(">HH", frame[34:38])
    length = 4 + 4 * bool(flags & 0x2000) + 4 * bool(flags & 0x1000)
    return frame[:6], protocol, frame[38 : 34 + length], frame[34 + length :]


def test_erspan_copies_hold_the_whole_frame_and_the_session(leaves: TwoLeaves, collector: str):
    leaves.write(REMOTE)
    with leaves.listening(collector) as heard:
        sent = leaves.offer("host1", "host2", 4)
        heard[collector].wait_for(4)
        assert heard[collector].count() == 4
        for copy, original in zip(heard[collector].frames, sent, strict=True):
            mac, protocol, _, inner = grown(copy)
            assert (mac, protocol) == (bytes.fromhex("020000009902"), 0x88BE)
            assert inner[8:] == original
            # ERSPAN type II: version 1 in 4 bits, the session in 10 bits of the second half-word; ours is number + 1.
            word, session_word = struct.unpack(">HH", inner[:4])
            assert (word >> 12, session_word & 0x3FF) == (1, 7)
            # The figure of the platform table: Ethernet 14, IPv4 20, GRE 8, ERSPAN 8.
            assert len(copy) == len(original) + 50


def test_gre_copies_hold_the_whole_frame(leaves: TwoLeaves, collector: str):
    leaves.write(session("fcn-gpt-6", "l1h1:rx", to=f"gre:{FAR}"))
    with leaves.listening(collector) as heard:
        (sent,) = leaves.offer("host1", "host2", 1)
        heard[collector].wait_for(1)
        _, protocol, _, inner = grown(heard[collector].frames[0])
        assert (protocol, inner) == (0x6558, sent)


def test_the_tunnel_goes_with_its_session_and_two_never_share_one(leaves: TwoLeaves, collector: str):
    del collector
    before = leaves.lab.dump()
    # 6 and 1029 have the same ten bits.
    same = session("fcn-gpt-1029", "l1h2:rx", to=f"erspan:{FAR}")
    leaves.write(REMOTE, same)
    with leaves.open() as driver:
        assert driver.read().owned == (same, REMOTE)
    keys = [i for i in leaves.lab.dump()["Interface table"] if '"fcn' in i]
    assert len(keys) == 2
    assert sum('["key", "7"]' in k for k in keys) == 1
    leaves.write(same, kind=StepKind.DELETE)
    with leaves.open() as driver:
        assert driver.read().owned == (REMOTE,)
    leaves.write(REMOTE, kind=StepKind.DELETE)
    assert leaves.lab.dump() == before


def test_both_leaves_may_have_a_session_of_one_name_and_both_send(leaves: TwoLeaves, collector: str):
    """One ovs-vswitchd has one table of tunnels for all bridges: two of one key towards one end cannot both be."""
    leaves.write(REMOTE)
    there = session("fcn-gpt-6", "l2h3:rx", to=f"erspan:{FAR}")
    leaves.write(there, leaf="leaf2")
    with leaves.open("leaf2") as driver:
        state = driver.read()
    assert (state.owned, state.remarks) == ((there,), ())
    with leaves.listening(collector) as heard:
        leaves.offer("host1", "host2", 1)
        leaves.offer("host3", "host4", 1)
        heard[collector].wait_for(2)
        keys = [struct.unpack(">H", grown(f)[3][2:4])[0] & 0x3FF for f in heard[collector].frames]
    assert sorted(keys) == [7, 8]


def test_two_bridges_written_at_one_moment_get_two_keys(leaves: TwoLeaves, monkeypatch: pytest.MonkeyPatch):
    """Both choose before either writes: the one that is later chooses again."""
    both_chose = threading.Barrier(2)
    transact = Link.transact

    def after_both(link: Link, work: Sequence[Mapping[str, object]]) -> int:
        with suppress(threading.BrokenBarrierError):
            both_chose.wait(5)
            both_chose.abort()
        return transact(link, work)

    monkeypatch.setattr(Link, "transact", after_both)
    there = session("fcn-gpt-6", "l2h3:rx", to=f"erspan:{FAR}")
    with ThreadPoolExecutor(2) as pool:
        done = [pool.submit(leaves.write, REMOTE), pool.submit(leaves.write, there, leaf="leaf2")]
        assert [d.result() for d in done] == [None, None]
    found = [i for i in leaves.lab.dump()["Interface table"] if '"fcn' in i]
    assert {key for i in found for key in (7, 8) if f'["key", "{key}"]' in i} == {7, 8}


def test_the_key_of_a_tunnel_of_others_is_not_taken(leaves: TwoLeaves, collector: str):
    del collector
    theirs = ("type=erspan", f"options:remote_ip={FAR}", "options:erspan_ver=1", "options:erspan_idx=9")
    leaves.lab.vsctl("add-port", "leaf2", "theirs", "--", "set", "interface", "theirs", *theirs, "options:key=0x7")
    leaves.write(REMOTE)
    with leaves.open() as driver:
        assert driver.read().remarks == ()


def test_a_collector_without_a_way_or_a_neighbour_is_remarked(leaves: TwoLeaves, collector: str):
    lost = session("fcn-gpt-7", "l1h2:rx", to="erspan:192.0.2.9")
    leaves.write(REMOTE, lost)
    with leaves.open() as driver:
        found = [(r.session, r.kind) for r in driver.read().remarks]
    assert found == [("fcn-gpt-7", RemarkKind.NO_NEXT_HOP)]
    leaves.lab.appctl("tnl/neigh/flush")
    with leaves.open() as driver:
        texts = [r.text for r in driver.read().remarks if r.session == "fcn-gpt-6"]
    assert texts == [f"the next hop {FAR} is not resolved yet: the first copies are lost until it answers"]
    with leaves.listening(collector) as heard:
        leaves.offer("host1", "host2", 1)
        time.sleep(0.1)
        # What comes is the question for the neighbour, and no copy: the remark is right.
        assert heard[collector].count() >= 1
        assert all(f[12:14] == b"\x08\x06" for f in heard[collector].frames)


@pytest.mark.parametrize(
    ("to", "text"),
    [("erspan:nowhere", "is not the address"), ("erspan:", "is not the address"), ("vxlan:1.2.3.4", "no port")],
)
def test_destinations_that_are_none(leaves: TwoLeaves, to: str, text: str):
    with pytest.raises(Rejected, match=text):
        leaves.write(session("fcn-gpt-6", "l1h1:rx", to=to))
