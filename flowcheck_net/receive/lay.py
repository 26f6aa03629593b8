"""The second pass over a capture: fully reduced bytes into gradient files, by anchors that the first pass proved.

The C core places every packet by its PSN and lays its bytes (``native_track``). Where queue pairs take turns, what one
of them carries repeats only after several iterations: those share one buffer, which is cut into iterations afterwards.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from math import lcm
from pathlib import Path

from flowcheck_net.ids import Address, CapturePort, GroupName, Qpn
from flowcheck_net.model.expect import ExpectedHop
from flowcheck_net.model.job import Protocol, Wire
from flowcheck_net.receive.gradient import iteration_directory, mapped
from flowcheck_net.receive.layout import Layout, buffer_of, present_size
from flowcheck_net.receive.native import Core
from flowcheck_net.receive.native_track import Finding, FindingKind, Immediate, ImmediateForm, Pattern, Slot, Tracker

_FIFO_BYTES = {Protocol.LL: 65_536, Protocol.LL128: 614_400, Protocol.SIMPLE: 524_288}
"""Of one step; source: NCCL ``computeBuffSizes``, unchanged from 2.8 to 2.30."""
BATCH = 128
"""Buffers that are open at once. More of them take further passes over the capture."""


@dataclass(frozen=True, slots=True)
class Run:
    """Iterations that follow one another without a break on a queue pair."""

    position: int
    """Of the first packet."""
    iteration: int
    """Number of the first one."""
    iterations: int


@dataclass(frozen=True, slots=True)
class Followed:
    """A queue pair at one capture port."""

    capture: CapturePort
    ends: tuple[Address, Address]
    dest_qp: Qpn
    hop: ExpectedHop
    parts: tuple[int, ...]
    """``WireMessage.qp`` of what it carries in iteration n, by n modulo their number; -1: never seen."""
    runs: tuple[Run, ...]
    """By position and number."""


PatternKey = tuple[GroupName, int, int, tuple[int, ...]]
"""Queue pairs with the same (lane, channel, hop, parts) send the same pattern."""


@dataclass(frozen=True, slots=True)
class Tracked:
    """How the core is to track a queue pair."""

    followed: Followed
    key: PatternKey
    group: int
    """Number of its buffer."""
    anchors: tuple[tuple[int, int, int], ...]
    """(position, number, count) of cycles that follow one another; positions and numbers grow."""


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A packet that was not as expected at its place."""

    hop: ExpectedHop
    capture: CapturePort
    finding: Finding


@dataclass(frozen=True, slots=True)
class Laid:
    """What became of the packets."""

    places: dict[str, int]
    """Packets of the followed queue pairs by what they were (``docs/payload.md``); each once, however many passes."""
    lays: dict[str, int]
    """Of those placed, what became of their bytes, in the pass that had memory for them."""
    contradictions: tuple[Contradiction, ...]
    counts: dict[str, int]
    """All contradictions by kind, also those that are not kept."""


