"""The one door to the C core: owns its memory, turns its arrays into records, raises for its error numbers."""

import errno
import os
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Self

from flowcheck_net._native import ffi, lib
from flowcheck_net.errors import CaptureError, ReceiveError
from flowcheck_net.ids import Address, CapturePort, Qpn
from flowcheck_net.receive.capture_file import Stream
from flowcheck_net.receive.records import Capture, Cause, Flow, Gap, Missing, Tunnel, TunnelKind
from flowcheck_net.receive.records_rows import ROW

_PACKETS_A_CALL = 1 << 18
"""Packets handled without a return to Python: long enough to cost nothing, short enough for Ctrl-C and for memory."""
_TAKEN_AT_ONCE = 4096
"""Messages taken out of a flow by one call."""
_CODES = {"int64_t": "q", "uint64_t": "Q", "uint32_t": "I"}


class FileState(IntEnum):
    """What a file turned out to be."""

    WHOLE = lib.FCK_FILE_WHOLE
    EMPTY = lib.FCK_FILE_EMPTY
    FOREIGN = lib.FCK_FILE_FOREIGN
    TRUNCATED = lib.FCK_FILE_TRUNCATED
    CORRUPT = lib.FCK_FILE_CORRUPT


@dataclass(frozen=True, slots=True)
class Settings:
    """How packets are to be read."""

    check_icrc: bool = False
    """Compute the invariant CRC of each RoCEv2 packet. Packets with a wrong one belong to no flow."""
    gre_types: tuple[int, ...] = ()
    """More GRE protocol types (1 to 0xffff, at most 8) under which switches send mirrored frames."""
    trimmed_dscp: int | None = None
    """DSCP (1 to 63) by which switches mark packets whose payload they cut off; None: they do not."""

    def __post_init__(self) -> None:
        if len(self.gre_types) > lib.FCK_GRE_TYPES or not all(0 < each <= 0xFFFF for each in self.gre_types):
            raise ReceiveError(f"GRE types must be at most {lib.FCK_GRE_TYPES} numbers from 1 to 0xffff")
        if self.trimmed_dscp is not None and not 0 < self.trimmed_dscp < 64:
            raise ReceiveError(f"a DSCP that marks trimmed packets lies between 1 and 63, not {self.trimmed_dscp}")


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface of a capture file."""

    capture: CapturePort
    """Where its packets were counted."""
    link_type: int
    """LINKTYPE number; 1 is Ethernet, all others are counted and not parsed."""
    packets: int
    drops: int | None
    """What the file says was dropped; None: it does not say."""


@dataclass(frozen=True, slots=True)
class FileReport:
    """How far a file was read, and why no further."""

    state: FileState
    size: int
    """Bytes."""
    offset: int
    """Everything before this byte was used."""
    packets: int
    reason: str
    """What is at the offset, where the state is TRUNCATED or CORRUPT."""
    interfaces: tuple[Interface, ...]


def _layout(name: str, *expected: str) -> struct.Struct:
    """The layout of a C struct of integers, to unpack whole arrays at once; ``expected`` is their order here."""
    kind = ffi.typeof(name)
    codes = "".join(_CODES[part.type.cname] for _, part in kind.fields)
    layout = struct.Struct(f"@{codes}0q")
    if layout.size != ffi.sizeof(kind) or tuple(field for field, _ in kind.fields) != expected:
        raise TypeError(f"{name} is not what it was when this module was written")
    return layout


_RANGE = _layout("struct fck_range", "first", "last")
_REPEAT = _layout("struct fck_repeat", "position", "copies")
_MISSING = _layout("struct fck_missing", "position", "packets", "first_psn", "last_psn", "cause")
_GAP = _layout("struct fck_gap", "position", "packets", "filled", "first_psn", "last_psn")
_MESSAGE = _layout(
    "struct fck_message",
    *("position", "bytes", "packets", "expected_packets", "immediate", "ll_flag", "icrc_sum"),
    *("first_time", "last_time", "first_psn", "opcode"),
)
if _MESSAGE.size != ROW.size:
    raise TypeError("records_rows.ROW is not a message of the core")


def _rows(layout: struct.Struct, array: Any, count: int) -> Iterator[tuple[int, ...]]:  # noqa: ANN401 - a cffi pointer
    return layout.iter_unpack(ffi.buffer(array, count * layout.size)) if count else iter(())


def _names(name_of: Callable[[int], Any], count: int) -> tuple[str, ...]:
    return tuple(ffi.string(name_of(number)).decode() for number in range(count))


_FRAMES = _names(lib.fck_frame_name, lib.FCK_FRAME_KINDS)
_ATTRIBUTES = _names(lib.fck_attribute_name, lib.FCK_ATTRIBUTES)
_CLASSES = _names(lib.fck_class_name, lib.FCK_CLASSES)
_TUNNELS = tuple(TunnelKind(name) for name in _names(lib.fck_tunnel_name, lib.FCK_TUNNEL_KINDS))
_CAUSES = tuple(Cause(ffi.string(lib.fck_cause_name(number)).decode()) for number in range(len(Cause)))


def _checked(result: int, doing: str) -> int:
    """A result of the core that is not an error."""
    if result < 0:
        raise ReceiveError(f"{doing}: {os.strerror(-result)}")
    return result


def _known(value: int) -> int | None:
    """The core writes -1 where it does not know."""
    return None if value < 0 else value


class Core:
    """One counting core. Not for use by two threads."""

    def __init__(self, settings: Settings | None = None, packets_a_call: int = _PACKETS_A_CALL) -> None:
        """``packets_a_call``: how many are handled without a pause."""
        self._packets_a_call = packets_a_call
        wanted = settings or Settings()
        config = ffi.new(
            "struct fck_config *",
            {
                "gre_types": list(wanted.gre_types),
                "trimmed_dscp": wanted.trimmed_dscp or 0,
                "check_icrc": wanted.check_icrc,
            },
        )
        out = ffi.new("struct fck_core **")
        _checked(lib.fck_new(config, out), "making the packet counter")
        self._core = out[0]
        self._rows = ffi.new("struct fck_message[]", _TAKEN_AT_ONCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        lib.fck_free(self._core)
        self._core = ffi.NULL

    @property
    def handle(self) -> Any:  # noqa: ANN401 - a cffi pointer
        """For the other modules that wrap the C core (``native_track``)."""
        return self._core

    def capture_number(self, port: str) -> int:
        """The core's number of a capture port, made on first use."""
        return _checked(lib.fck_capture_add(self._core, port.encode()), f"capture port {port!r}")

    def read(
        self,
        source: Path | bytes | Stream,
        port_of: Callable[[str], str],
        pause: Callable[[int], None] = lambda _: None,
    ) -> FileReport:
        """Count the packets of a capture file.

        Args:
            source: a regular file, or the content of one, whole or as a stream.
            port_of: from the name of an interface in the file ("" where it has none) to its capture port.
            pause: called now and then between packets, with the bytes of the content that are done.

        Raises:
            CaptureError: the file cannot be opened. What is wrong inside it is in the report.
        """
        out = ffi.new("struct fck_capfile **")
        if isinstance(source, bytes):
            source = Stream(iter([source]))
        if isinstance(source, Stream):
            _checked(lib.fck_capfile_buffer(out, ffi.NULL, 0), "opening a stream")
        elif (error := lib.fck_capfile_open(out, os.fsencode(source))) < 0:
            why = "not a regular file" if -error == errno.EINVAL else os.strerror(-error)
            raise CaptureError(f"{source!s:.200}: {why}")
        try:
            if isinstance(source, Stream):
                self._run_pieces(out[0], source, port_of, pause)
            else:
                self._run(out[0], port_of, pause)
            return self._report(out[0])
        finally:
            lib.fck_capfile_close(out[0])

    def _run_pieces(
        self,
        file: Any,  # noqa: ANN401 - a cffi pointer
        stream: Stream,
        port_of: Callable[[str], str],
        pause: Callable[[int], None],
    ) -> None:
        """Piece by piece, each put behind what the one before left over; the C side keeps pointing into ``data``."""
        data = b""
        used = 0
        for piece in stream.pieces:
            report = lib.fck_capfile_report(file)
            data = data[report.offset - used :] + piece
            used = report.offset
            _checked(lib.fck_capfile_more(file, ffi.from_buffer(data), len(data)), "reading a stream")
            self._run(file, port_of, pause)
            if lib.fck_capfile_report(file).state in (FileState.FOREIGN, FileState.CORRUPT):
                return
        if lib.fck_capfile_report(file).size == 0:
            self._run(file, port_of, pause)  # an empty file is a finding too

    def _run(self, file: Any, port_of: Callable[[str], str], pause: Callable[[int], None]) -> None:  # noqa: ANN401 - cffi
        while True:
            result = _checked(lib.fck_capfile_run(file, self._core, self._packets_a_call), "counting packets")
            if result == lib.FCK_RUN_END:
                return
            if result == lib.FCK_RUN_INTERFACE:
                newest = _interface(file, lib.fck_capfile_interfaces(file) - 1)
                name = ffi.unpack(newest.name, newest.name_length) if newest.name else b""
                port = port_of(name.decode(errors="replace").replace("\0", ""))
                number = self.capture_number(port)
                _checked(lib.fck_capfile_bind(file, number), "naming an interface")
            else:
                pause(lib.fck_capfile_report(file).offset)

    def take(self, keep: Callable[[int, bytes], None]) -> None:
        """Take finished messages out, so that memory does not grow: ``keep(flow, rows)`` gets them.

        Rows are those of ``records_rows``, flows are numbered as ``flows`` numbers them.
        """
        for number in range(lib.fck_flow_count(self._core)):
            count = _TAKEN_AT_ONCE
            while count == _TAKEN_AT_ONCE:
                count = _checked(lib.fck_flow_take(self._core, number, self._rows, count), "taking messages")
                if count:
                    keep(number, bytes(ffi.buffer(self._rows, count * ROW.size)))

    def _report(self, file: Any) -> FileReport:  # noqa: ANN401 - a cffi pointer
        report = lib.fck_capfile_report(file)
        found = [_interface(file, number) for number in range(lib.fck_capfile_interfaces(file))]
        return FileReport(
            state=FileState(report.state),
            size=report.size,
            offset=report.offset,
            packets=report.packets,
            reason=ffi.string(report.reason).decode() if report.reason else "",
            interfaces=tuple(
                Interface(
                    capture=self._capture_name(each.capture),
                    link_type=each.link_type,
                    packets=each.packets,
                    drops=each.drops if each.drops_known else None,
                )
                for each in found
            ),
        )

    def _capture_name(self, number: int) -> CapturePort:
        return CapturePort(ffi.string(self._capture(number).name).decode())

    def _capture(self, number: int) -> Any:  # noqa: ANN401 - a cffi struct
        out = ffi.new("struct fck_capture *")
        _checked(lib.fck_capture_get(self._core, number, out), "reading a capture's counts")
        return out

    def captures(self) -> tuple[Capture, ...]:
        """Everything counted so far, by capture port in order of name. ``dropped`` is None: only files can say."""
        found = [self._capture(number) for number in range(lib.fck_capture_count(self._core))]
        tunnels = self._tunnels()
        captures = (
            Capture(
                name=CapturePort(ffi.string(each.name).decode()),
                packets=each.packets,
                bytes=each.bytes,
                frames=dict(zip(_FRAMES, each.frames, strict=True)),
                first_time=each.first_time,
                last_time=each.last_time,
                dropped=None,
                attributes=dict(zip(_ATTRIBUTES, each.attributes, strict=True)),
                tunnels=tuple(sorted(tunnels[number], key=_tunnel_order)),
            )
            for number, each in enumerate(found)
        )
        return tuple(sorted(captures, key=lambda capture: capture.name))

    def _tunnels(self) -> dict[int, list[Tunnel]]:
        """By number of the capture."""
        found = defaultdict(list)
        out = ffi.new("struct fck_tunnel *")
        for number in range(lib.fck_tunnel_count(self._core)):
            _checked(lib.fck_tunnel_get(self._core, number, out), "reading a tunnel's counts")
            tunnel = Tunnel(
                outer_source=_address(out.family, out.source),
                kind=_TUNNELS[out.kind],
                session=_known(out.session),
                packets=out.packets,
                sequence_gaps=_known(out.sequence_gaps),
            )
            found[out.capture].append(tunnel)
        return found

    def flows(self, keep: Callable[[int, bytes], None]) -> tuple[Flow, ...]:
        """All flows, in the order in which they appeared, which numbers them from 0.

        Args:
            keep: gets the rows of messages that were not taken before; the flows have none.
        """
        _checked(lib.fck_finish(self._core), "working out messages and gaps")
        return tuple(self._flow(number, keep) for number in range(lib.fck_flow_count(self._core)))

    def _flow(self, number: int, keep: Callable[[int, bytes], None]) -> Flow:
        flow = ffi.new("struct fck_flow *")
        _checked(lib.fck_flow_get(self._core, number, flow), "reading a flow's counts")
        if flow.messages_count:
            keep(number, bytes(ffi.buffer(flow.messages, flow.messages_count * ROW.size)))
        return Flow(
            capture=self._capture_name(flow.capture),
            source=_address(flow.family, flow.source),
            destination=_address(flow.family, flow.destination),
            dest_qp=Qpn(flow.dest_qp),
            packets=dict(zip(_CLASSES, flow.packets, strict=True)),
            bytes=flow.bytes,
            mtu=flow.mtu or None,
            seen=tuple((first, last) for first, last in _rows(_RANGE, flow.seen, flow.seen_count)),
            repeats=tuple((position, extra) for position, extra in _rows(_REPEAT, flow.repeats, flow.repeats_count)),
            retransmitted=flow.retransmitted,
            duplicated=flow.duplicated,
            reordered=flow.reordered,
            missing=tuple(
                Missing(position=position, first_psn=first, last_psn=last, packets=packets, cause=_CAUSES[cause])
                for position, packets, first, last, cause in _rows(_MISSING, flow.missing, flow.missing_count)
            ),
            gaps=tuple(
                Gap(position=position, first_psn=first, last_psn=last, packets=packets, filled=filled)
                for position, packets, filled, first, last in _rows(_GAP, flow.gaps, flow.gaps_count)
            ),
            messages=(),
            truncated=flow.truncated,
        )


def _interface(file: Any, number: int) -> Any:  # noqa: ANN401 - cffi
    out = ffi.new("struct fck_capfile_interface *")
    _checked(lib.fck_capfile_interface(file, number, out), "reading an interface")
    return out


def _address(family: int, packed: Any) -> Address:  # noqa: ANN401 - a cffi array
    octets = bytes(packed)
    if family == 4:
        return Address(".".join(map(str, octets[:4])))
    from ipaddress import IPv6Address  # costs more than everything else here

    return Address(str(IPv6Address(octets)))


def _tunnel_order(tunnel: Tunnel) -> tuple[Address, TunnelKind, int]:
    return tunnel.outer_source, tunnel.kind, -1 if tunnel.session is None else tunnel.session
