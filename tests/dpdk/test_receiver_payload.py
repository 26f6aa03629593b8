"""``receive --payload`` on veth pairs: queue pairs are learnt while packets come, and then their payload is placed."""

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import pytest

from flowcheck_net.errors import Unobserved
from flowcheck_net.plan.plan import Plan, plan_to_json
from flowcheck_net.receive.board import Board
from flowcheck_net.receive.layout import GroupLayout
from flowcheck_net.receive.native_board import BoardEvent
from flowcheck_net.receive.synth import synthesize
from tests.doubles.payload_world import plan_of, truth
from tests.dpdk.placing import SEED, layouts
from tests.dpdk.receiving import Running, ask, needs_receiver, spool_of, wait_until_idle
from tests.netns.veth import namespace, needs_namespaces

pytestmark = [pytest.mark.alone, needs_receiver, needs_namespaces]
ITERATIONS = 12


def test_learnt_while_packets_come_and_kept_when_the_receiver_is_killed(tmp_path: Path) -> None:
    plan = plan_of("two-host")
    (tmp_path / "plan.json").write_text(plan_to_json(plan))
    capture, boards, output = tmp_path / "m.pcapng", tmp_path / "boards", tmp_path / "records.fcr"
    synthesize(plan, capture, iterations=ITERATIONS, seed=SEED)
    ports = [word for port in "01" for word in ("--port", f"cap{port}=af_packet:far{port}")]
    words: tuple[str | Path, ...] = (
        "--plan",
        tmp_path / "plan.json",
        "--node",
        "ckpt1",
        *ports,
        "--payload",
        boards,
        "--payload-slots",
        "16",
    )
    with namespace() as place:
        place.pair("near0", "far0")
        place.pair("near1", "far1")
        with Running(place, output, *words, "--interval", "0.05", "--no-hugepages") as running:
            to = [word for port in "01" for word in ("--to", f"ckpt1:cap{port}=near{port}")]
            place.replay(*to, capture, "--speed", "2", check=True)
            wait_until_idle(running.child())
            placed = _complete(plan, boards)
            told = ask(f"flowcheck{running.process.pid}", "/flowcheck/groups")["0"]
            assert (told["group"], told["newest"], told["complete"], told["behind"]) == (
                *("dp0", ITERATIONS - 1, ITERATIONS - 1, 0),
            )
            assert abs(told["complete_time"] / 1e9 - time.time()) < 60
            assert (told["no_room"], told["readers_gone"]) == (0, 0)
            assert len(placed) >= 3
            assert placed[-1] == ITERATIONS - 1
            (log,) = spool_of(output).glob("life-0.spool.iterations")
            written = [json.loads(line) for line in log.read_text().splitlines()]
            assert {each["iteration"] for each in written if each["event"] == "complete"} >= set(placed[:-1])
            os.kill(running.child(), signal.SIGKILL)
            code, _, err = running.end()
    assert "placing payload of 2 queue pairs" in err
    assert code in (0, 9), err
    assert _complete(plan, boards) == placed  # what was closed lies there as before


def _complete(plan: Plan, boards: Path) -> list[int]:
    """Numbers of complete iterations in memory, by the journal; their bytes are those that were sent."""
    found: list[int] = []
    number: int | None = 0
    layout = layouts(plan)["dp0"]
    with Board(boards, "dp0") as board:
        closed = {entry.first: entry for _, entry in board.closed()}
        truths = {n: truth(plan, "dp0", n) for n in closed}
        while number is not None:
            number = _look(board, layout, number, truths, found)
        assert found == [n for n, entry in sorted(closed.items()) if entry.event is BoardEvent.COMPLETE]
    return found


def _look(board: Board, layout: GroupLayout, start: int, truths: dict[int, bytes], found: list[int]) -> int | None:
    """Where to look next; the slot is not taken."""
    with suppress(_KeepError), board.take(start, life=0) as held:
        if not held:
            return None
        (one,) = held
        if one.missing(layout):
            with pytest.raises(Unobserved):
                one.read(layout, 0, layout.size)
        else:
            assert one.read(layout, 0, layout.size) == truths[one.number]
            found.append(one.number)
        raise _KeepError
    return one.number + 1


class _KeepError(Exception):
    """So that the slot is not taken."""
