"""The receiver on a veth pair by net_af_packet. ``replay --to`` sends, and ``replay`` counts what was sent."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowcheck_net.receive.records import Flow, Records
from flowcheck_net.receive.replay import replay
from flowcheck_net.receive.synth import synthesize
from tests.doubles.synth_reading import example
from tests.dpdk.receiving import (
    RECEIVE,
    SAMPLES,
    Running,
    needs_receiver,
    needs_samples,
    read,
    receive,
    spool_of,
    timeless,
    wait_until_idle,
)
from tests.netns.veth import Namespace, namespace, needs_namespaces

pytestmark = [needs_receiver, needs_namespaces]
MTU = ("--mtu", "4256")
SAMPLE = SAMPLES / "captures" / "iter_80000.pcapng"


@pytest.fixture(scope="module")
def place() -> Iterator[Namespace]:
    with namespace() as made:
        made.pair("na", "fa")
        yield made


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of many messages, each packet another one."""
    capture = tmp_path_factory.mktemp("job") / "job.pcapng"
    synthesize(example("two-host"), capture, iterations=60)
    return capture


@needs_samples
def test_counts_are_those_of_what_was_sent(place: Namespace, tmp_path: Path) -> None:
    """VLAN tags, ARP, PTP, RoCEv2: 14 times the 483 frames go round a ring of frames that is smaller."""
    output = tmp_path / "records.fcr"
    with Running(place, output, "--port", "ckpt0:cap0=af_packet:fa", *MTU, "--interval", "0.1") as running:
        place.replay("--to", "na", SAMPLE, "--speed", "max", check=True)
        wait_until_idle(running.child())
        code, _, err = running.end()
        assert code == 0, err
    found = read(output)
    assert timeless(found) == timeless(replay([SAMPLE], captures={str(SAMPLE): "ckpt0:cap0"}))
    assert found.captures[0].dropped == 0
    assert abs(found.captures[0].last_time / 1e9 - time.time()) < 60


@needs_samples
def test_what_the_kernel_drops_is_counted(place: Namespace, tmp_path: Path) -> None:
    """The receiver sleeps while more comes than its ring holds: counted and dropped are what was sent."""
    output = tmp_path / "records.fcr"
    with Running(place, output, "--port", "x=af_packet:fa", *MTU) as running:
        os.kill(running.child(), signal.SIGSTOP)
        place.replay("--to", "na", SAMPLE, "--speed", "max", "--loop", "60", check=True)
        os.kill(running.child(), signal.SIGCONT)
        wait_until_idle(running.child())
        code, _, err = running.end(signal.SIGTERM)
        assert code == 0, err
    (capture,) = read(output).captures
    assert capture.dropped is not None
    assert capture.dropped > 1000
    assert capture.packets > 10000
    assert capture.packets + capture.dropped == 60 * 483
    assert capture.loss["kernel_ring"] == capture.dropped
    assert (capture.loss["missed"], capture.loss["errors"]) == (None, None)  # the driver does not know


@needs_samples
def test_what_waits_in_the_ring_is_counted_before_the_end(place: Namespace, tmp_path: Path) -> None:
    output = tmp_path / "records.fcr"
    with Running(place, output, "--port", "x=af_packet:fa", *MTU) as running:
        child = running.child()
        os.kill(child, signal.SIGSTOP)
        place.replay("--to", "na", SAMPLE, "--speed", "max", "--loop", "5", check=True)
        os.kill(child, signal.SIGTERM)
        os.kill(child, signal.SIGCONT)
        _, err = running.process.communicate(timeout=60)
        assert running.process.returncode == 0, err
    (capture,) = read(output).captures
    assert (capture.packets, capture.dropped) == (5 * 483, 0)


def test_a_full_ring_is_counted_before_the_end(place: Namespace, tmp_path: Path, job: Path) -> None:
    """40,320 frames wait at an MTU of 1,500, more than the 1,000 bursts that are taken where no ring is as long."""
    output = tmp_path / "records.fcr"
    packets = replay([job], captures={str(job): "x"}).captures[0].packets
    rounds = 39_000 // packets
    with Running(place, output, "--port", "x=af_packet:fa", "--mtu", "1500") as running:
        child = running.child()
        os.kill(child, signal.SIGSTOP)
        place.replay("--to", "na", job, "--speed", "max", "--loop", str(rounds), check=True)
        os.kill(child, signal.SIGTERM)
        os.kill(child, signal.SIGCONT)
        _, err = running.process.communicate(timeout=60)
        assert running.process.returncode == 0, err
    (capture,) = read(output).captures
    assert rounds * packets > 1_100 * 32
    assert (capture.packets, capture.dropped, capture.loss["worker0.unread"]) == (rounds * packets, 0, 0)
    assert capture.loss["before_start"] is not None


def test_an_xdp_socket(place: Namespace, tmp_path: Path) -> None:
    """Fewer packets than its ring holds: none can be lost, though it could not say so."""
    output, some = tmp_path / "records.fcr", tmp_path / "some.pcapng"
    synthesize(example("two-host"), some, iterations=6)
    place.pair("nx", "fx", mtu=1500)
    with Running(place, output, "--port", "x=af_xdp:fx", "--mtu", "1500", "--no-hugepages") as running:
        place.replay("--to", "nx", some, "--pps", "1000", check=True)
        wait_until_idle(running.child())
        code, _, err = running.end()
    assert code == 0, err
    sent = replay([some], captures={str(some): "x"})
    assert 0 < sent.captures[0].packets < 1000
    assert timeless(read(output)) == timeless(sent)
    assert read(output).captures[0].dropped is None


