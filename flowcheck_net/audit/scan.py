"""The walk along one flow that finds the iterations which observed message lengths confirm."""

from collections.abc import Sequence

from flowcheck_net.audit.pattern import Pattern, Track, message_end
from flowcheck_net.receive.records import Message

_FEW = 64
"""A message of a size with more places than this is placed by the help of a rarer one."""
_AHEAD = 3
"""Spans that a doubtful base is tried against."""


def scan(track: Track, pattern: Pattern, broadcasts: frozenset[int]) -> tuple[list[int], list[Message]]:
    """Bases in order, and the messages outside of their iterations."""
    walk = _Walk(track, pattern, broadcasts)
    walk.go(0 if track.first == 0 else None, 0, None)
    return walk.bases, walk.others


class _Walk:
    """The state of a walk; a trial walk starts behind a base that is assumed, and tries no further ones."""

    def __init__(
        self, track: Track, pattern: Pattern, broadcasts: frozenset[int], assumed: Sequence[int] | None = None
    ) -> None:
        """``assumed``: bases taken for granted by a trial walk; None: the real one."""
        self.track = track
        self.pattern = pattern
        self.broadcasts = broadcasts
        self.trial = assumed is not None
        self.bases = list(assumed or ())
        self.others: list[Message] = []
        self.rare: Message | None = None

    def go(self, end: int | None, index: int, stop: int | None) -> None:
        """Walk from message ``index``; ``end`` is the position behind what came before, None where it is not known."""
        known = self.track.known
        while index < len(known) and (stop is None or known[index].position < stop):
            message = known[index]
            base = self._right_behind(message, end)
            if base is None and self.pattern.indices_of(message):
                base = self._search(message, end)
                base = None if base is not None and self._better_without(base, index) else base
            if base is None:
                self.others.append(message)
                end = message_end(message)
                index += 1
            else:
                self.bases.append(base)
                end = base + self.pattern.span
                index = self.track.next_index(end)

    def _right_behind(self, message: Message, end: int | None) -> int | None:
        """The base behind what came before, or whole spans behind the last iteration, where one of them fits."""
        span = self.pattern.span
        ahead = [end] if end is not None and end <= message.position < end + span else []
        if self.bases:
            ahead.append(self.bases[-1] + (message.position - self.bases[-1]) // span * span)
        for base in ahead:
            if self.track.fits_cleanly(self.pattern, base) or self._in_step(base):
                return base
        return None

    def _in_step(self, base: int) -> bool:
        """Do all messages take the packets of expected ones, whatever their lengths, none being a broadcast instead?"""
        inside = self.track.between(base, base + self.pattern.span)
        if any(m.bytes in self.broadcasts and not self._agrees(m, base) for m in inside):
            return False
        return self.track.fit(self.pattern, base).in_step

    def _agrees(self, message: Message, base: int) -> bool:
        index = self.pattern.starts.get(message.position - base)
        return index is not None and self.pattern.agrees(index, message)

    def _search(self, message: Message, end: int | None) -> int | None:
        """The base, at any offset of the pattern, that explains most messages of this iteration and the next ones."""
        found = []
        for base in self._candidates(message):
            allowed = (end is None or base >= end) and message.position - base in self.pattern.starts
            matches = self.track.fits_cleanly(self.pattern, base) if allowed else 0
            if matches and not self._may_be_broadcast(message, matches):
                found.append((matches, base))
        if len(found) > 1 and not self.trial:
            found = [(matches + self._explained_behind(base), base) for matches, base in found]
        return max(found)[1] if found else None

    def _better_without(self, base: int, index: int) -> bool:
        """Does an iteration that began before message ``index`` leave more messages unexplained than none would?"""
        message = self.track.known[index]
        if self.trial or base >= message.position:
            return False
        stop = message.position + _AHEAD * self.pattern.span
        walk = _Walk(self.track, self.pattern, self.broadcasts, [base])
        walk.go(base + self.pattern.span, self.track.next_index(base + self.pattern.span), stop)
        other = _Walk(self.track, self.pattern, self.broadcasts, ())
        other.go(message_end(message), index + 1, stop)
        return len(other.others) + 1 < len(walk.others)

    def _explained_behind(self, base: int) -> int:
        """Messages that a walk behind ``base`` explains, less those that it does not."""
        span = self.pattern.span
        walk = _Walk(self.track, self.pattern, self.broadcasts, [base])
        walk.go(base + span, self.track.next_index(base + span), base + _AHEAD * span)
        return len(self.track.between(base + span, base + _AHEAD * span)) - 2 * len(walk.others)

    def _candidates(self, message: Message) -> Sequence[int]:
        """Bases that put ``message``, or a rarer one less than an iteration behind it, at a place of its size."""
        anchor = message if len(self.pattern.indices_of(message)) <= _FEW else self._anchor(message)
        found = set()
        for index in self.pattern.indices_of(anchor):
            base = anchor.position - self.pattern.offsets[index]
            behind = base > message.position
            found.add(base + (message.position - base) // self.pattern.step * self.pattern.step if behind else base)
        return sorted(found)

    def _anchor(self, message: Message) -> Message:
        """A message from this one on whose size has few places; kept from one search to the next."""
        span = self.pattern.span
        if self.rare is None or not message.position <= self.rare.position < message.position + span:
            near = [
                m for m in self.track.between(message.position, message.position + span) if self.pattern.indices_of(m)
            ]
            self.rare = min(near, key=lambda m: (len(self.pattern.indices_of(m)), m.position))
        return self.rare

    def _may_be_broadcast(self, message: Message, matches: int) -> bool:
        """Does the iteration rest on one message that may as well be a declared broadcast?"""
        return matches == 1 and len(self.pattern.sizes) > 1 and message.bytes in self.broadcasts
