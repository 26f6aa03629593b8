"""Gradients while they are received: a reader of the boards that ``flowcheck-net receive --payload`` fills.

A board is a file in memory, one a group, with a few slots. Each slot holds one cycle: most often one iteration, more
where queue pairs take turns. ``docs/payload.md`` describes it, and what a reader must look at.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from flowcheck_net.errors import Unobserved
from flowcheck_net.receive.layout import GroupLayout, present_size
from flowcheck_net.receive.native_board import JOURNAL, BoardEvent, BoardState, NativeBoard

SUFFIX = ".board"


@dataclass(frozen=True, slots=True)
class Closed:
    """Iterations that were closed, by the journal."""

    first: int
    """Number of the first iteration."""
    iterations: int
    """So many, from ``first`` on."""
    life: int
    """Of the receiver: each start counts one up."""
    event: BoardEvent
    units: int
    """Present then."""
    time_ns: int


class HeldIteration:
    """One iteration in a slot that this process holds. Nothing can overwrite it; packets may still withdraw bytes."""

    def __init__(self, board: NativeBoard, slot: int, number: int, place: int) -> None:
        """``place``: of the iteration in the slot's cycle."""
        self._board = board
        self._slot = slot
        self._size = board.number("size") // board.number("cycle")
        self._units = board.number("units") // board.number("cycle")
        self._place = place
        self.number = number
        self._withdrawn = board.slot(slot).withdrawn

    @property
    def size(self) -> int:
        """Bytes of gradient."""
        return self._size

    @property
    def unchanged(self) -> bool:
        """Nothing was withdrawn since it was held. Look after reading: what was read before may be wrong otherwise."""
        return self._board.slot(self._slot).withdrawn == self._withdrawn

    def present(self) -> bytes:
        """Presence bits of this iteration, as in ``GROUP.present`` (whole words)."""
        size = self._units // 8
        return self._board.present(self._slot)[self._place * size : (self._place + 1) * size]

    def missing(self, layout: GroupLayout) -> int:
        """Units with gradient bytes that are not present."""
        present = self.present()[: present_size(layout.units)]
        return sum(1 for piece in layout.pieces for u in layout.carriers(piece) if not _bit(present, u))

    def read(self, layout: GroupLayout, start: int, length: int) -> bytes:
        """Bytes of the gradient, from ``start`` on.

        Raises:
            Unobserved: one of them is not there, or was contradicted while it was read.
            ValueError: beyond the gradient.
        """
        if start < 0 or length < 0 or start + length > self._size:
            raise ValueError(f"bytes {start} to {start + length} of a gradient of {self._size}")
        at = self._place * self._size + start
        data = self._board.data(self._slot, at, at + length)
        present = self.present()  # after the bytes: what is withdrawn meanwhile is seen
        gone = sum(1 for unit in layout.units_over(start, start + length) if not _bit(present, unit))
        if gone:
            raise Unobserved(f"{self._board.group}: {gone} packets of bytes {start} to {start + length} are not there")
        return data


class Board:
    """The gradients of one group, while they are received."""

    def __init__(self, folder: Path, group: str) -> None:
        """``folder``: as given to ``receive --payload``. ReceiveError: there is no board of the group."""
        self._native = NativeBoard(folder / f"{group}{SUFFIX}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._native.close()

    @property
    def plan(self) -> str:
        """Digest (hex) of the plan; empty: none was given."""
        return self._native.plan

    @property
    def life(self) -> int:
        """Of the receiver that places now."""
        return self._native.number("life")

    @property
    def cycle(self) -> int:
        """Iterations in a slot."""
        return self._native.number("cycle")

    @property
    def newest(self) -> int | None:
        """The last iteration of the newest cycle that was begun."""
        return self._last("newest")

    @property
    def complete(self) -> int | None:
        """The last iteration of the newest cycle of which all bytes were there."""
        return self._last("complete")

    def _last(self, field: str) -> int | None:
        return self._native.number(field) * self.cycle - 1 if self._native.number(field) else None

    @property
    def lost_room(self) -> tuple[int, int]:
        """How often packets found no slot for their iteration; slots overwritten that nobody had taken."""
        return self._native.number("no_room"), self._native.number("overwritten")

    def keep(self, process: int) -> None:
        """Let nothing be overwritten before it was taken, as long as this process lives; 0: no longer.

        Packets that then find no slot are not stored: take in time.
        """
        self._native.keep(process)

    def free_dead(self) -> int:
        """Let go of what readers hold that are not alive any more; how many slots. Such a slot was not taken."""
        freed = 0
        for slot in range(self._native.number("slots")):
            holder = self._native.holder(slot)
            if holder and not Path(f"/proc/{holder}").exists():
                self._native.let_go(slot, taken=False)
                freed += 1
        return freed

    def being_filled(self, iteration: int) -> bool:
        """Is a slot open for the cycle of this iteration, in the life that places now?"""
        found = (self._native.slot(number) for number in range(self._native.number("slots")))
        wanted = self.life, iteration // self.cycle
        return any(s.state in (BoardState.OPENING, BoardState.OPEN) and (s.life, s.cycle) == wanted for s in found)

    def closed(self, since: int = 0) -> Iterator[tuple[int, Closed]]:
        """(running number, entry) of the journal from ``since`` on; entries that were overwritten are left out."""
        end = self._native.number("journal_next")
        for number in range(max(since, end - JOURNAL), end):
            try:
                found = self._native.closing(number)
            except LookupError:
                continue
            if found is None:
                return
            first = found.cycle * self.cycle
            yield number, Closed(first, self.cycle, found.life, found.event, found.units, found.time_ns)

    @contextmanager
    def take(self, start: int = 0, life: int | None = None) -> Iterator[tuple[HeldIteration, ...]]:
        """The iterations of the next closed cycle that ends at ``start`` or later; empty: there is none yet.

        They are taken, and their memory may be used again, when the block ends without an exception.
        """
        cycle = self.cycle
        slot = self._native.next(self.life if life is None else life, start // cycle)
        if slot is None or not self._native.hold(slot):
            yield ()
            return
        first = self._native.slot(slot).cycle * cycle
        done = False
        try:
            yield tuple(HeldIteration(self._native, slot, first + n, n) for n in range(cycle))
            done = True
        finally:
            self._native.let_go(slot, taken=done)

    def whole(self, first: int) -> bool:
        """Is the cycle that begins with iteration ``first`` in a slot with all its bytes now?"""
        found = (self._native.slot(number) for number in range(self._native.number("slots")))
        return any(
            each.state is BoardState.COMPLETE and each.cycle * self.cycle == first and each.life == self.life
            for each in found
        )


def _bit(bits: bytes, unit: int) -> bool:
    return bool(bits[unit >> 3] >> (unit & 7) & 1)
