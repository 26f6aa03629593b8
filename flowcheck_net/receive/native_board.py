"""The door to gradient boards in shared memory (receiver/core/fck_board.h)."""

import errno
import fcntl
import mmap
import os
import struct
from dataclasses import dataclass
from enum import IntEnum
from io import FileIO
from pathlib import Path
from typing import Any, Self

from flowcheck_net._native import ffi, lib
from flowcheck_net.errors import ReceiveError

SLOTS: int = lib.FCK_BOARD_SLOTS
JOURNAL: int = lib.FCK_BOARD_JOURNAL
_TAKEN, _HELD = 1 << 8, 1 << 9


class BoardState(IntEnum):
    """Of a slot."""

    FREE = lib.FCK_BOARD_FREE
    OPENING = lib.FCK_BOARD_OPENING
    OPEN = lib.FCK_BOARD_OPEN
    COMPLETE = lib.FCK_BOARD_COMPLETE
    """Every unit that carries gradient bytes is present."""
    GAPS = lib.FCK_BOARD_GAPS
    """Closed, and units are missing."""


class BoardEvent(IntEnum):
    """What was written into a board's journal."""

    COMPLETE = lib.FCK_BOARD_CLOSED_COMPLETE
    GAPS = lib.FCK_BOARD_CLOSED_GAPS
    REOPENED = lib.FCK_BOARD_REOPENED
    """It was complete, and units were taken back or contradicted since."""
    BROKEN = lib.FCK_BOARD_BROKEN
    """It was open when the receiver ended without closing it."""


@dataclass(frozen=True, slots=True)
class Closing:
    """An entry of the journal."""

    cycle: int
    life: int
    event: BoardEvent
    units: int
    """Present at that moment."""
    time_ns: int


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """A slot at one moment."""

    state: BoardState
    cycle: int
    life: int
    units: int
    """That are present."""
    withdrawn: int
    """Units taken back or contradicted so far."""
    closed_ns: int
    taken: bool
    held: bool


class NativeBoard:
    """A mapped board. Raises ReceiveError where the file is none of this version."""

    def __init__(self, path: Path) -> None:
        self._file = _opened(path)  # its locks say that this reader lives
        try:
            self._memory = mmap.mmap(self._file.fileno(), 0)
        except (OSError, ValueError) as fault:
            self._file.close()
            raise _not_opened(path, fault) from fault
        self._view: Any = ffi.from_buffer("uint8_t[]", self._memory, require_writable=True)
        self._board = ffi.cast("struct fck_board *", self._view)
        if lib.fck_board_check(self._board, len(self._memory)) != 0:
            self.close()
            raise ReceiveError(f"{path} is no gradient memory of this version", hint="remove it, or update the reader")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the mapping, and what is held with it; no view of its memory may be left."""
        ffi.release(self._view)
        self._memory.close()
        self._file.close()

    @property
    def group(self) -> str:
        """Its name."""
        return bytes(ffi.string(self._board.name)).decode()

    @property
    def plan(self) -> str:
        """Digest (hex) of the plan; empty: none was given."""
        return bytes(ffi.string(self._board.plan)).decode()

    def number(self, field: str) -> int:
        """A field of ``struct fck_board``."""
        return int(getattr(self._board, field))

    def keep(self, process: int) -> None:
        """From now on nothing is overwritten before it was taken; 0: no longer. Ends when this is closed, or dies."""
        if process:
            self._lock(fcntl.F_RDLCK, SLOTS, wait=True)  # several may want all
            self._board.keeper = process
        elif self._lock(fcntl.F_WRLCK, SLOTS):
            self._board.keeper = 0
        if not process:
            self._lock(fcntl.F_UNLCK, SLOTS)

    def _lock(self, kind: int, which: int, *, wait: bool = False) -> bool:
        """Of the open file, a byte of its own for each slot and for ``keep``; False: another has it."""
        words = struct.pack("hhqqi0q", kind, os.SEEK_SET, lib.FCK_BOARD_LOCKS + which, 1, 0)
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK, words)
        except BlockingIOError:
            return False
        return True

    def slot(self, number: int) -> SlotStatus:
        """A slot as it is now."""
        row = self._board.slot[number]
        word = row.word
        return SlotStatus(
            BoardState(word & 0xFF),
            *(row.iteration, row.life, row.laid, row.withdrawn, row.closed_ns),
            *(bool(word & _TAKEN), bool(word & _HELD)),
        )

    def next(self, life: int, start: int) -> int | None:
        """The slot of the lowest closed cycle from ``start`` on that was not taken."""
        found = lib.fck_board_next(self._board, life, start)
        return None if found < 0 else int(found)

    def hold(self, slot: int) -> bool:
        """Keep a closed slot from being used again; False: it is not closed, or another reader holds it."""
        if not self._lock(fcntl.F_WRLCK, slot):
            return False
        held = int(lib.fck_board_hold(self._board, slot, os.getpid())) == 0
        if not held:
            self._lock(fcntl.F_UNLCK, slot)
        return held

    def holder(self, slot: int) -> int:
        """Process id of the reader that holds the slot; 0: none."""
        return int(self._board.slot[slot].holder)

    def let_go(self, slot: int, *, taken: bool) -> None:
        """End ``hold``; ``taken``: it may be used again."""
        lib.fck_board_let_go(self._board, slot, taken)
        self._lock(fcntl.F_UNLCK, slot)

    def present(self, slot: int) -> bytes:
        """A copy of the presence bits: unit u is bit ``u & 7`` of byte ``u >> 3``."""
        at = lib.fck_board_present(self._board, slot)
        return bytes(ffi.buffer(at, (self.number("units") + 63) // 64 * 8))

    def data(self, slot: int, start: int, stop: int) -> bytes:
        """A copy of bytes ``start`` to ``stop`` (without), whatever is present."""
        if not 0 <= start <= stop <= self.number("size"):
            raise ValueError(f"bytes {start} to {stop} of a slot of {self.number('size')}")
        return bytes(ffi.buffer(lib.fck_board_data(self._board, slot) + start, stop - start))

    def closing(self, number: int) -> Closing | None:
        """An entry of the journal by its running number; None: not there yet. LookupError: overwritten."""
        out = ffi.new("struct fck_board_closing *")
        result = lib.fck_board_closing_get(self._board, number, out)
        if result == -errno.ENODATA:
            raise LookupError(number)
        if result < 0:
            return None
        return Closing(out.iteration, out.life, BoardEvent(out.event), out.laid, out.time_ns)


def _opened(path: Path) -> FileIO:
    try:
        return path.open("r+b", buffering=0)
    except OSError as fault:
        raise _not_opened(path, fault) from fault


def _not_opened(path: Path, fault: Exception) -> ReceiveError:
    return ReceiveError(f"{path} cannot be opened: {fault}", hint="is a receiver placing into that folder (--payload)?")
