"""SIGHUP with ``--payload``: bytes lie where the new plan says, and former boards stay where somebody may want them."""

import fcntl
import json
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from flowcheck_net.plan.plan import Plan, plan_to_json
from flowcheck_net.receive.board import Board
from flowcheck_net.receive.receiver_boards import set_aside
from flowcheck_net.receive.synth import synthesize
from tests.doubles.payload_world import plan_of, truth
from tests.dpdk.placing import layouts
from tests.dpdk.receiving import Running, needs_receiver, read, wait_until_idle
from tests.netns.veth import Namespace, namespace, needs_namespaces

pytestmark = [pytest.mark.alone, needs_receiver, needs_namespaces]
ITERATIONS = 8
GROUP = "dp0"
SPEEDS = (2.0, 1.0, 0.3)
"""An iteration each 250 ms, or slower."""


def bigger(plan: Plan) -> Plan:
    """Another job on the same fabric: its buckets have twice the elements, so every byte has another place."""
    wire = plan.job.wire
    buckets = tuple(replace(bucket, elements=2 * bucket.elements) for bucket in wire.buckets)
    return replace(plan, job=replace(plan.job, wire=replace(wire, buckets=buckets)))


def digest_of(plan: Plan) -> str:
    return str(json.loads(plan_to_json(plan))["digest"])


def complete(plan: Plan, boards: Path, seed: int) -> set[int]:
    """Iterations that lie in the boards' memory whole, their bytes those that were sent; nothing is taken."""
    if not (boards / f"{GROUP}.board").exists():
        return set()
    layout = layouts(plan)[GROUP]
    found = set()
    with Board(boards, GROUP) as board:
        assert board.plan == digest_of(plan)
        for number in range(ITERATIONS):
            with suppress(_KeepError), board.take(number) as held:
                if held and held[0].number == number and not held[0].missing(layout):
                    assert held[0].read(layout, 0, layout.size) == truth(plan, GROUP, number, seed)
                    found.add(number)
                raise _KeepError
    return found


class _KeepError(Exception):
    """So that the slot is not taken."""


def test_another_plan_places_elsewhere(tmp_path: Path) -> None:
    """Where the machine is too busy to tell iterations apart by their times, once more, slower."""
    for speed in SPEEDS:
        work = tmp_path / str(speed)
        work.mkdir()
        if once(work, speed):
            return
    pytest.fail("nothing was placed, however slowly it was sent")


def once(tmp_path: Path, speed: float) -> bool:
    """False: learnt too late, or not at all, to place the last iteration."""
    former, later = plan_of("two-host"), bigger(plan_of("two-host"))
    file, boards, output = tmp_path / "plan.json", tmp_path / "boards", tmp_path / "records.fcr"
    words: list[str | Path] = ["--plan", file, "--node", "ckpt1", "--interval", "0.1", "--no-hugepages"]
    words += [word for port in "01" for word in ("--port", f"cap{port}=af_packet:far{port}")]
    words += ["--payload", boards, "--payload-slots", "16"]
    file.write_text(plan_to_json(former))
    with namespace() as where:
        for port in "01":
            where.pair(f"near{port}", f"far{port}")
        with Running(where, output, *words) as running:
            send(where, former, tmp_path / "one.pcapng", speed, seed=7)
            wait_until_idle(running.child())
            before = complete(former, boards, seed=7)
            if ITERATIONS - 1 not in before:
                return False
            file.write_text(plan_to_json(later))
            running.process.send_signal(signal.SIGHUP)
            told = running.wait_for_start()
            send(where, later, tmp_path / "two.pcapng", speed, seed=8)
            wait_until_idle(running.child())
            after = complete(later, boards, seed=8)
            if ITERATIONS - 1 not in after:
                return False
            code, _, err = running.end()
    assert code == 0, err
    assert "placing payload of 2 queue pairs" in err
    (aside,) = boards.glob(f"{GROUP}.board.*")
    assert aside.name.endswith(digest_of(former)[:12])
    assert f"{aside} has iterations of the former plan that nobody has taken; remove it when they are\n" in told
    check_names(boards, digest_of(later))
    aside.rename(boards / f"{GROUP}.board")
    assert complete(former, boards, seed=7) == before
    assert any(digest_of(later) in warning for warning in read(output).warnings)
    return True


def send(where: Namespace, plan: Plan, capture: Path, speed: float, seed: int) -> None:
    synthesize(plan, capture, iterations=ITERATIONS, seed=seed)
    to = [word for port in "01" for word in ("--to", f"ckpt1:cap{port}=near{port}")]
    where.replay(*to, capture, "--speed", str(speed), check=True)


def check_names(boards: Path, digest: str) -> None:
    """A board of another plan stays, one that a receiver fills too; one whose iterations were all taken goes."""
    path = boards / f"{GROUP}.board"
    with Board(boards, GROUP) as board, path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # as a receiver has it
        assert set_aside(boards, digest) == ()
        fcntl.flock(file, fcntl.LOCK_UN)
        assert set_aside(boards, "0" * 64) == ()
        assert path.exists()
        for life in range(board.life + 1):
            while _take(board, life):
                pass
        assert set_aside(boards, f"sha256:{digest}") == ()
        assert not path.exists()
        assert board.complete is not None  # who has it open reads on


def _take(board: Board, life: int) -> bool:
    with board.take(life=life) as held:
        return bool(held)
