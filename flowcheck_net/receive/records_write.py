"""Writes the records container: blocks of rows as they come, an index at the end (docs/records-format.md)."""

import json
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import starmap
from pathlib import Path
from typing import Any, BinaryIO, Self

from flowcheck_net.errors import ReceiveError
from flowcheck_net.receive.native_records import FORMAT, Kind
from flowcheck_net.receive.records import Cause, Flow, Gap, Missing, Records
from flowcheck_net.receive.records_place import copy_all, nameless, records_place
from flowcheck_net.receive.records_rows import rows_of

MAGIC = b"\x89FCR\r\n\x1a\n"
HEAD = struct.Struct("<8sIIQ")
"""Magic, version, checksum of the rest, bytes of the whole file (0: not finished)."""
BLOCK = struct.Struct("<IIIIQ")
"""Kind, chain, flow, checksum of the rest and the content, bytes of the content."""
SEEN = struct.Struct("<qq")
REPEAT = struct.Struct("<qQ")
MISSING = struct.Struct("<qQIIII")
GAP = struct.Struct("<qQQII")
CAUSES = tuple(Cause)
ARRAYS = {"seen": Kind.SEEN, "repeats": Kind.REPEATS, "missing": Kind.MISSING, "gaps": Kind.GAPS}
"""Fields of a flow that stand in blocks, apart from its messages."""
_COUNTED = frozenset({*ARRAYS, "messages"})
_BLOCK_LEAST = 1 << 16
"""Rows of a flow are held back until they are so many bytes: a small block costs as much as a big one."""
_HELD_MOST = 1 << 24
"""Bytes held back for all flows together."""

FlowId = tuple[int, int]
"""Chain and number within it."""


def seal(first: bytes, last: bytes, content: bytes = b"") -> int:
    """The checksum of a head, of which these are the parts before and behind it, and of the content."""
    return zlib.crc32(content, zlib.crc32(first + last))


def write_block(file: BinaryIO, kind: Kind, flow: FlowId, content: bytes) -> int:
    """Write one block; returns its bytes."""
    first, last = struct.pack("<III", kind, *flow), struct.pack("<Q", len(content))
    file.write(BLOCK.pack(kind, *flow, seal(first, last, content), len(content)))
    file.write(content)
    return BLOCK.size + len(content)


def _head(size: int) -> bytes:
    first, last = struct.pack("<8sI", MAGIC, FORMAT), struct.pack("<Q", size)
    return HEAD.pack(MAGIC, FORMAT, seal(first, last), size)


class MessageSpool:
    """Blocks of messages of one chain, in a file, and where the rows of each flow lie in it."""

    def __init__(self, file: BinaryIO, chain: int) -> None:
        self.file = file
        self._chain = chain
        self._held: dict[int, list[bytes]] = defaultdict(list)
        self._sizes: dict[int, int] = defaultdict(int)
        self._all_held = 0
        self.extents: dict[int, list[tuple[int, int]]] = defaultdict(list)
        """By flow: offset in the file and length of its rows."""

    def add(self, flow: int, rows: bytes) -> None:
        """More rows of a flow."""
        self._held[flow].append(rows)
        self._sizes[flow] += len(rows)
        self._all_held += len(rows)
        if self._sizes[flow] >= _BLOCK_LEAST:
            self._write(flow)
        if self._all_held >= _HELD_MOST:
            self.flush()

    def flush(self) -> None:
        """Write what is held back."""
        for flow in tuple(self._held):
            self._write(flow)

    def _write(self, flow: int) -> None:
        rows = b"".join(self._held.pop(flow))
        self._all_held -= self._sizes.pop(flow)
        self.extents[flow].append((self.file.tell() + BLOCK.size, len(rows)))
        write_block(self.file, Kind.MESSAGES, (self._chain, flow), rows)


