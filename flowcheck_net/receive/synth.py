"""Synthesized captures: what the observation points of a plan would send to their capture ports.

Real headers, PSNs, lengths, immediates, LL flags and ICRCs; acknowledgements and clear-to-send writes in the other
direction; scripted faults. The same arguments give the same file, byte for byte. What is modelled: ``docs/synth.md``.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import merge
from pathlib import Path

from flowcheck_net.errors import OutputError, PlanError
from flowcheck_net.ids import CapturePort
from flowcheck_net.model.job import Job
from flowcheck_net.plan.plan import Plan
from flowcheck_net.receive.pcapng_write import PcapngWriter
from flowcheck_net.receive.synth_connection import Connection, Course
from flowcheck_net.receive.synth_copies import CopyFaults, Origin
from flowcheck_net.receive.synth_faults import Fault, FaultKind
from flowcheck_net.receive.synth_foreign import ForeignStream
from flowcheck_net.receive.synth_given import GivenGradients
from flowcheck_net.receive.synth_payload import Gradients
from flowcheck_net.receive.synth_report import SynthReport, WrittenCapture, WrittenFlow
from flowcheck_net.receive.synth_route import sender_taps, taps_of
from flowcheck_net.receive.synth_schedule import PROLOGUE, Ledger, Schedule, Watcher
from flowcheck_net.receive.synth_setup import Limits, Observed, check_faults, connections_of, mirrored_packets, observe
from flowcheck_net.receive.synth_streams import Copy

EPOCH = 1_767_225_600_000_000_000
"""2026-01-01 00:00:00 UTC, when every synthesized capture begins: nanoseconds since the epoch."""
LINE_RATE = 100e9
"""Bits per second of the hosts' network cards (a plan does not keep port speeds)."""

_SETTLE = 100_000
"""Nanoseconds between the last packet of an iteration and the first one of the next, at the least."""
_OVERHEAD = 14 + 40 + 8 + 12 + 4 + 24
"""Bytes of a Middle packet on the wire beside its payload: Ethernet, IPv6, UDP, BTH, ICRC, preamble and gap."""


def synthesize(
    plan: Plan,
    out: Path,
    *,
    iterations: int,
    faults: Sequence[Fault] = (),
    seed: int = 0,
    start_psn: int = 0,
    senders: bool = False,
    fill: float = 0.0,
    gradients: Path | None = None,
) -> SynthReport:
    """Write the capture of ``iterations`` iterations of the plan's job to ``out`` (pcapng).

    Args:
        plan: Its sessions say what is mirrored, its picture says which ways packets take.
        out: Appears only when it is whole.
        iterations: 1 or more.
        faults: What goes wrong.
        seed: Gradients and random faults follow from it.
        start_psn: First PSN of every queue pair.
        senders: Not the copies, but what each host's network card sends; interfaces are then named ``host:nic``.
        fill: The part of an iteration's time that its packets are spread over, where line rate needs less.
        gradients: Directory with the reduced gradients to send (``synth_given``); None: they follow from the seed.

    Raises:
        SpecError: A fault that does not fit the plan.
        PlanError: A plan without sessions, or whose picture lacks links.
        OutputError: The file cannot be written, or a gradient is missing.
    """
    source = Gradients(seed)
    if gradients is not None:
        source = given = GivenGradients(seed, gradients, plan.job)
        given.require(iterations)
    synthesis = _Synthesis(plan, iterations, faults, source, start_psn, senders=senders, fill=fill)
    try:
        with PcapngWriter(out, synthesis.captures, "flowcheck-net synth") as writer:
            return synthesis.write(writer)
    except OSError as error:
        raise OutputError(
            f"{out} cannot be written: {error.strerror or error}", hint="choose another place with -o"
        ) from error


