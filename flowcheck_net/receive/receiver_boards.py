"""Gradient boards of a plan that is in force no more: they leave their names to those of the next one."""

import fcntl
from pathlib import Path

from flowcheck_net.receive.board import SUFFIX
from flowcheck_net.receive.native_board import NativeBoard

_SHOWN_DIGITS = 12


def set_aside(folder: Path, plan_digest: str) -> tuple[Path, ...]:
    """Boards of a plan that no receiver fills now. Readers that have them open read on, whatever their name.

    Args:
        folder: Of the boards.
        plan_digest: Of the former plan.

    Returns:
        Where those are now that hold iterations which no reader has taken; the others are removed.

    Raises:
        ReceiveError: a board is of another version.
        OSError: the folder cannot be changed.
    """
    former = plan_digest.partition(":")[2] or plan_digest
    kept = []
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        with NativeBoard(path) as board:
            if board.plan != former or _is_filled(path):
                continue
            wanted = _untaken(board)
        if not wanted:
            path.unlink()
            continue
        aside = path.with_name(f"{path.name}.{former[:_SHOWN_DIGITS]}")
        path.replace(aside)
        kept.append(aside)
    return tuple(kept)


def _is_filled(path: Path) -> bool:
    """By a receiver: it has the lock as long as it lives."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _untaken(board: NativeBoard) -> bool:
    """Is there an iteration that nobody has taken, or that somebody reads just now?"""
    lives = range(board.number("life") + 1)
    held = any(board.slot(slot).held for slot in range(board.number("slots")))
    return held or any(board.next(life, 0) is not None for life in lives)
