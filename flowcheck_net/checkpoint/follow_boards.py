"""From the receiver's boards into files: each closed iteration is copied out at once, so that its memory is free again.

An iteration's files lie in ``OUT/iteration-N.partial`` in the form of ``docs/payload.md``, without a manifest: whether
they are proven is for ``follow_proof`` to say.
"""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

from flowcheck_net.errors import OutputError, Unobserved
from flowcheck_net.ids import GroupName
from flowcheck_net.receive.board import SUFFIX, Board, HeldIteration
from flowcheck_net.receive.gradient import iteration_directory
from flowcheck_net.receive.layout import GroupLayout, present_size
from flowcheck_net.receive.native_board import BoardEvent

_LOOK = 0.05
"""Seconds between two looks while something else is worked on."""


class Boards:
    """The boards of all groups of a job, which one or several receivers of this machine fill."""

    def __init__(self, folders: Sequence[Path], layouts: Mapping[GroupName, GroupLayout], out: Path) -> None:
        """``folders``: as given to ``receive --payload``; a board that is not there yet may come."""
        self._folders = folders
        self._layouts = {name: layout for name, layout in layouts.items() if layout.size}
        self._out = out
        self._stack = ExitStack()
        self._open: dict[GroupName, Board] = {}
        self._folder: dict[GroupName, Path] = {}
        self._journal: dict[GroupName, int] = {}
        self._next: dict[GroupName, int] = {}
        self.gone: dict[int, str] = {}
        """Iterations that will never be whole -> why."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for board in self._open.values():
            board.keep(0)
        self._stack.close()

    def open(self, plan_digest: str, start: int) -> bool:
        """Open what has come; True: all boards are there.

        Args:
            plan_digest: Of the plan in force.
            start: The first iteration that is wanted.

        Raises:
            OutputError: A board of another plan.
        """
        for group in self._layouts.keys() - self._open.keys():
            folder = next((each for each in self._folders if (each / f"{group}{SUFFIX}").exists()), None)
            if folder is None:
                continue
            board = self._stack.enter_context(Board(folder, group))
            if board.plan and board.plan != plan_digest.partition(":")[2] and board.plan != plan_digest:
                hint = "give the plan that the receiver was given"
                raise OutputError(f"{folder / group}{SUFFIX} is filled by another plan", hint=hint)
            board.free_dead()
            board.keep(os.getpid())
            _let_go_of_former(board)
            self._open[group], self._folder[group] = board, folder
            self._journal[group], self._next[group] = 0, start
        return len(self._open) == len(self._layouts)

    @property
    def lives(self) -> dict[str, int]:
        """Group -> life of its receiver."""
        return {str(group): board.life for group, board in sorted(self._open.items())}

    @property
    def newest(self) -> int | None:
        """The last iteration that was begun in any group; None: none is placed yet."""
        return max((board.newest for board in self._open.values() if board.newest is not None), default=None)

    def collect(self, stop: int) -> int:
        """Copy out what is closed of the iterations before ``stop``; how many there were."""
        count = 0
        for group, board in self._open.items():
            while self._next[group] < stop and (found := self._take(group, board)):
                count += found
            self._look_back(group, board)
        return count

    @contextmanager
    def collecting(self, stop: int) -> Iterator[None]:
        """Go on with ``collect`` for as long as the block lasts: receivers keep a few iterations only.

        Raises what ``collect`` raises, when the block ends.
        """
        over = threading.Event()

        def collect() -> None:
            while not over.wait(_LOOK):
                self.collect(stop)

        with ThreadPoolExecutor(1, "follow-boards") as pool:
            collected = pool.submit(collect)
            try:
                yield
            finally:
                over.set()
            collected.result()

    def _take(self, group: GroupName, board: Board) -> int:
        """Take the lowest closed slot; what is before the wanted iterations only gives its memory back."""
        wanted = self._next[group]
        with suppress(_TooEarlyError), board.take() as held:
            if held and held[0].number > wanted and board.being_filled(wanted):
                raise _TooEarlyError
            for one in held:
                if one.number >= wanted:
                    self._keep(group, one)
            if held and held[-1].number >= wanted:
                self._pass_over(group, board, wanted, held[0].number)
                self._next[group] = held[-1].number + 1
            return len(held)
        return 0

    def _keep(self, group: GroupName, one: HeldIteration) -> None:
        layout = self._layouts[group]
        try:
            data = one.read(layout, 0, layout.size)
        except Unobserved:
            self._lose(one.number, f"{group}: the data of {one.missing(layout)} packets were never observed")
            return
        present = one.present()[: present_size(layout.units)]
        if not one.unchanged:
            self._lose(one.number, f"{group}: packets contradicted what lay there")
            return
        directory = iteration_directory(self._out, one.number, complete=False)
        directory.mkdir(parents=True, exist_ok=True)
        durable(directory / f"{group}.gradient", data)
        durable(directory / f"{group}.present", present)

    def _pass_over(self, group: GroupName, board: Board, wanted: int, first: int) -> None:
        no_room, overwritten = board.lost_room
        lost = f"; it overwrote {overwritten:,} before anybody took them" if overwritten else ""
        lost += f"; {no_room:,} times it had no room for one" if no_room else ""
        for number in range(wanted, first):
            if not self._has(number, group):
                self._lose(number, f"{group}: it is in no memory of the receiver, the next is {first:,}{lost}")

    def _look_back(self, group: GroupName, board: Board) -> None:
        """What was complete when it was taken may have been contradicted since."""
        for number, entry in board.closed(self._journal[group]):
            self._journal[group] = number + 1
            if entry.event is BoardEvent.REOPENED and entry.life == board.life:
                for iteration in range(entry.first, entry.first + entry.iterations):
                    self._lose(iteration, f"{group}: packets were taken back or contradicted after it was complete")

    def _lose(self, number: int, why: str) -> None:
        self.gone.setdefault(number, why)

    def _has(self, number: int, group: GroupName) -> bool:
        return (iteration_directory(self._out, number, complete=False) / f"{group}.present").exists()

    def whole(self, number: int) -> bool:
        """Are the bytes of all groups in files?"""
        return number not in self.gone and all(self._has(number, group) for group in self._layouts)


def _let_go_of_former(board: Board) -> None:
    """What former lives of the receiver left would be kept for somebody who takes it."""
    for life in range(board.life):
        while True:
            with board.take(0, life) as held:
                if not held:
                    break


class _TooEarlyError(Exception):
    """A slot stays as it is, since an earlier iteration is still coming."""


def durable(path: Path, data: bytes) -> None:
    """Write a file that is there wholly or not at all, also after a loss of power. Raises OutputError."""
    new = path.with_name(f"{path.name}.new")
    try:
        with new.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        settle(path.parent)
    except OSError as error:
        raise OutputError(
            f"{path} cannot be written: {error.strerror or error}", hint="make room, or choose another --state"
        ) from error


def settle(directory: Path) -> None:
    """Names in a directory are on the disk when this returns."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
