"""Messages as rows of bytes: a capture of a million messages costs no million objects before somebody asks for them.

A row is ``struct fck_message`` of receiver/core/fck.h as it stands in memory, little-endian; so it comes from the core
and goes into a records file without being looked at.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import overload

from flowcheck_net.receive.records import Message

ROW = struct.Struct("<qqQqqqqQQII")
"""Position, bytes, packets, expected packets, immediate, LL flag, ICRC sum, first and last time, first PSN, opcode. In
the signed ones but the position, -1 stands for None."""
_WORDS = ROW.size // 8
_UNKNOWN = -1


def message_of(row: tuple[int, ...]) -> Message:
    """The message of an unpacked row."""
    position, size, packets, expected, immediate, ll_flag, icrc_sum, first_time, last_time, first_psn, opcode = row
    return Message(  # in the order of its fields: by name it takes half as long again
        position,
        first_psn,
        None if size < 0 else size,
        packets,
        None if expected < 0 else expected,
        None if immediate < 0 else immediate,
        opcode,
        first_time,
        last_time,
        None if ll_flag < 0 else ll_flag,
        None if icrc_sum < 0 else icrc_sum,
    )


def rows_of(messages: Iterable[Message]) -> bytes:
    """The rows of messages; raises struct.error where a number has more than 64 bits."""
    if isinstance(messages, MessageRows):
        return messages.data
    return b"".join(map(_row_of, messages))


def _row_of(message: Message) -> bytes:
    optional = (message.bytes, message.expected_packets, message.immediate, message.ll_flag, message.icrc_sum)
    size, expected, immediate, ll_flag, icrc_sum = (_UNKNOWN if value is None else value for value in optional)
    return ROW.pack(
        *(message.position, size, message.packets, expected, immediate, ll_flag, icrc_sum),
        *(message.first_time, message.last_time, message.first_psn, message.opcode),
    )


def in_order(data: bytes) -> bytes:
    """The rows by position. What losses held up comes after what was finished earlier; the rest is sorted already."""
    positions = memoryview(data).cast("q")[::_WORDS].tolist()
    order = sorted(range(len(positions)), key=positions.__getitem__)
    if order == list(range(len(positions))):
        return data
    size = ROW.size
    return b"".join(data[at * size : (at + 1) * size] for at in order)


def moved(data: bytes, shift: int) -> bytes:
    """The rows with all positions ``shift`` higher."""
    if shift == 0:
        return data
    changed = bytearray(data)
    words = memoryview(changed).cast("q")
    for at in range(0, len(words), _WORDS):
        words[at] += shift
    return bytes(changed)


class MessageRows(Sequence[Message]):
    """A sequence of messages that is fetched when first looked into; going through it makes them, once."""

    __slots__ = ("_count", "_data", "_load", "_made")

    def __init__(self, count: int, load: Callable[[], bytes]) -> None:
        """``load`` gives ``count`` rows, in any order."""
        self._count = count
        self._load = load
        self._data: bytes | None = None
        self._made: tuple[Message, ...] | None = None

    @classmethod
    def of(cls, data: bytes) -> "MessageRows":
        """From rows at hand."""
        return cls(len(data) // ROW.size, lambda: data)

    @property
    def data(self) -> bytes:
        """The rows, by position."""
        if self._data is None:
            self._data = in_order(self._load())
        return self._data

    def tuples(self) -> Iterator[tuple[int, ...]]:
        """The numbers of each row, in the order of ``ROW``."""
        return ROW.iter_unpack(self.data)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice) -> Message | tuple[Message, ...]:
        if isinstance(index, slice):
            return tuple(self[number] for number in range(*index.indices(self._count)))
        number = range(self._count)[index]
        return message_of(ROW.unpack_from(self.data, number * ROW.size))

    def __iter__(self) -> Iterator[Message]:
        if self._made is None:
            self._made = tuple(map(message_of, self.tuples()))
        return iter(self._made)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, MessageRows):
            return self.data == other.data
        return tuple(self) == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        return f"MessageRows({list(self)!r})"
