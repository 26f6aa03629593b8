"""What a receiver left behind, as records: whole where it ended as it should, else only what it had closed.

A spool is read up to its first block that is not sound. A receiver that was killed has handed over finished messages
and, now and then, the counts of its ports; whatever else it saw is not claimed.
"""

import mmap
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

from flowcheck_net.errors import ReceiveError
from flowcheck_net.ids import Address, CapturePort, Qpn
from flowcheck_net.receive import native_receiver as native
from flowcheck_net.receive.kept_file import KeptFile
from flowcheck_net.receive.native_receiver import SpoolKind
from flowcheck_net.receive.native_records import Kind
from flowcheck_net.receive.records import Capture, Cause, Flow, Gap, Missing, Records, Tunnel, TunnelKind
from flowcheck_net.receive.records_merge import join_captures
from flowcheck_net.receive.records_write import BLOCK, CAUSES, GAP, MISSING, REPEAT, SEEN

_PSN_COUNT = 1 << 24
_POSITION, _BYTES, _PACKETS = 0, 1, 2
"""Places in a row of a message."""
FlowId = tuple[int, int]
"""Worker and number within it."""


@dataclass(frozen=True, slots=True)
class SpoolBlock:
    """A sound block."""

    kind: int
    chain: int
    flow: int
    offset: int
    """Of its content in the file."""
    content: bytes


