"""Gradient memory that cannot be had: each refusal with its cure, and nothing is written over."""

import fcntl
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flowcheck_net.checkpoint.placing import learn_placement
from flowcheck_net.errors import ReceiveError
from flowcheck_net.plan.plan import expectation
from flowcheck_net.receive.replay import replay
from flowcheck_net.receive.synth import synthesize
from tests.doubles.payload_world import plan_of
from tests.dpdk.placing import SEED, Placed, by_port, receive
from tests.dpdk.receiving import needs_receiver

pytestmark = needs_receiver
Start = Callable[[Path, int], Placed]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Receives a small job into a folder with so many slots."""
    plan, capture = plan_of("two-host"), tmp_path / "m.pcapng"
    synthesize(plan, capture, iterations=3, seed=SEED)
    text = learn_placement(expectation(plan), replay([capture]), trust_order=True).text
    files = by_port(capture, tmp_path)

    def started(boards: Path, slots: int) -> Placed:
        return receive(plan, text, files, boards, slots=slots)

    return started


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 200 KB."""
    if os.geteuid() != 0:
        pytest.skip("a small disk is mounted, which needs root")
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "none", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_full_file_system(start: Start, small: Path) -> None:
    """The same the second time: an empty file that was left is no board of another size."""
    for _ in range(2):
        with pytest.raises(ReceiveError, match="No space left on device") as refused:
            start(small / "boards", 16)
        assert "--payload-slots" in refused.value.hint


def test_another_size_and_another_receiver(start: Start, tmp_path: Path) -> None:
    boards = tmp_path / "boards"
    start(boards, 4)
    board = boards / "dp0.board"
    before = board.read_bytes()
    with pytest.raises(ReceiveError, match="of another plan, or has another size") as refused:
        start(boards, 8)
    assert "remove the *.board files" in refused.value.hint
    with board.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(ReceiveError, match="another receiver places into") as refused:
            start(boards, 4)
        assert "another --payload folder" in refused.value.hint
    assert board.read_bytes() == before