class RecordsWriter:
    """A records file in the making. Messages go to spools, one for each chain, while they come."""

    def __init__(self, file: BinaryIO, folder: Path) -> None:
        """Begins ``file``, which must be seekable; further spools are nameless files in ``folder``."""
        self._file = file
        self._folder = folder
        self._spools: list[MessageSpool] = []
        self.restart()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        for spool in self._spools[1:]:
            spool.file.close()

    def restart(self) -> None:
        """Forget all that was written."""
        self.__exit__()
        self._spools.clear()
        self._file.seek(0)
        self._file.truncate()
        self._file.write(_head(0))

    def keeper(self) -> MessageSpool:
        """The spool of the next chain. The first one writes to the file itself."""
        made = MessageSpool(nameless(self._folder) if self._spools else self._file, len(self._spools))
        self._spools.append(made)
        return made

    def messages(self) -> Mapping[FlowId, Sequence[tuple[int, int]]]:
        """All spools gathered in the file: offset and length of each flow's rows. Nothing may be spooled later."""
        extents: dict[FlowId, list[tuple[int, int]]] = {}
        for number, spool in enumerate(self._spools):
            spool.flush()
            base = 0
            if spool.file is not self._file:
                base = self._file.tell()
                copy_all(spool.file, self._file)
            for flow, found in spool.extents.items():
                extents[number, flow] = [(base + offset, length) for offset, length in found]
        return extents

    def close(self, records: Records, ids: Iterable[FlowId]) -> None:
        """Write all but the messages of flows, which were spooled under these ids, and make the file whole."""
        flows = []
        for flow, key in zip(records.flows, ids, strict=True):
            for kind, content in _arrays(flow):
                write_block(self._file, kind, key, content)
            flows.append(_flow_entry(flow, key))
        index = _index(records, flows)
        write_block(self._file, Kind.INDEX, (0, 0), index)
        size = self._file.tell()
        self._file.seek(0)
        self._file.write(_head(size))
        self._file.flush()


def _arrays(flow: Flow) -> Iterator[tuple[Kind, bytes]]:
    """Rows of what stands in blocks of its own, where there is any."""
    if flow.seen:
        yield Kind.SEEN, b"".join(starmap(SEEN.pack, flow.seen))
    if flow.repeats:
        yield Kind.REPEATS, b"".join(starmap(REPEAT.pack, flow.repeats))
    if flow.missing:
        yield Kind.MISSING, b"".join(map(_missing_row, flow.missing))
    if flow.gaps:
        yield Kind.GAPS, b"".join(map(_gap_row, flow.gaps))


def _missing_row(missing: Missing) -> bytes:
    cause = CAUSES.index(missing.cause)
    return MISSING.pack(missing.position, missing.packets, missing.first_psn, missing.last_psn, cause, 0)


def _gap_row(gap: Gap) -> bytes:
    return GAP.pack(gap.position, gap.packets, gap.filled, gap.first_psn, gap.last_psn)


def _flow_entry(flow: Flow, key: FlowId) -> dict[str, Any]:
    """The flow in the index: arrays by the number of their rows."""
    entry: dict[str, Any] = {"chain": key[0], "flow": key[1]}
    for each in fields(flow):
        value = getattr(flow, each.name)
        entry[each.name] = len(value) if each.name in _COUNTED else value
    return entry


def _index(records: Records, flows: Sequence[dict[str, Any]]) -> bytes:
    document = {
        "sources": records.sources,
        "warnings": records.warnings,
        "captures": [asdict(capture) for capture in records.captures],
        "flows": flows,
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def write_records(path: Path, records: Records) -> None:
    """Write records at hand to a container; raises OutputError, or ReceiveError for a number beyond 64 bits."""
    try:
        with records_place(path) as place, RecordsWriter(place.file, place.folder) as writer:
            spool = writer.keeper()
            for number, flow in enumerate(records.flows):
                if flow.messages:
                    spool.add(number, rows_of(flow.messages))
            writer.messages()
            writer.close(records, [(0, number) for number in range(len(records.flows))])
    except struct.error as error:
        raise ReceiveError(
            f"{path}: the records hold a number that has no place in the file: {error}",
            hint="write them as JSON: give -o a name that ends in .json",
        ) from error