def test_killed_at_random_moments(place: Namespace, tmp_path: Path, job: Path) -> None:
    """It is started again each time; the records claim nothing that was not sent, and know that they lack something."""
    output = tmp_path / "records.fcr"
    draw = random.Random(os.getpid())
    with Running(place, output, "--port", "x=af_packet:fa", *MTU, "--interval", "0.05") as running:
        with place.start("--to", "na", job, "--pps", "700") as sender:
            for _ in range(2):
                time.sleep(0.3 + draw.random())
                os.kill(running.child(), signal.SIGKILL)
                running.wait_for_start()
            sender.communicate(timeout=60)
        assert sender.returncode == 0
        wait_until_idle(running.child())
        code, _, err = running.end()
        assert code == 9, err
        assert "the receiver died 2 times: signal 9" in err
    records, sent = read(output), replay([job], captures={str(job): "x"})
    claims_no_more(records, sent)
    assert records.captures[0].dropped is None
    assert sum(len(flow.messages) for flow in records.flows) > 0
    assert any("started 3 times" in warning for warning in records.warnings)


def claims_no_more(records: Records, sent: Records) -> None:
    """Complete messages are the very packets that were sent: their ICRCs say so."""
    flows = {(flow.source, flow.destination, flow.dest_qp): flow for flow in sent.flows}
    for flow in records.flows:
        full = flows[flow.source, flow.destination, flow.dest_qp]
        assert all(any(a <= first and last <= b for a, b in full.seen) for first, last in flow.seen)
        assert flow.packets["write"] <= full.packets["write"]
        truth = {message.position: message for message in full.messages}
        for message in flow.messages:
            if message.packets == message.expected_packets:
                assert of(message) == of(truth[message.position])
    assert sum(capture.packets for capture in records.captures) <= sum(capture.packets for capture in sent.captures)


def of(message: object) -> tuple[object, ...]:
    names = ("first_psn", "bytes", "packets", "expected_packets", "immediate", "opcode", "icrc_sum")
    return tuple(getattr(message, name) for name in names)


def test_a_killed_supervisor_leaves_what_recover_makes_records_of(place: Namespace, tmp_path: Path, job: Path) -> None:
    output = tmp_path / "records.fcr"
    with Running(place, output, "--port", "x=af_packet:fa", *MTU) as running:
        child = running.child()
        place.replay("--to", "na", job, "--speed", "max", check=True)
        wait_until_idle(child)
        running.process.kill()
        running.process.communicate(timeout=60)
        while Path(f"/proc/{child}").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text().split()[2]:
            time.sleep(0.05)
    refusal = receive(output, "--port", "x=net_null0", check=False)
    assert refusal.returncode == 2
    assert f"--recover -o {output}" in refusal.stderr
    done = receive(output, "--recover")
    assert "warning" not in done.stderr
    assert timeless(read(output)) == timeless(replay([job], captures={str(job): "x"}))
    assert not spool_of(output).exists()


def test_faults_of_interfaces(place: Namespace, tmp_path: Path) -> None:
    """Each with its cure, and nothing left behind."""

    def refused(*words: str, wrapped: tuple[str, ...] = ()) -> str:
        command = place.words(*wrapped, *RECEIVE, *words, "-o", tmp_path / "x.fcr")
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 9, done.stderr
        assert list(tmp_path.iterdir()) == []
        return done.stderr

    place.pair("nl", "fl", mtu=9000)
    said = refused("--port", "x=af_xdp:fl", "--mtu", "1500", "--no-hugepages")
    assert "this kernel gives no XDP socket here" in said  # not for frames longer than a page
    place.pair("nc", "fc", mtu=1500)
    said = refused("--port", "x=af_packet:fc")
    assert "fc has an MTU of 1500" in said
    assert "`ip link set fc mtu 4256`" in said
    assert "there is no interface fd here" in refused("--port", "x=af_packet:fd")
    said = refused("--port", "x=af_xdp:fa", "--mtu", "9000")
    assert "capture port x: net_af_xdp0 takes an MTU of 3" in said
    assert "at most, not 9000" in said
    assert "with --mtu" in said
    powerless = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")
    said = refused("--port", "x=af_packet:fc", "--mtu", "1500", wrapped=powerless)
    assert "no right to receive from fc" in said
    assert "CAP_NET_RAW" in said
    no_lock = ("setpriv", "--bounding-set=-all,+net_raw,+net_admin", "--inh-caps=-all,+net_raw,+net_admin")
    assert "CAP_IPC_LOCK" in refused("--port", "x=af_packet:fc", "--mtu", "1500", "--no-hugepages", wrapped=no_lock)


def test_flows_keep_their_place(place: Namespace) -> None:
    """A guard for ``claims_no_more``: it does see a claim too much."""
    empty = Records((), (), (), ())
    flow = Flow(*("x", "a", "b", 1), {"write": 1}, 0, None, ((0, 0),), (), 0, 0, 0, (), (), ())  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        claims_no_more(Records((), (), (), (flow,)), empty)
