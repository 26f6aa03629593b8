"""When each connection sends what, and a memory of what was sent."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from flowcheck_net.model.job import Job
from flowcheck_net.receive.synth_connection import (
    STEP_LATENCY,
    Connection,
    Course,
    Send,
    Sent,
    broadcast_sends,
    iteration_sends,
)
from flowcheck_net.receive.synth_faults import Fault, resent_packets
from flowcheck_net.receive.synth_frames import PSN_MASK
from flowcheck_net.receive.synth_report import FaultEvent, Span
from flowcheck_net.receive.synth_streams import Copy, Stream
from flowcheck_net.receive.synth_window import Gate

PROLOGUE = -1
"""Number of the iteration that holds the declared broadcasts."""


class Schedule:
    """The sends of each connection and when each of them starts: all hops of a ring or tree go in step."""

    def __init__(self, job: Job, connections: Sequence[Connection], gap: int, *, prologue: bool) -> None:
        """``gap``: nanoseconds from packet to packet; ``prologue``: the broadcasts, else an iteration."""
        self.sends: dict[str, tuple[Send, ...]] = {}
        self.starts: dict[str, list[int]] = {}
        self.duration = 0
        """Nanoseconds of the longest ring or tree."""
        lanes: dict[tuple[str, int], list[Connection]] = {}
        for connection in connections:
            lanes.setdefault((connection.lane.group, connection.lane.channel), []).append(connection)
        make = broadcast_sends if prologue else iteration_sends
        for members in lanes.values():
            sends = {one.name: make(job.wire, one.lane, one.hop) for one in members}
            starts = [STEP_LATENCY]
            for place in range(max(map(len, sends.values()))):
                longest = max(every[place].packets for every in sends.values() if place < len(every))
                starts.append(starts[-1] + longest * gap + STEP_LATENCY)
            self.duration = max(self.duration, starts[-1])
            self.sends |= sends
            self.starts |= {name: starts[: len(every)] for name, every in sends.items()}

    def resent(self, connection: Connection, faults: Sequence[Fault], iteration: int, seed: int) -> dict[int, Fault]:
        """Data packets of the connection that the network loses in this iteration, each with its fault."""
        total = sum(send.packets for send in self.sends[connection.name])
        return resent_packets(faults, connection.name, iteration, total, seed)


class Ledger:
    """What one connection sent: PSN spans and retransmissions."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.spans: list[Span] = []
        self.events: list[FaultEvent] = []

    def record(self, course: Iterator[Sent], iteration: int, resent: Mapping[int, Fault]) -> Iterator[Sent]:
        """Pass a course on, and remember it."""
        first: dict[int, int] = {}
        packets: Counter[int] = Counter()
        for sent in course:
            first.setdefault(sent.qp, sent.psn)
            packets[sent.qp] += sent.part.packets
            if len(sent.runs) > 1:
                self.events.extend(self._resent(sent, iteration, resent))
            yield sent
        number = None if iteration == PROLOGUE else iteration
        ends = self._connection.source.address, self._connection.destination.address
        for queue_pair, psn in sorted(first.items()):
            qpn = self._connection.qpns[queue_pair]
            self.spans.append(Span(self._connection.name, number, *ends, qpn, psn, packets[queue_pair]))

    def _resent(self, sent: Sent, iteration: int, resent: Mapping[int, Fault]) -> Iterator[FaultEvent]:
        for run in sent.runs:
            if run.lost is not None:
                fault = resent[sent.number + run.lost]
                yield FaultEvent(
                    kind=fault.kind,
                    fault=fault.text,
                    capture=None,
                    hop=self._connection.name,
                    iteration=iteration,
                    packet=sent.number + run.lost,
                    psn=(sent.psn + run.lost) & PSN_MASK,
                    dest_qp=self._connection.qpns[sent.qp],
                    opcode=None,
                    packets=run.stop - run.lost,
                )


class Watcher:
    """A stream with the course that it watches."""

    def __init__(self, stream: Stream, course: Course, ledger: Ledger | None) -> None:
        """``ledger``: for one stream of each connection."""
        self.stream = stream
        self._gate = Gate(stream.addresses[1], stream.sight.windows) if stream.sight.windows else None
        self._course = course
        self._ledger = ledger

    def copies(self, iteration: int, start: int, schedule: Schedule, resent: Mapping[int, Fault]) -> Iterator[Copy]:
        """What the stream sees of an iteration that begins at ``start`` (nanoseconds)."""
        name = self.stream.connection.name
        starts = [start + after for after in schedule.starts[name]]
        course = self._course.iteration(schedule.sends[name], starts, resent)
        if self._ledger is not None:
            course = self._ledger.record(course, iteration, resent)
        passing = self.stream.copies(course, iteration)
        return passing if self._gate is None else filter(self._gate.copies, passing)
