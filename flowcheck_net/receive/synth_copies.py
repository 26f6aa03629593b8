"""Faults of the mirror: copies that are lost, repeated, reordered, or outside the time of the capture."""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from flowcheck_net.ids import CapturePort
from flowcheck_net.receive.synth_faults import Fault, FaultKind
from flowcheck_net.receive.synth_report import FaultEvent
from flowcheck_net.receive.synth_streams import NO_DATA, Copy

_EDGES = (FaultKind.CUT, FaultKind.LATE)
_OF_COPIES = (FaultKind.LOSS, FaultKind.DUPLICATE, FaultKind.REORDER)
_DISTANCE = {FaultKind.DUPLICATE: 1, FaultKind.REORDER: 3}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the copies of a stream come from and go to."""

    capture: CapturePort
    hop: str | None
    """Name of the connection; None: foreign."""
    data: bool
    """The direction that carries the hop's data."""

    def event(self, fault: Fault, iteration: int, copy: Copy) -> FaultEvent:
        """That ``fault`` happened to ``copy``."""
        return FaultEvent(
            kind=fault.kind,
            fault=fault.text,
            capture=self.capture,
            hop=self.hop,
            iteration=None if iteration < 0 else iteration,
            packet=None if copy.number == NO_DATA else copy.number,
            psn=copy.psn,
            dest_qp=copy.dest_qp,
            opcode=copy.opcode,
        )


class Window:
    """When the capture at each port is open: from a late start to a cut."""

    def __init__(self, faults: Sequence[Fault], origins: Iterable[Origin], captures: Sequence[CapturePort]) -> None:
        self.events: list[FaultEvent] = []
        self.outside: dict[CapturePort, int] = dict.fromkeys(captures, 0)
        seen = {(origin.capture, origin.hop) for origin in origins if origin.data}
        self._of = {
            port: [
                fault
                for fault in faults
                if fault.kind in _EDGES
                and fault.capture in (None, port)
                and (fault.hop is None or (port, fault.hop) in seen)
            ]
            for port in captures
        }
        self._moments: dict[Fault, int] = {}
        self._passed: set[tuple[Fault, CapturePort]] = set()

    def begin(self, iteration: int, start: int, duration: int) -> None:
        """An iteration begins (nanoseconds): this fixes the times of its cuts and late starts."""
        for fault in {fault for edges in self._of.values() for fault in edges}:
            if fault.iteration == iteration and fault.at is not None:
                self._moments[fault] = start + int(duration * fault.at)

    def admits(self, origin: Origin, iteration: int, copy: Copy) -> bool:
        """Is the capture open for this copy? Also notes that an edge was reached."""
        inside = True
        for fault in self._of[origin.capture]:
            key = (fault, origin.capture)
            before = key in self._passed
            now = before or self._reaches(fault, origin, iteration, copy)
            if now and not before:
                self._passed.add(key)
                self.events.append(origin.event(fault, iteration, copy))
            # A cut at a packet comes behind that packet; a cut at a time, and every late start, before the copy.
            open_here = now if fault.kind is FaultKind.LATE else not (before if fault.at is None else now)
            inside = inside and open_here
        self.outside[origin.capture] += not inside
        return inside

    def _reaches(self, fault: Fault, origin: Origin, iteration: int, copy: Copy) -> bool:
        if fault.at is None:
            return origin.hop is not None and copy.number != NO_DATA and fault.hits(origin.hop, iteration, copy.number)
        return fault in self._moments and copy.time >= self._moments[fault]

    def ended(self, capture: CapturePort) -> bool:
        """Was the capture at this port cut?"""
        return any(port == capture and fault.kind is FaultKind.CUT for fault, port in self._passed)


@dataclass(slots=True)
class _Held:
    """A copy that waits until more of its stream have passed."""

    fault: Fault
    iteration: int
    copy: Copy
    left: int


class CopyFaults:
    """Passes copies on in order of time, with the asked-for faults."""

    def __init__(
        self, faults: Sequence[Fault], seed: int, origins: Mapping[int, Origin], captures: Sequence[CapturePort]
    ) -> None:
        """``origins``: by stream number."""
        self.events: list[FaultEvent] = []
        self.reported_drops: dict[CapturePort, int] = dict.fromkeys(captures, 0)
        self.window = Window(faults, origins.values(), captures)
        self._origins = origins
        self._any = any(fault.kind in (*_EDGES, *_OF_COPIES) for fault in faults)
        draws = [(one, random.Random(f"{seed}/{at}").random) for at, one in enumerate(faults)]  # noqa: S311
        self._of: dict[int, list[tuple[Fault, Callable[[], float]]]] = {
            number: [(one, draw) for one, draw in draws if one.kind in _OF_COPIES and _may_touch(one, origin)]
            for number, origin in origins.items()
        }
        self._held: dict[int, list[_Held]] = {}

    def arriving(self, copies: Iterable[Copy], iteration: int) -> Iterator[Copy]:
        """What arrives of all copies of an iteration, in order of time."""
        if not self._any:
            yield from copies
            return
        time = 0
        for copy in copies:
            time = copy.time
            yield from self._pass_on(copy, iteration)
        yield from self._finish(time)

    def _pass_on(self, copy: Copy, iteration: int) -> Iterator[Copy]:
        """What arrives now: nothing, the copy, or more."""
        origin = self._origins[copy.stream]
        if not self.window.admits(origin, iteration, copy):
            return
        fault = self._first_fault(copy, origin, iteration)
        if fault is None or fault.kind is FaultKind.DUPLICATE:
            yield copy
        if self._held:
            yield from self._release(copy)
        if fault is None:
            return
        if fault.kind is FaultKind.LOSS:
            self.reported_drops[origin.capture] += fault.counted
            self.events.append(origin.event(fault, iteration, copy))
            return
        left = _DISTANCE[fault.kind] if fault.distance is None else fault.distance
        if left:
            self._held.setdefault(copy.stream, []).append(_Held(fault, iteration, copy, left))
        else:
            yield self._late(_Held(fault, iteration, copy, 0), copy.time)

    def _finish(self, time: int) -> Iterator[Copy]:
        """At the end of an iteration: the copies that still wait, unless the capture was cut."""
        for stream, waiting in sorted(self._held.items()):
            capture = self._origins[stream].capture
            for held in waiting:
                if self.window.ended(capture):
                    self.window.outside[capture] += 1
                else:
                    yield self._late(held, time)
        self._held = {}

    def _first_fault(self, copy: Copy, origin: Origin, iteration: int) -> Fault | None:
        """The first fault that hits; every rate is drawn, so that one fault does not shift another."""
        found = None
        for fault, draw in self._of[copy.stream]:
            if fault.hop is not None and (copy.number == NO_DATA or not fault.hits(fault.hop, iteration, copy.number)):
                continue
            if (fault.rate is None or draw() < fault.rate) and found is None:
                found = fault
        return found

    def _release(self, passing: Copy) -> Iterator[Copy]:
        """Held copies of the stream whose distance is now behind them."""
        still: list[_Held] = []
        for held in self._held.pop(passing.stream, ()):
            held.left -= 1
            if held.left:
                still.append(held)
            else:
                yield self._late(held, passing.time)
        if still:
            self._held[passing.stream] = still

    def _late(self, held: _Held, time: int) -> Copy:
        self.events.append(self._origins[held.copy.stream].event(held.fault, held.iteration, held.copy))
        return held.copy._replace(time=max(time, held.copy.time))


def _may_touch(fault: Fault, origin: Origin) -> bool:
    return fault.capture in (None, origin.capture) and fault.hop in (None, origin.hop)
