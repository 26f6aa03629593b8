"""Placement in the C core: packets to (iteration, message, bytes) by PSN, gradient bytes into memory of the caller."""

import errno
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from mmap import mmap
from typing import Any, Self

from flowcheck_net._native import ffi, lib
from flowcheck_net.errors import ReceiveError
from flowcheck_net.model.job import Protocol
from flowcheck_net.receive.native import Core

_PROTOCOLS = {
    Protocol.SIMPLE: lib.FCK_PROTOCOL_SIMPLE,
    Protocol.LL: lib.FCK_PROTOCOL_LL,
    Protocol.LL128: lib.FCK_PROTOCOL_LL128,
}
_WORD = 8
_UNKNOWN, _NONE = -1, -2
_NOWHERE = -(1 << 63)


class ImmediateForm(Enum):
    """How NCCL writes the immediate of a write."""

    LITTLE = lib.FCK_IMMEDIATE_LITTLE
    """Length of the message, little-endian: up to 2.28."""
    BIG = lib.FCK_IMMEDIATE_BIG
    """The same, big-endian: from 2.29.2."""
    IGNORED = lib.FCK_IMMEDIATE_IGNORED
    """A request id (NCCL_IB_RECEIVER_SIDE_MATCHING_SCHEME=BY_ID): there must be one, of any value."""


class Immediate(Enum):
    """What is expected of a message's immediate where that is no number."""

    UNKNOWN = _UNKNOWN
    """May be there or not."""
    ABSENT = _NONE
    """Must not be there: the adaptive-routing form carries it in a write of its own."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One message of an iteration on one queue pair (a piece of it, where it is cut over several)."""

    packets: int
    """max(1, bytes over MTU, rounded up)."""
    bytes: int
    """RETH length: on the wire."""
    immediate: int | Immediate
    """Expected value."""
    data_at: int = 0
    """Byte of the group's gradient buffer where the data of the whole message begin."""
    data_bytes: int = 0
    """Gradient bytes of the whole message."""
    unit: int = 0
    """Presence bit of its first packet; its packets have consecutive ones."""
    reduced: bool = False
    """Fully reduced: to be laid into the gradient buffer."""
    wire_at: int = 0
    """Byte of the whole message where this piece begins."""
    step: int = 0
    """FIFO steps of the iteration before this message."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """What one queue pair sends in an iteration."""

    slots: tuple[Slot, ...]
    """In the order of sending."""
    mtu: int
    protocol: Protocol
    immediate: ImmediateForm = ImmediateForm.LITTLE
    steps: int = 0
    """FIFO steps of an iteration; 0: neither remote addresses nor the values of flags are checked."""
    fifo_bytes: int = 0
    """Bytes of one step in NCCL's FIFO; 0: remote addresses are not checked."""
    fifo_steps: int = 8
    compare: bool = True
    """Compare bytes that come again with those that lie; where they differ the unit is withdrawn."""
    search: bool = False
    """Look for the begin of an iteration where no anchor is known, or the step was lost."""


class FindingKind(StrEnum):
    """What contradicts the expectation, or changes what is placed."""

    PART = "part"
    MESSAGE_LENGTH = "message_length"
    PACKET_LENGTH = "packet_length"
    IMMEDIATE = "immediate"
    ADDRESS = "address"
    FLAG_TORN = "flag_torn"
    FLAG_VALUE = "flag_value"
    CLASS = "class"
    PAYLOAD_DIFFERS = "payload_differs"
    STEP_LOST = "step_lost"
    ANCHOR_FOUND = "anchor_found"


@dataclass(frozen=True, slots=True)
class Finding:
    """One packet that is not as expected."""

    kind: FindingKind
    track: int
    packet: int
    """Running number of the frame among all that the core was given, from 1."""
    position: int
    iteration: int
    slot: int
    expected: int
    found: int


@dataclass(frozen=True, slots=True)
class IterationCount:
    """What one queue pair brought of one iteration."""

    iteration: int
    position: int
    """Of its first packet."""
    expected: int
    distinct: int
    repeats: int
    conflicts: int
    laid: int


@dataclass(frozen=True, slots=True)
class TrackCount:
    """What became of the packets of one queue pair."""

    packets: int
    places: dict[str, int]
    """Sum: ``packets``."""
    lays: dict[str, int]
    """Sum: placed and repeated."""
    revoked: int
    """Of the packets laid, those taken back when the step was lost."""
    unconfirmed: int
    """Of the packets laid, those that no begin or end of a message has confirmed."""
    candidate: int | None
    """Position where an iteration begins whose number is not known: an anchor may be given there."""
    waiting: bool
    """Packets at the front are not placed now."""