class Layer:
    """Lays iterations into files."""

    def __init__(self, wire: Wire, layout: Layout, followed: Sequence[Followed], immediates: ImmediateForm) -> None:
        self._wire = wire
        self._layout = layout
        self._followed = followed
        self._immediates = immediates
        cycles: dict[GroupName, int] = dict.fromkeys(layout.groups, 1)
        for one in followed:
            group = buffer_of(one.hop.group)
            cycles[group] = lcm(cycles[group], len(one.parts))
        self._cycles = cycles

    def lay(self, feed: Callable[[Core], None], iterations: Sequence[int], out: Path, core: Callable[[], Core]) -> Laid:
        """Write ``out/iteration-N.partial/GROUP.gradient`` and ``.present`` for each iteration and group.

        Args:
            feed: Hands all frames of the capture to a core; called once a pass.
            iterations: Their numbers.
            out: Exists.
            core: Makes a core with the settings of the first pass.
        """
        for number in iterations:
            iteration_directory(out, number, complete=False).mkdir()
        wanted = iter(sorted({(n // self._cycles[g], g) for n in iterations for g in self._layout.groups}))
        total: Laid | None = None
        while batch := tuple(islice(wanted, BATCH)):
            with Tracker() as tracker, core() as each:
                found = self._pass(_Pass(tracker, each, feed, out, frozenset(iterations)), batch)
            total = found if total is None else _joined(total, found)
        return total or Laid({}, {}, (), {})

    def _pass(self, run: "_Pass", batch: Sequence[tuple[int, GroupName]]) -> Laid:
        tracks = self._follow(run)
        followed = {buffer_of(one.hop.group) for one in self._followed}
        lent = [(cycle, group) for cycle, group in batch if group in followed and self.stride(group)[0]]
        run.tracker.attach(run.core)
        presents: dict[tuple[int, GroupName], bytearray] = {}
        with ExitStack() as stack:
            for cycle, group in batch:
                memory = stack.enter_context(mapped(self._buffer(run, cycle, group), self.stride(group)[0]))
                presents[cycle, group] = bytearray(self.stride(group)[1])
                if (cycle, group) in lent:
                    run.tracker.lend(self._layout.numbers[group], cycle, memory, presents[cycle, group])
            run.feed(run.core)
            counts = [run.tracker.count(track) for track in tracks]
            rows, kinds = run.tracker.findings()
            for cycle, group in lent:
                run.tracker.take_back(self._layout.numbers[group], cycle)
        for (cycle, group), present in presents.items():
            self._cut(run, cycle, group, present)
        return Laid(
            places=_sum([count.places for count in counts]),
            lays=_sum([count.lays for count in counts]),
            contradictions=tuple(
                Contradiction(self._followed[row.track].hop, self._followed[row.track].capture, row)
                for row in rows
                if row.kind is not FindingKind.ANCHOR_FOUND
            ),
            counts={kind.value: count for kind, count in kinds.items() if count},
        )

    def _follow(self, run: "_Pass") -> list[int]:
        """Patterns, queue pairs and anchors; track numbers are places in ``followed``."""
        patterns: dict[PatternKey, int] = {}
        tracks = []
        for each in self.tracks():
            one = each.followed
            if each.key not in patterns:
                patterns[each.key] = run.tracker.pattern(self.pattern(one))
            capture = run.core.capture_number(one.capture)
            track = run.tracker.follow(capture, one.ends, one.dest_qp, patterns[each.key], each.group)
            tracks.append(track)
            for anchor in each.anchors:
                run.tracker.anchor(track, *anchor)
        return tracks

    def tracks(self) -> Iterator[Tracked]:
        """How each followed queue pair is to be tracked, in their order."""
        for one in self._followed:
            hop = one.hop
            anchors: list[tuple[int, int, int]] = []
            for anchor in self._anchors(one):
                if not anchors or (anchor[0] > anchors[-1][0] and anchor[1] > anchors[-1][1]):
                    anchors.append(anchor)
            key = (hop.group, hop.channel, hop.index, one.parts)
            yield Tracked(one, key, self._layout.numbers[buffer_of(hop.group)], tuple(anchors))

    def cycle(self, group: GroupName) -> int:
        """Iterations after which the queue pairs of a group carry the same again; they share one buffer."""
        return self._cycles[group]

    def _anchors(self, one: Followed) -> Iterator[tuple[int, int, int]]:
        """Position, number and count of the cycles that hold each run."""
        length = self._cycles[buffer_of(one.hop.group)]
        packets = [sum(m.packets for m in one.hop.messages if m.qp == part) for part in one.parts]
        for run in one.runs:
            first = run.iteration // length
            before = range(first * length, run.iteration)
            position = run.position - sum(packets[n % len(packets)] for n in before)
            yield position, first, (run.iteration + run.iterations - 1) // length + 1 - first

    def pattern(self, one: Followed) -> Pattern:
        """What a queue pair sends in a cycle."""
        hop, protocol = one.hop, self._wire.nccl.protocol
        group = buffer_of(hop.group)
        size, units = self._bytes(group)
        step_size = 2 if protocol is Protocol.SIMPLE and len({m.reduced for m in hop.messages}) > 1 else 1
        table, steps = self._slots(hop, step_size)
        slots = []
        for n in range(self._cycles[group]):
            for slot in table.get(one.parts[n % len(one.parts)], ()):
                moved = Slot(
                    packets=slot.packets,
                    bytes=slot.bytes,
                    immediate=slot.immediate,
                    data_at=slot.data_at + n * size,
                    data_bytes=slot.data_bytes,
                    unit=slot.unit + n * units,
                    reduced=slot.reduced,
                    wire_at=slot.wire_at,
                    step=slot.step + n * steps,
                )
                slots.append(moved)
        return Pattern(
            slots=tuple(slots),
            mtu=self._wire.mtu,
            protocol=protocol,
            immediate=self._immediates,
            steps=steps * self._cycles[group],
            fifo_bytes=_FIFO_BYTES[protocol],
        )

    def _slots(self, hop: ExpectedHop, step_size: int) -> tuple[dict[int, list[Slot]], int]:
        """By part, and the FIFO steps of an iteration."""
        whole: dict[tuple[int, int, int, int, bool], list[int]] = {}
        for m in hop.messages:
            known = whole.setdefault((m.bucket, m.loop, m.chunk, m.slice, m.reduced), [len(whole) * step_size, 0])
            known[1] += m.wire_bytes
        found: dict[int, list[Slot]] = {}
        messages = (*hop.messages, None)
        for m, following in zip(hop.messages, messages[1:], strict=True):
            step, length = whole[m.bucket, m.loop, m.chunk, m.slice, m.reduced]
            closed = following is not None and following.closes and not m.closes
            immediate = Immediate.ABSENT if closed else length
            if m.closes:
                slot = Slot(1, 0, immediate, step=step)
            else:
                piece = self._layout.place(hop, m)
                laid = m.reduced and piece.data_bytes > 0
                slot = Slot(
                    *(m.packets, m.wire_bytes, immediate, piece.data_at, piece.data_bytes, piece.unit),
                    reduced=laid,
                    wire_at=piece.wire_at,
                    step=step,
                )
            found.setdefault(m.qp, []).append(slot)
        return found, len(whole) * step_size

    def _bytes(self, group: GroupName) -> tuple[int, int]:
        """Bytes of one iteration's buffer, and its units rounded up to whole words."""
        layout = self._layout.groups[group]
        return layout.size, present_size(layout.units) * 8

    def stride(self, group: GroupName) -> tuple[int, int]:
        """Bytes of the buffer of a cycle, and of its presence bits."""
        size, units = self._bytes(group)
        return self._cycles[group] * size, self._cycles[group] * units // 8

    def _buffer(self, run: "_Pass", cycle: int, group: GroupName) -> Path:
        if self._cycles[group] == 1:
            return iteration_directory(run.out, cycle, complete=False) / f"{group}.gradient"
        return run.out / f".{group}.cycle-{cycle}"

    def _cut(self, run: "_Pass", cycle: int, group: GroupName, present: bytearray) -> None:
        """From the buffer of a cycle to the files of its iterations."""
        length, (size, units) = self._cycles[group], self._bytes(group)
        source = self._buffer(run, cycle, group)
        for n in range(length):
            number = cycle * length + n
            if number in run.iterations:
                directory = iteration_directory(run.out, number, complete=False)
                (directory / f"{group}.present").write_bytes(present[n * units // 8 : (n + 1) * units // 8])
                if length > 1:
                    _copy(source, n * size, size, directory / f"{group}.gradient")
        if length > 1:
            source.unlink()


@dataclass(frozen=True, slots=True)
class _Pass:
    """One pass over the capture."""

    tracker: Tracker
    core: Core
    feed: Callable[[Core], None]
    out: Path
    iterations: frozenset[int]


def _copy(source: Path, start: int, size: int, target: Path) -> None:
    with source.open("rb") as file, target.open("xb") as copy:
        file.seek(start)
        while size:
            block = file.read(min(size, 1 << 22))
            copy.write(block)
            size -= len(block)


def _sum(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counts:
        for name, count in each.items():
            total[name] = total.get(name, 0) + count
    return {name: count for name, count in total.items() if count}


def _joined(one: Laid, two: Laid) -> Laid:
    """Two passes over the same packets: places and contradictions are the same in both, but what was laid is not."""
    lays = _sum([{n: c for n, c in each.lays.items() if n not in ("no_memory", "not_reduced")} for each in (one, two)])
    return Laid(one.places, lays, one.contradictions, one.counts)
