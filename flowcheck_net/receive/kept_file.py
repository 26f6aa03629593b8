"""A file that stays readable while its name goes away: who reads later must not find it removed or replaced."""

import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Self

from flowcheck_net.errors import ReceiveError
from flowcheck_net.receive.records_rows import ROW, MessageRows


class KeptFile:
    """Holds a descriptor until nobody refers to it any more."""

    def __init__(self, descriptor: int, name: str) -> None:
        """Takes the descriptor over; ``name`` is for messages."""
        self._descriptor = descriptor
        self._name = name
        weakref.finalize(self, os.close, descriptor)

    @classmethod
    def opened(cls, path: Path) -> Self:
        """Raises OSError, as ``open`` does."""
        return cls(os.open(path, os.O_RDONLY | os.O_CLOEXEC), str(path))

    @classmethod
    def of(cls, file: BinaryIO, name: str) -> Self:
        """Of an open file, which may be closed and renamed afterwards."""
        return cls(os.dup(file.fileno()), name)

    def fileno(self) -> int:
        """Only to look at, never to close."""
        return self._descriptor

    @property
    def size(self) -> int:
        """Bytes, now."""
        return os.fstat(self._descriptor).st_size

    def rows(self, extents: Sequence[tuple[int, int]]) -> MessageRows:
        """Messages that stay in the file until somebody looks at them.

        Args:
            extents: offset and length of each piece, bytes.
        """
        count = sum(length for _, length in extents) // ROW.size
        return MessageRows(count, lambda: b"".join(self._piece(*extent) for extent in extents))

    def _piece(self, offset: int, length: int) -> bytes:
        """ReceiveError where somebody has cut the file since."""
        found = bytearray()
        while len(found) < length:
            part = os.pread(self._descriptor, length - len(found), offset + len(found))
            if not part:
                raise ReceiveError(
                    f"{self._name} was cut while it was being read: {length} bytes at {offset} are gone",
                    hint="nothing but its writer may change the file; make the records again",
                )
            found += part
        return bytes(found)
