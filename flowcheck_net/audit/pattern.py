"""What one queue pair carries until it repeats, and how well observed messages fit it at a place.

That is one iteration, or several where whole messages take turns on several queue pairs and an iteration begins on
another one than the last (``model/wire_turns``). Either is called a pattern, and its occurrence a window.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from flowcheck_net.model.wire import WireMessage
from flowcheck_net.receive.records import Flow, Message


@dataclass(frozen=True, slots=True)
class Pattern:
    """Message sizes and where each starts, in packets from the first."""

    sizes: tuple[int, ...]
    """RDMA payload bytes of each message."""
    immediates: tuple[int | None, ...]
    """Immediate data of each message; None: not known beforehand."""
    offsets: tuple[int, ...]
    span: int
    """Packets of the pattern, which is also the PSNs that it takes."""
    step: int
    """Packets after which the sizes repeat inside the pattern; equal to ``span`` unless it is self-similar."""
    borders: tuple[int, ...]
    """Offset of each of its iterations, the first one at 0; some may be empty."""
    starts: Mapping[int, int] = field(compare=False, repr=False)
    """Packet offset -> index of the message that starts there."""
    by_size: Mapping[int, tuple[int, ...]] = field(compare=False, repr=False)
    """Payload bytes -> indices of the messages of this size."""

    @property
    def self_similar(self) -> bool:
        """Does the pattern look the same when it is shifted? Then sizes alone cannot tell where an iteration begins."""
        return self.step < self.span

    def packets(self, index: int) -> int:
        """Packets of the message at ``index``."""
        end = self.offsets[index + 1] if index + 1 < len(self.offsets) else self.span
        return end - self.offsets[index]

    def agrees(self, index: int, message: Message) -> bool:
        """Is this what the message at ``index`` looks like? An immediate that was not seen does not contradict."""
        wanted = self.immediates[index]
        same = wanted is None or message.immediate is None or message.immediate == wanted
        return same and message.bytes == self.sizes[index]

    def indices_of(self, message: Message) -> tuple[int, ...]:
        """Messages of the same size."""
        return () if message.bytes is None else self.by_size.get(message.bytes, ())


@lru_cache(maxsize=4096)
def pattern_of(messages: tuple[WireMessage, ...], rounds: tuple[int, ...], immediates: bool) -> Pattern:
    """The pattern of a queue pair of a hop.

    Args:
        messages: One iteration on the hop, all queue pairs.
        rounds: Which part of it (``WireMessage.qp``) the queue pair carries in one iteration after the other.
        immediates: Are the immediates lengths, and known beforehand?
    """
    whole: Counter[tuple[int, int, int, int, bool]] = Counter()
    for message in messages:
        whole[_key(message)] += message.wire_bytes
    shape: list[tuple[int, int, int | None]] = []
    borders = []
    for part in rounds:
        own = [m for m in messages if m.qp == part]
        closed = {_key(m) for m in own if m.closes}
        borders.append(sum(packets for _, packets, _ in shape))
        # the immediate is the length of the whole message, and comes with the closing write where there is one
        silent = (not immediates or (not m.closes and _key(m) in closed) for m in own)
        shape += [(m.wire_bytes, m.packets, None if s else whole[_key(m)]) for m, s in zip(own, silent, strict=True)]
    offsets = []
    span = 0
    for _, packets, _ in shape:
        offsets.append(span)
        span += packets
    period = _period([(size, immediate) for size, _, immediate in shape])
    by_size: dict[int, list[int]] = {}
    for index, (size, _, _) in enumerate(shape):
        by_size.setdefault(size, []).append(index)
    return Pattern(
        sizes=tuple(size for size, _, _ in shape),
        immediates=tuple(immediate for _, _, immediate in shape),
        offsets=tuple(offsets),
        span=span,
        step=offsets[period] if period < len(shape) else span,
        borders=tuple(borders),
        starts={offset: index for index, offset in enumerate(offsets)},
        by_size={size: tuple(at) for size, at in by_size.items()},
    )


def _key(message: WireMessage) -> tuple[int, int, int, int, bool]:
    """All pieces of one NCCL message."""
    return message.bucket, message.loop, message.chunk, message.slice, message.reduced


def _period(values: Sequence[object]) -> int:
    """The smallest p that divides the length and under whose rotation the values stay the same."""
    length = len(values)
    for p in range(1, length // 2 + 1):
        if length % p == 0 and all(values[i] == values[i - p] for i in range(p, length)):
            return p
    return length


@dataclass(frozen=True, slots=True)
class Fit:
    """Observed messages against the pattern at one base."""

    matches: int
    conflicts: int
    """Messages whose start, length or immediate is not the expected one."""
    misplaced: int
    """Of them, those that take other packets than any expected message."""

    @property
    def in_step(self) -> bool:
        """Every message takes the packets of an expected one, so that the place is right whatever the lengths say."""
        return self.matches > 0 and self.misplaced == 0


class Track:
    """The messages of one flow whose length is known, in the order of their positions."""

    def __init__(self, flow: Flow, read: Callable[[Sequence[Message]], Sequence[Message]] = tuple) -> None:
        """Keep what placing needs from ``flow``; ``read`` turns immediates into the lengths that they state."""
        self.flow = flow
        self.known: tuple[Message, ...] = tuple(read([m for m in flow.messages if m.bytes is not None]))
        self.positions = [m.position for m in self.known]
        self.headless: tuple[Message, ...] = tuple(m for m in flow.messages if m.bytes is None)
        """Messages of which the packet with the length was not seen."""
        self.first = flow.seen[0][0] if flow.seen else 0
        self.last = flow.seen[-1][1] if flow.seen else -1
        self._repeats = sorted(flow.repeats)

    def repeats(self, first: int, end: int) -> Sequence[tuple[int, int]]:
        """Position and extra copies of the packets in [first, end) that were seen more than once, in order."""
        return self._repeats[bisect_left(self._repeats, (first, 0)) : bisect_left(self._repeats, (end, 0))]

    def between(self, first: int, end: int) -> Sequence[Message]:
        """Messages that start in [first, end)."""
        return self.known[bisect_left(self.positions, first) : bisect_left(self.positions, end)]

    def next_index(self, position: int) -> int:
        """Index of the first message at or after ``position``."""
        return bisect_left(self.positions, position)

    def fit(self, pattern: Pattern, base: int) -> Fit:
        """How an iteration that begins at position ``base`` agrees with what was seen."""
        at = bisect_left(self.positions, base)
        misplaced = int(at > 0 and message_end(self.known[at - 1]) > base)
        matches = 0
        conflicts = misplaced
        for message in self.between(base, base + pattern.span):
            index = pattern.starts.get(message.position - base)
            if index is not None and pattern.agrees(index, message):
                matches += 1
            else:
                conflicts += 1
                misplaced += index is None or pattern.packets(index) != message.expected_packets
        return Fit(matches, conflicts, misplaced)

    def allows(self, pattern: Pattern, base: int) -> bool:
        """Does no message of unknown length reach over the border of a message of an iteration at ``base``?"""
        end = base + pattern.span
        for message in self.headless:
            first, last = message.position, message.position + message.packets - 1
            if first < end and last >= base:
                index = bisect_right(pattern.offsets, first - base) - 1
                if index < 0 or last >= base + pattern.offsets[index] + pattern.packets(index):
                    return False
        return True

    def fits_cleanly(self, pattern: Pattern, base: int) -> int:
        """Messages that confirm an iteration at ``base``; 0 at the first one that contradicts."""
        at = bisect_left(self.positions, base)
        if at > 0 and message_end(self.known[at - 1]) > base:
            return 0
        matches = 0
        for number in range(at, len(self.known)):
            message = self.known[number]
            if message.position >= base + pattern.span:
                break
            index = pattern.starts.get(message.position - base)
            if index is None or not pattern.agrees(index, message):
                return 0
            matches += 1
        return matches


def message_end(message: Message) -> int:
    """Position after the last packet of a message, as far as it is known."""
    return message.position + (message.expected_packets or max(1, message.packets))