class _Synthesis:
    """One run."""

    def __init__(
        self,
        plan: Plan,
        iterations: int,
        faults: Sequence[Fault],
        gradients: Gradients,
        start_psn: int,
        *,
        senders: bool,
        fill: float,
    ) -> None:
        if not plan.sessions and not senders:
            raise PlanError("the plan has no mirror sessions: nothing would be captured")
        self._job = plan.job
        self._iterations = iterations
        self._faults = faults
        self._seed = gradients.seed
        connections = connections_of(plan.job, start_psn)
        ends = (place for one in connections for place in (one.source, one.destination))
        taps = sender_taps(plan.picture, ends) if senders else taps_of(plan)
        self.captures: tuple[CapturePort, ...] = tuple(sorted({tap.capture for tap in taps}))
        everything = observe(plan, taps, connections, gradients)
        observed = tuple(each for each in everything if each.data or each.answers)
        busiest = max(Counter(one.source.address for one in connections).values(), default=1)
        seen = [each.connection for each in observed]
        gap = max(
            round((plan.job.wire.mtu + _OVERHEAD) * 8e9 / LINE_RATE * busiest),
            _spread(plan.job, seen, round(fill * plan.job.iteration_time * 1e9)),
        )
        self._prologue = Schedule(plan.job, seen, gap, prologue=True)
        self._regular = Schedule(plan.job, seen, gap, prologue=False)
        totals = {name: sum(send.packets for send in sends) for name, sends in self._regular.sends.items()}
        hops = {each.connection.name: bool(each.data) for each in everything}
        mirrored = mirrored_packets(plan, faults) if faults and start_psn == 0 else {}
        check_faults(faults, Limits(hops, totals, self.captures, iterations, mirrored))
        self._ledgers = [Ledger(connection) for connection in seen]
        self._watchers = [
            watcher
            for each, ledger in zip(observed, self._ledgers, strict=True)
            for watcher in self._watch(each, ledger, gap)
        ]
        self._foreign = self._foreign_streams(len(self._watchers), gradients)

    def _watch(self, each: Observed, ledger: Ledger, gap: int) -> Iterator[Watcher]:
        keeper: Ledger | None = ledger
        for stream in (*each.data, *each.answers):
            yield Watcher(stream, Course(self._job.wire, each.connection, gap), keeper)
            keeper = None

    def _foreign_streams(self, number: int, gradients: Gradients) -> list[ForeignStream]:
        asked = [fault for fault in self._faults if fault.kind is FaultKind.FOREIGN]
        return [
            ForeignStream(number + place, fault.capture or self.captures[0], fault, self._job.wire.mtu, gradients)
            for place, fault in enumerate(asked)
        ]

    def write(self, writer: PcapngWriter) -> SynthReport:
        """Write all iterations and the statistics."""
        streams = (watcher.stream for watcher in self._watchers)
        origins = {one.number: Origin(one.capture, one.connection.name, one.carries_data) for one in streams}
        origins |= {each.number: Origin(each.capture, None, data=False) for each in self._foreign}
        mirror = CopyFaults(self._faults, self._seed, origins, self.captures)
        interface = {number: self.captures.index(origin.capture) for number, origin in origins.items()}
        written: Counter[tuple[int, int, int]] = Counter()
        start = last = EPOCH
        for iteration in range(PROLOGUE if self._job.wire.broadcasts else 0, self._iterations):
            for copy in self._iteration(iteration, start, mirror):
                last = copy.time
                writer.write(interface[copy.stream], last, copy.frame)
                written[copy.stream, copy.dest_qp, copy.opcode] += 1
            start = max(EPOCH + (iteration + 1) * round(self._job.iteration_time * 1e9), last + _SETTLE)
        for number, capture in enumerate(self.captures):
            writer.statistics(number, mirror.reported_drops[capture])
        return self._report(written, writer.written, mirror)

    def _iteration(self, iteration: int, start: int, mirror: CopyFaults) -> Iterator[Copy]:
        """All copies of one iteration, faults included, in order of time."""
        schedule = self._prologue if iteration == PROLOGUE else self._regular
        mirror.window.begin(iteration, start, schedule.duration)
        streams = []
        for watcher in self._watchers:
            resent = schedule.resent(watcher.stream.connection, self._faults, iteration, self._seed)
            streams.append(watcher.copies(iteration, start, schedule, resent))
        streams += [each.copies(start) for each in self._foreign if each.iteration == iteration]
        return mirror.arriving(merge(*streams), iteration)

    def _report(
        self, written: Counter[tuple[int, int, int]], packets: Sequence[int], mirror: CopyFaults
    ) -> SynthReport:
        streams = {watcher.stream.number: watcher.stream for watcher in self._watchers}
        foreign = {each.number: each for each in self._foreign}
        flows: dict[tuple[str, str, str, str, int], WrittenFlow] = {}
        for (number, dest_qp, opcode), count in sorted(written.items()):
            stream = streams.get(number)
            hop = stream.connection.name if stream else None
            source, destination = stream.addresses if stream else foreign[number].addresses
            capture = stream.capture if stream else foreign[number].capture
            key = (capture, hop or "", source, destination, dest_qp)
            flow = flows.setdefault(key, WrittenFlow(capture, hop, source, destination, dest_qp, {}))
            flow.opcodes[opcode] = flow.opcodes.get(opcode, 0) + count
        events = [event for ledger in self._ledgers for event in ledger.events]
        return SynthReport(
            seed=self._seed,
            iterations=self._iterations,
            packets=sum(packets),
            captures=tuple(
                WrittenCapture(name, count, mirror.reported_drops[name], mirror.window.outside[name])
                for name, count in zip(self.captures, packets, strict=True)
            ),
            flows=tuple(flows[key] for key in sorted(flows)),
            spans=tuple(span for ledger in self._ledgers for span in ledger.spans),
            events=(*events, *mirror.events, *mirror.window.events, *(each.event() for each in self._foreign)),
        )


def _spread(job: Job, connections: Sequence[Connection], duration: int) -> int:
    """Nanoseconds from packet to packet with which an iteration takes so long; 1 or more."""
    one, two = (Schedule(job, connections, gap, prologue=False).duration for gap in (1, 2))
    return max(1, 1 + (duration - one) // max(1, two - one))
