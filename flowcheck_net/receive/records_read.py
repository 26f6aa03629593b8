"""Reads records from a file of either form, told apart by its first bytes."""

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from flowcheck_net.errors import RecordsCorrupt
from flowcheck_net.receive.capture_file import is_regular
from flowcheck_net.receive.native_records import Block, Kind, Unsound, blocks
from flowcheck_net.receive.records import Flow, Gap, Missing, Records
from flowcheck_net.receive.records_decode import Unfit, decode_records
from flowcheck_net.receive.records_json import HINT, records_from_json
from flowcheck_net.receive.records_rows import ROW, MessageRows
from flowcheck_net.receive.records_write import ARRAYS, CAUSES, GAP, MAGIC, MISSING, REPEAT, SEEN, FlowId

_COUNTED = (*ARRAYS, "messages")
_ROWS = {Kind.MESSAGES: ROW, Kind.SEEN: SEEN, Kind.REPEATS: REPEAT, Kind.MISSING: MISSING, Kind.GAPS: GAP}


def holds_records(path: Path) -> bool:
    """Does a file begin like records, of either form? False where it is no file or cannot be read."""
    if not is_regular(path):
        return False
    try:
        with path.open("rb") as file:
            first = file.read(len(MAGIC))
    except OSError:
        return False
    return first == MAGIC or first.lstrip()[:1] == b"{"


def read_records(path: Path) -> Records:
    """The records of a file.

    Raises:
        RecordsCorrupt: it cannot be read, is no records file, or is damaged; says where.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordsCorrupt(f"{path} cannot be read: {error.strerror}", hint=_made_of(path)) from error
    if data.startswith(MAGIC):
        return records_from_bytes(data, str(path))
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordsCorrupt(f"{path} is no records file", hint=_made_of(path)) from error
    return records_from_json(text, str(path))


def _made_of(path: Path) -> str:
    return f"records are made of a capture: `flowcheck-net replay {path} -o records.fcr`"


def records_from_bytes(data: bytes, source: str) -> Records:
    """Read the container.

    Args:
        data: a whole file.
        source: where it comes from, for messages.

    Raises:
        RecordsCorrupt: it is cut, damaged, of another version, or its index does not fit its blocks.
    """
    try:
        *arrays, index = blocks(data)
        return _assemble(json.loads(index.content.tobytes()), arrays)
    except (Unsound, Unfit) as error:
        raise RecordsCorrupt(f"{source}: {error}", hint=HINT) from error
    except (ValueError, RecursionError) as error:
        raise RecordsCorrupt(f"{source}: the index is not readable JSON: {error}", hint=HINT) from error


def _assemble(document: Any, arrays: list[Block]) -> Records:  # noqa: ANN401 - any JSON value
    if type(document) is not dict or type(document.get("flows")) is not list:
        raise Unfit("the index has no list of flows")
    by_flow: dict[FlowId, list[Block]] = defaultdict(list)
    for block in arrays:
        by_flow[block.chain, block.flow].append(block)
    entries = [_Entry(value) for value in document["flows"]]
    bare = decode_records({**document, "flows": [entry.bare for entry in entries]})
    flows = tuple(
        _filled(flow, entry, by_flow.pop(entry.key, [])) for flow, entry in zip(bare.flows, entries, strict=True)
    )
    if by_flow:
        raise Unfit(f"the index does not know flow {min(by_flow)}, of which there are blocks")
    return replace(bare, flows=flows)


class _Entry:
    """A flow in the index: its arrays are told by the number of rows, which are elsewhere."""

    def __init__(self, value: Any) -> None:  # noqa: ANN401 - any JSON value
        if type(value) is not dict:
            raise Unfit(f"expected a flow, found {value!r:.40}")
        rest = dict(value)
        self.key: FlowId = (_number(rest.pop("chain", None)), _number(rest.pop("flow", None)))
        self.counts = {name: _number(rest.pop(name, None)) for name in _COUNTED}
        self.bare = {**rest, **{name: [] for name in _COUNTED}}


def _number(value: Any) -> int:  # noqa: ANN401 - any JSON value
    if type(value) is not int:
        raise Unfit(f"expected the number of a flow or of its rows, found {value!r:.40}")
    return value


def _filled(flow: Flow, entry: _Entry, found: list[Block]) -> Flow:
    """The flow with its arrays, which must be those that the index announces."""
    contents: dict[Kind, list[memoryview]] = defaultdict(list)
    for block in found:
        contents[block.kind].append(block.content)
    for name, kind in {**ARRAYS, "messages": Kind.MESSAGES}.items():
        rows = sum(map(len, contents[kind])) // _ROWS[kind].size
        if rows != entry.counts[name] or (kind is not Kind.MESSAGES and len(contents[kind]) > 1):
            raise Unfit(f"flow {entry.key} has {rows} rows of {name}, its index says {entry.counts[name]}")
    unpacked = {kind: tuple(_ROWS[kind].iter_unpack(contents[kind][0])) for kind in ARRAYS.values() if contents[kind]}
    pieces = contents[Kind.MESSAGES]
    return replace(
        flow,
        seen=unpacked.get(Kind.SEEN, ()),
        repeats=unpacked.get(Kind.REPEATS, ()),
        missing=tuple(_missing(row) for row in unpacked.get(Kind.MISSING, ())),
        gaps=tuple(_gap(row) for row in unpacked.get(Kind.GAPS, ())),
        messages=MessageRows(entry.counts["messages"], lambda: b"".join(pieces)) if pieces else (),
    )


def _missing(row: tuple[int, ...]) -> Missing:
    position, packets, first_psn, last_psn, cause, _ = row
    return Missing(position=position, first_psn=first_psn, last_psn=last_psn, packets=packets, cause=CAUSES[cause])


def _gap(row: tuple[int, ...]) -> Gap:
    position, packets, filled, first_psn, last_psn = row
    return Gap(position=position, first_psn=first_psn, last_psn=last_psn, packets=packets, filled=filled)