@dataclass(slots=True)
class _Findings:
    """Everything in one spool, messages by their places in the file."""

    ports: dict[int, CapturePort] = field(default_factory=dict)
    captures: dict[int, tuple[int, ...]] = field(default_factory=dict)
    tunnels: dict[int, list[Tunnel]] = field(default_factory=lambda: defaultdict(list))
    keys: dict[FlowId, tuple[Any, ...]] = field(default_factory=dict)
    flows: dict[FlowId, tuple[Any, ...]] = field(default_factory=dict)
    arrays: dict[tuple[int, FlowId], bytes] = field(default_factory=dict)
    extents: dict[FlowId, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    loss: dict[CapturePort, dict[str, int | None]] = field(default_factory=dict)
    ended: bool = False


def blocks(file: KeptFile) -> Iterator[SpoolBlock]:
    """The sound blocks of a spool, up to the first one that is not."""
    if file.size == 0:
        return
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = 0
        while at + BLOCK.size <= len(data):
            kind, chain, flow, checksum, length = BLOCK.unpack_from(data, at)
            content = data[at + BLOCK.size : at + BLOCK.size + length]
            head = data[at : at + 12] + data[at + 16 : at + BLOCK.size]
            if len(content) < length or zlib.crc32(content, zlib.crc32(head)) != checksum:
                return
            yield SpoolBlock(kind, chain, flow, at + BLOCK.size, content)
            at += BLOCK.size + length


def spool_records(path: Path, sources: Sequence[str]) -> Records:
    """The records of one run of the receiver.

    Messages stay in the spool until they are looked at, also where the receiver has removed it meanwhile.

    Args:
        path: the spool.
        sources: what it received from, for ``Records.sources``.

    Raises:
        FileNotFoundError: the receiver has removed it.
        ReceiveError: another version wrote the spool, or one flow came to two workers of a port.
    """
    found = _Findings()
    spool = KeptFile.opened(path)
    for number, block in enumerate(blocks(spool)):
        if number == 0:
            _check_head(path, block)
        _note(found, block)
    warnings = () if found.ended else tuple(_killed(found))
    return Records(
        sources=tuple(sources),
        warnings=warnings,
        captures=tuple(_captures(found)),
        flows=tuple(_flows(spool, found)),
    )


def _check_head(path: Path, block: SpoolBlock) -> None:
    fits = block.kind == SpoolKind.HEAD and len(block.content) == native.HEAD.size
    if not fits or native.HEAD.unpack(block.content) != (native.VERSION, *native.COUNTS):
        raise ReceiveError(
            f"{path} was not written by the receiver of this version", hint="install both from the same build"
        )


def _killed(found: _Findings) -> Iterator[str]:
    for port in sorted(set(found.ports.values())):
        yield (
            f"capture port {port}: the receiver was killed. Only messages that it had closed and written are here; "
            "what it saw of others, all other packets of flows, repeats and losses are not known, and packets that are "
            "called missing may have been seen"
        )


def _note(found: _Findings, block: SpoolBlock) -> None:
    key = (block.chain, block.flow)
    match block.kind:
        case Kind.MESSAGES:
            found.extents[key].append((block.offset, len(block.content)))
        case Kind.SEEN | Kind.REPEATS | Kind.MISSING | Kind.GAPS:
            found.arrays[block.kind, key] = block.content
        case SpoolKind.WORKER:
            found.ports[block.chain] = CapturePort(block.content.decode())
        case SpoolKind.KEY:
            found.keys[key] = native.FLOW.unpack(block.content)
        case SpoolKind.FLOW:
            found.flows[key] = native.FLOW.unpack(block.content)
        case SpoolKind.CAPTURE:
            found.captures[block.chain] = native.CAPTURE.unpack(block.content)
        case SpoolKind.TUNNELS:
            found.tunnels[block.chain].append(_tunnel(*native.TUNNEL.unpack(block.content)))
        case SpoolKind.LOSS:
            found.loss[found.ports[block.flow]] = {
                name.rstrip(b"\0").decode(): None if value < 0 else value
                for name, value in native.COUNTER.iter_unpack(block.content)
            }
        case SpoolKind.END:
            found.ended = True


def _address(family: int, packed: bytes) -> Address:
    from ipaddress import IPv4Address, IPv6Address

    return Address(str(IPv4Address(packed[:4]) if family == 4 else IPv6Address(packed)))


def _tunnel(_: int, family: int, source: bytes, kind: int, session: int, packets: int, gaps: int) -> Tunnel:
    return Tunnel(
        outer_source=_address(family, source),
        kind=TunnelKind(native.TUNNELS[kind]),
        session=None if session < 0 else session,
        packets=packets,
        sequence_gaps=None if gaps < 0 else gaps,
    )


def _captures(found: _Findings) -> Iterator[Capture]:
    parts: dict[CapturePort, list[Capture]] = defaultdict(list)
    for chain, name in found.ports.items():
        parts[name].append(_capture(found, chain, name))
    for name in sorted(parts):
        whole = reduce(join_captures, parts[name])
        loss = found.loss.get(name, {}) if found.ended else {}
        yield replace(whole, dropped=loss.get("dropped"), loss=loss)


def _capture(found: _Findings, chain: int, name: CapturePort) -> Capture:
    row = found.captures.get(chain, (0,) * (4 + len(native.FRAMES) + len(native.ATTRIBUTES)))
    frames, attributes = row[4 : 4 + len(native.FRAMES)], row[4 + len(native.FRAMES) :]
    tunnels = sorted(found.tunnels[chain], key=lambda each: (each.outer_source, each.kind, each.session or -1))
    return Capture(
        name=name,
        packets=row[0],
        bytes=row[1],
        frames=dict(zip(native.FRAMES, frames, strict=True)),
        first_time=row[2],
        last_time=row[3],
        dropped=None,
        attributes=dict(zip(native.ATTRIBUTES, attributes, strict=True)),
        tunnels=tuple(tunnels),
    )


def _flows(spool: KeptFile, found: _Findings) -> list[Flow]:
    """Sorted; ReceiveError where a flow of one port came to two workers."""
    if found.ended:
        flows = [_whole(spool, found, key) for key in found.flows]
    else:
        flows = [flow for key in found.keys if (flow := _closed(spool, found, key)) is not None]
    flows.sort(key=_place)
    for one, two in pairwise(flows):
        if _place(one) == _place(two):
            raise ReceiveError(
                f"capture port {one.capture}: the flow {one.source} > {one.destination} QP {one.dest_qp} came to "
                "two queues, and its packets cannot be put in order any more",
                hint="receive this port with --spread software: the device goes by the switches that tunnels come from",
            )
    return flows


def _place(flow: Flow) -> tuple[str, str, str, int]:
    return flow.capture, flow.source, flow.destination, flow.dest_qp


def _base(spool: KeptFile, found: _Findings, key: FlowId, row: tuple[Any, ...]) -> Flow:
    """Key and counters of a flow, and its messages."""
    _, family, source, destination, dest_qp, mtu, *counts = row
    classes = len(native.CLASSES)
    truncated, size, retransmitted, duplicated, reordered = counts[classes:]
    return Flow(
        capture=found.ports[key[0]],
        source=_address(family, source),
        destination=_address(family, destination),
        dest_qp=Qpn(dest_qp),
        packets=dict(zip(native.CLASSES, counts[:classes], strict=True)),
        bytes=size,
        mtu=mtu or None,
        seen=(),
        repeats=(),
        retransmitted=retransmitted,
        duplicated=duplicated,
        reordered=reordered,
        missing=(),
        gaps=(),
        messages=spool.rows(found.extents[key]) if key in found.extents else (),
        truncated=truncated,
    )


def _whole(spool: KeptFile, found: _Findings, key: FlowId) -> Flow:
    def rows(kind: Kind) -> bytes:
        return found.arrays.get((kind, key), b"")

    return replace(
        _base(spool, found, key, found.flows[key]),
        seen=tuple((first, last) for first, last in SEEN.iter_unpack(rows(Kind.SEEN))),
        repeats=tuple((position, extra) for position, extra in REPEAT.iter_unpack(rows(Kind.REPEATS))),
        missing=tuple(
            Missing(position, first, last, packets, CAUSES[cause])
            for position, packets, first, last, cause, _ in MISSING.iter_unpack(rows(Kind.MISSING))
        ),
        gaps=tuple(
            Gap(position, first, last, packets, filled)
            for position, packets, filled, first, last in GAP.iter_unpack(rows(Kind.GAPS))
        ),
    )


def _closed(spool: KeptFile, found: _Findings, key: FlowId) -> Flow | None:
    """What is certain of a flow whose receiver was killed: its closed messages. None: there are none."""
    if key not in found.extents:
        return None
    base = _base(spool, found, key, found.keys[key])
    rows = list(spool.rows(found.extents[key]).tuples())
    ranges = _united([(row[_POSITION], row[_POSITION] + row[_PACKETS] - 1) for row in rows])
    return replace(
        base,
        packets={**dict.fromkeys(native.CLASSES, 0), "write": sum(row[_PACKETS] for row in rows)},
        bytes=sum(row[_BYTES] for row in rows),
        mtu=base.mtu,
        seen=ranges,
        retransmitted=0,
        duplicated=0,
        reordered=0,
        truncated=0,
        missing=tuple(_hole(before + 1, after - 1) for (_, before), (after, _) in pairwise(ranges)),
    )


def _united(ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Closed ranges, sorted, those that touch as one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return tuple(found)


def _hole(first: int, last: int) -> Missing:
    return Missing(first, first % _PSN_COUNT, last % _PSN_COUNT, last - first + 1, Cause.LOST)
