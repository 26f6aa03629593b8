"""A reader of a board that is killed holds nothing any more; one that lives does, whatever the receiver does."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from flowcheck_net.checkpoint.placing import learn_placement
from flowcheck_net.plan.plan import expectation
from flowcheck_net.receive.replay import replay
from flowcheck_net.receive.synth import synthesize
from tests.doubles.payload_world import plan_of
from tests.dpdk.placing import SEED, Placed, by_port, receive
from tests.dpdk.receiving import needs_receiver

pytestmark = needs_receiver
READER = """
import os, sys
from pathlib import Path
from flowcheck_net.receive.board import Board
with Board(Path(sys.argv[1]), "dp0") as board:
    board.keep(os.getpid())
    with board.take(life=0) as held:
        print(held[0].number, flush=True)
        sys.stdin.read()
"""


@contextmanager
def reader(boards: Path) -> Iterator[None]:
    """It holds a slot and keeps the board; in the end it is killed."""
    command = [sys.executable, "-c", READER, str(boards)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip().isdigit()
            yield
        finally:
            process.kill()


def test_a_killed_reader_gives_back_what_it_held(tmp_path: Path) -> None:
    plan, capture, boards = plan_of("two-host"), tmp_path / "m.pcapng", tmp_path / "boards"
    synthesize(plan, capture, iterations=3, seed=SEED)
    text = learn_placement(expectation(plan), replay([capture]), trust_order=True).text
    files = by_port(capture, tmp_path)

    def again() -> tuple[Placed, set[int]]:
        placed = receive(plan, text, files, boards, slots=2)
        rows = map(json.loads, placed.log)
        return placed, {each["iteration"] for each in rows if each["event"] == "complete"}

    again()
    with reader(boards):
        placed, complete = again()
        (group,) = placed.said["groups"]
        assert (complete, group["readers_gone"]) == (set(), 0)
        assert group["no_room"] > 0
    placed, complete = again()
    (group,) = placed.said["groups"]
    assert group["readers_gone"] == 2
    assert complete