def _names(name_of: Any, count: int) -> tuple[str, ...]:  # noqa: ANN401 - a cffi function
    return tuple(ffi.string(name_of(number)).decode() for number in range(count))


_FINDINGS = tuple(FindingKind(name) for name in _names(lib.fck_finding_name, lib.FCK_FINDING_KINDS))
PLACES = _names(lib.fck_place_name, lib.FCK_PLACES)
LAYS = _names(lib.fck_lay_name, lib.FCK_LAYS)


def _checked(result: int, doing: str, hints: dict[int, str] | None = None) -> int:
    if result >= 0:
        return result
    raise ReceiveError(f"{doing}: {(hints or {}).get(-result) or os.strerror(-result)}")


class Tracker:
    """Places the packets of a core. Belongs to the thread of that core; leave it after the core."""

    def __init__(self) -> None:
        out = ffi.new("struct fck_tracker **")
        _checked(lib.fck_tracker_new(out), "making the tracker")
        self._tracker = out[0]
        self._lent: dict[tuple[int, int], tuple[Any, Any]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        lib.fck_tracker_free(self._tracker)
        self._tracker = ffi.NULL
        self._lent.clear()

    def attach(self, core: Core) -> None:
        """From now on the core hands its request packets over."""
        lib.fck_core_track(core.handle, self._tracker)

    def pattern(self, pattern: Pattern) -> int:
        """Number of the pattern. ReceiveError: it contradicts itself, or cuts inside a line of LL or LL128."""
        slots = ffi.new("struct fck_slot[]", [(*slot_numbers(slot), 0) for slot in pattern.slots])
        config = ffi.new("struct fck_pattern_config *", pattern_numbers(pattern))
        hints = {
            errno.EINVAL: "packets, bytes, MTU or steps contradict one another",
            errno.EOPNOTSUPP: f"pieces are cut inside a line of {pattern.protocol}, which cannot be laid",
        }
        found = lib.fck_tracker_pattern(self._tracker, slots, len(pattern.slots), config)
        return _checked(found, "the expected messages of a queue pair", hints)

    def follow(self, capture: int, ends: tuple[str, str], dest_qp: int, pattern: int, group: int) -> int:
        """Number of the track that follows one queue pair at one capture.

        Args:
            capture: ``Core.capture_number`` of its capture port.
            ends: source and destination address.
            dest_qp: as in the packets.
            pattern: of ``pattern``.
            group: whose gradient buffer its reduced messages belong to; any number.
        """
        source, destination = (ipaddress.ip_address(end) for end in ends)
        packed = [ffi.from_buffer("uint8_t[]", end.packed) for end in (source, destination)]
        result = lib.fck_tracker_follow(self._tracker, capture, source.version, *packed, dest_qp, pattern, group)
        hints = {
            errno.EEXIST: "is followed already, or its messages are cut otherwise than those of the group before",
            errno.EBUSY: "brings new bytes to a group that has memory already: follow first, then lend",
        }
        return _checked(result, f"queue pair {dest_qp} from {source} to {destination}", hints)

    def anchor(self, track: int, position: int, iteration: int, iterations: int = 0) -> None:
        """``iterations`` of them follow one another from ``position`` on; 0: up to the next anchor."""
        result = lib.fck_tracker_anchor(self._tracker, track, position, iteration, iterations)
        _checked(result, f"anchor of iteration {iteration}", {errno.EINVAL: "must lie behind the one before"})

    def restart(self, track: int) -> int:
        """The queue pair begins anew; what is to be added to its PSNs from now on to get positions."""
        _checked(lib.fck_tracker_restart(self._tracker, track), "restart")
        return int(lib.fck_tracker_lift(self._tracker, track))

    def expect(self, track: int, iteration: int) -> None:
        """The begin of an iteration that is found next (``Pattern.search``) is this one's."""
        _checked(lib.fck_tracker_expect(self._tracker, track, iteration), "expecting an iteration")

    def lend(self, group: int, iteration: int, data: bytearray | memoryview | mmap, present: bytearray) -> None:
        """Memory for one iteration of a group, used until ``take_back``.

        Args:
            group: as in ``follow``; all its queue pairs are followed already.
            iteration: number.
            data: the gradient buffer.
            present: zeros, a multiple of 8 bytes; unit u is bit ``u & 7`` of byte ``u >> 3`` (little-endian machine).
        """
        if len(present) % _WORD:
            raise ReceiveError(f"presence bits come in words of {_WORD} bytes, not {len(present)} bytes")
        views = ffi.from_buffer("uint8_t[]", data), ffi.from_buffer("uint64_t[]", present)
        units = len(present) * 8
        result = lib.fck_tracker_gradient(self._tracker, group, iteration, views[0], len(data), views[1], units)
        hints = {errno.EINVAL: "too small for the group's messages, or one unit stands for two packets"}
        _checked(result, f"memory for iteration {iteration} of group {group}", hints)
        self._lent[group, iteration] = views

    def take_back(self, group: int, iteration: int) -> None:
        """Ends ``lend``."""
        _checked(lib.fck_tracker_release(self._tracker, group, iteration), f"iteration {iteration} of group {group}")
        for view in self._lent.pop((group, iteration)):
            ffi.release(view)

    def read(self, group: int, iteration: int, start: int, stop: int) -> bytes | None:
        """Bytes ``start`` to ``stop`` (without) of a gradient buffer; None: not all of them were observed."""
        out = ffi.new("uint8_t[]", max(stop - start, 1))
        result = lib.fck_gradient_read(self._tracker, group, iteration, start, stop - start, out)
        if result == -errno.ENODATA:
            return None
        _checked(result, f"iteration {iteration} of group {group}", {errno.ENOENT: "has no memory"})
        return bytes(ffi.buffer(out, stop - start))

    def count(self, track: int) -> TrackCount:
        """What became of a track's packets so far."""
        out = ffi.new("struct fck_track *")
        _checked(lib.fck_tracker_track(self._tracker, track, out), f"track {track}")
        return TrackCount(
            packets=out.packets,
            places=dict(zip(PLACES, out.places, strict=True)),
            lays=dict(zip(LAYS, out.lays, strict=True)),
            revoked=out.revoked,
            unconfirmed=out.unconfirmed,
            candidate=None if out.candidate == _NOWHERE else out.candidate,
            waiting=bool(out.waiting),
        )

    def iterations(self, track: int) -> tuple[IterationCount, ...]:
        """Row by row, in the order in which the iterations were first seen."""
        rows = ffi.new("const struct fck_track_iteration **")
        count = ffi.new("uint64_t *")
        _checked(lib.fck_tracker_iterations(self._tracker, track, rows, count), f"track {track}")
        found = (rows[0][number] for number in range(count[0]))
        return tuple(
            IterationCount(
                *(row.iteration, row.position, row.expected, row.distinct, row.repeats, row.conflicts, row.laid)
            )
            for row in found
        )

    def findings(self) -> tuple[Sequence[Finding], dict[FindingKind, int]]:
        """The first 1024 findings, and how many there were of each kind."""
        rows = ffi.new("const struct fck_finding **")
        counts = ffi.new("uint64_t[]", lib.FCK_FINDING_KINDS)
        kept = lib.fck_tracker_findings(self._tracker, rows, counts)
        found = (rows[0][number] for number in range(kept))
        listed = tuple(
            Finding(
                kind=_FINDINGS[row.kind],
                track=row.track,
                packet=row.packet,
                position=row.position,
                iteration=row.iteration,
                slot=row.slot,
                expected=row.expected,
                found=row.found,
            )
            for row in found
        )
        return listed, dict(zip(_FINDINGS, counts, strict=True))

    @property
    def unfollowed(self) -> int:
        """Request packets of queue pairs that no track follows."""
        return int(lib.fck_tracker_unfollowed(self._tracker))


def pattern_numbers(pattern: Pattern) -> tuple[int, ...]:
    """The fields of ``struct fck_pattern_config``, in their order."""
    return (
        pattern.mtu,
        _PROTOCOLS[pattern.protocol],
        pattern.immediate.value,
        pattern.fifo_bytes,
        pattern.fifo_steps,
        pattern.steps,
        int(pattern.compare),
        int(pattern.search),
    )


def slot_numbers(slot: Slot) -> tuple[int, ...]:
    """The fields of ``struct fck_slot``, in their order; all but the reserved one."""
    immediate = slot.immediate.value if isinstance(slot.immediate, Immediate) else slot.immediate
    return (
        *(slot.packets, slot.bytes, immediate, slot.data_at, slot.data_bytes, slot.wire_at),
        *(slot.unit, int(slot.reduced), slot.step),
    )
