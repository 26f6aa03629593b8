"""Capture files sent on network interfaces: each source in a thread of its own, all by one clock."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from flowcheck_net.errors import CaptureError, FlowcheckError, SendError
from flowcheck_net.receive.capture_file import Content, legible, stem, whole_content
from flowcheck_net.receive.native import Core, FileState
from flowcheck_net.receive.native_send import Pace, Sender, SendSettings, now_ns
from flowcheck_net.receive.send_interface import InterfaceFacts, TransmitCounters, look, transmit_counters
from flowcheck_net.receive.send_namespace import inside
from flowcheck_net.receive.send_report import SendReport, SentSource

_LEAD_NS = 50_000_000
"""All threads are up before the first deadline."""
_MILLIONTHS = 1_000_000
_UNNAMED = frozenset({"", "-"})
_YES_HINT = (
    "send into a veth pair or namespace made for it; if this interface is really meant, add --yes-this-interface"
)


@dataclass(frozen=True, slots=True)
class SendOptions:
    """What is to be sent where, and when."""

    targets: tuple[tuple[str, str], ...]
    """Capture port (or interface name in the file) and network interface; an empty port stands for every port.

    The interface may be in another namespace: ``NETNS/IFACE``, with a name of ``ip netns`` or a path."""
    ports: tuple[str, ...] = ()
    """With an empty port in ``targets``: only these."""
    pace: Pace = Pace.RECORDED
    rate: int = _MILLIONTHS
    """As in SendSettings: with RECORDED, millionths of the recorded speed."""
    rounds: int = 1
    """How many times; 0: until it is stopped."""
    bypass: bool = True
    """Around the queueing discipline."""
    sure: bool = False
    """Send on an interface even though it may reach a production network."""


@dataclass(frozen=True, slots=True)
class _Span:
    """The packets of one port in one file."""

    packets: int
    first_ns: int
    last_ns: int


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    content: Content
    ports: Mapping[str, _Span]
    incomplete: str

    def choosing(self, ports: frozenset[str]) -> Callable[[str], bool]:
        """Is an interface of the file one of these ports?"""
        return lambda interface: _port_name(self.path, interface) in ports


@dataclass(slots=True)
class _Job:
    """One source and how far it got; written by its thread only."""

    namespace: str
    facts: InterfaceFacts
    ports: frozenset[str]
    files: tuple[_File, ...]
    before: TransmitCounters | None
    begun: int = 0
    ended: int = 0
    fault: FlowcheckError | None = None
    done: threading.Event = field(default_factory=threading.Event)
    """Its thread is done with the sender. (After an interrupted join, Python 3.11 takes a running thread for ended.)"""

    @property
    def interface(self) -> str:
        """As the user called it."""
        return f"{self.namespace}/{self.facts.name}" if self.namespace else self.facts.name

    @property
    def spans(self) -> list[_Span]:
        return [span for file in self.files for name, span in file.ports.items() if name in self.ports]


@dataclass(frozen=True, slots=True)
class _Schedule:
    """When each round starts."""

    start_ns: int
    base_ns: int
    period_ns: int
    """From round to round, as recorded: the length of the recording and one mean distance of packets."""
    rounds: int
    rate: int = field(default=_MILLIONTHS)

    def start_of(self, number: int) -> int:
        return self.start_ns + number * self.period_ns * _MILLIONTHS // self.rate


def _port_name(path: Path, interface: str) -> str:
    return legible(stem(path) if interface in _UNNAMED else interface)


def _survey(path: Path) -> _File:
    """What a file holds; CaptureError where nothing of it can be used."""
    content = whole_content(path)
    with Core() as core:
        report = core.read(content.source, lambda interface: _port_name(path, interface))
        captures = core.captures()
    if report.state in (FileState.EMPTY, FileState.FOREIGN) or report.packets == 0:
        reason = {FileState.EMPTY: "the file is empty", FileState.FOREIGN: "not a capture file"}.get(report.state)
        raise CaptureError(
            f"{legible(str(path))}: {reason or 'no whole packet in it'}",
            hint="give a pcap or pcapng file, plain or gzip, or one that flowcheck-net synth has written",
        )
    cut = report.reason or ("the compressed data end early" if content.cut else "")
    incomplete = f"{legible(str(path))}: {cut}; {report.packets:,} whole packets before it" if cut else ""
    ports = {str(each.name): _Span(each.packets, each.first_time, each.last_time) for each in captures if each.packets}
    return _File(path, content, ports, incomplete)


def _chosen_ports(files: Sequence[_File], port: str, options: SendOptions) -> frozenset[str]:
    """Ports of one target; SendError where the files have no such port."""
    known = sorted({name for file in files for name in file.ports})
    wanted = [port] if port else list(options.ports)
    for name in wanted:
        if name not in known:
            raise SendError(f"no packets of {legible(name)} in the files", hint=f"they have: {', '.join(known)}")
    return frozenset(wanted or known)


def _prepare(files: Sequence[_File], options: SendOptions) -> list[_Job]:
    """Everything that can be refused is refused here, before the first packet."""
    jobs = []
    for port, interface in options.targets:
        ports = _chosen_ports(files, port, options)
        namespace, _, name = interface.rpartition("/")
        with inside(namespace):
            facts, before = look(name), transmit_counters(name)
        if facts.doubts and not options.sure:
            raise SendError(
                f"{interface}: nothing was sent, for this interface {' and '.join(facts.doubts)}: machines that never "
                "asked for recorded frames would get them",
                hint=_YES_HINT,
            )
        own = tuple(file for file in files if ports & file.ports.keys())
        jobs.append(_Job(namespace, facts, ports, own, before))
    return jobs


def _schedule(jobs: Iterable[_Job], options: SendOptions) -> _Schedule:
    spans = [span for job in jobs for span in job.spans]
    first, last = min(span.first_ns for span in spans), max(span.last_ns for span in spans)
    gap = (last - first) // max(1, sum(span.packets for span in spans) - 1)
    rate = options.rate if options.pace is Pace.RECORDED else _MILLIONTHS
    return _Schedule(now_ns() + _LEAD_NS, first, last - first + gap, options.rounds, rate)


def _work(job: _Job, sender: Sender, schedule: _Schedule) -> None:
    """The thread of one source."""
    try:
        for number in count():
            if schedule.rounds and number >= schedule.rounds:
                return
            job.begun += 1
            sender.again(schedule.start_of(number), schedule.base_ns)
            if not all(sender.run(file.content.source, file.choosing(job.ports)) for file in job.files):
                return
            job.ended += 1
    except FlowcheckError as error:
        job.fault = error
    finally:
        job.done.set()


def _watch(jobs: Sequence[_Job], senders: Sequence[Sender]) -> bool:
    """Wait for the threads to end. True: interrupted, and they were told to."""
    interrupted = False
    while not all(job.done.is_set() for job in jobs):
        try:
            for job in jobs:
                job.done.wait(0.2)
        except KeyboardInterrupt:  # a second one changes nothing: they end within a tenth of a second
            interrupted = True
            for sender in senders:
                sender.stop()
    return interrupted


def _sent(job: _Job, sender: Sender, rounds: int) -> SentSource:
    counts, counted = sender.counts(), None
    with inside(job.namespace):
        after = transmit_counters(job.facts.name)
    if after is not None and job.before is not None:
        counted = TransmitCounters(after.packets - job.before.packets, after.dropped - job.before.dropped)
    wanted = sum(span.packets for span in job.spans) * (rounds or job.begun)
    return SentSource(
        ports=tuple(sorted(job.ports)),
        interface=job.interface,
        counts=counts,
        rounds=job.ended,
        not_reached=wanted - counts.packets - sum(counts.refused.values()),
        counted=counted,
        fault=job.fault.message if job.fault else "",
    )


def send(paths: Sequence[Path], options: SendOptions) -> SendReport:
    """Send the packets of capture files, in the order of the files, at absolute deadlines.

    Several targets are sent to at once, by one clock: what was recorded at the same time is due at the same time.
    KeyboardInterrupt ends the sending, not this function.

    Args:
        paths: pcap or pcapng files, plain or gzip; ``-`` is standard input.
        options: what goes where, and when.

    Raises:
        CaptureError: a file holds nothing that can be used.
        SendError: a port or interface is not there, may reach a production network, or may not be sent on by this user.
    """
    files = [_survey(path) for path in paths]
    jobs = _prepare(files, options)
    with ExitStack() as stack:
        schedule = _schedule(jobs, options)
        senders = []
        for job in jobs:
            settings = SendSettings(options.pace, options.rate, job.facts.longest, options.bypass)
            with inside(job.namespace):
                sender = Sender(job.facts.name, settings, start_ns=schedule.start_ns, base_ns=schedule.base_ns)
            senders.append(stack.enter_context(sender))
        threads = [
            threading.Thread(target=_work, args=(job, sender, schedule), name=f"send {job.facts.name}", daemon=True)
            for job, sender in zip(jobs, senders, strict=True)
        ]
        for thread in threads:
            thread.start()
        interrupted = _watch(jobs, senders)
        sources = tuple(_sent(job, sender, options.rounds) for job, sender in zip(jobs, senders, strict=True))
    return SendReport(
        files=tuple(legible(str(path)) for path in paths),
        sources=sources,
        interrupted=interrupted,
        incomplete=tuple(file.incomplete for file in files if file.incomplete),
    )
