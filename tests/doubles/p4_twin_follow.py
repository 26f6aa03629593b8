"""Following queue pairs as p4/README.md states it under "Message windows": written from that text, in whole numbers."""

from dataclasses import dataclass, field
from enum import IntEnum

from tests.doubles.p4_twin_frame import Facts

_PSNS = 1 << 24
_REACH = 16_384
_TICK_US = 1 << 20


class Verdict(IntEnum):
    """Why a packet is copied or not."""

    RULE = 0
    INSIDE = 1
    OUTSIDE = 2
    AHEAD = 3
    REPEAT = 4
    LOST = 5
    UNFOLLOWED = 6
    OTHER = 7


COPIED = frozenset(Verdict) - {Verdict.OUTSIDE, Verdict.OTHER}
UNKNOWN_MESSAGE = 0xFFFF


@dataclass(frozen=True, slots=True)
class Following:
    """The parameters of ``fc.follow``."""

    index: int
    epoch: int
    anchored: int
    anchor: int
    period: int
    low: int
    high: int

    def holds(self, message: int) -> bool:
        """Is a message inside the window, which may run over the end of the period?"""
        size = (self.high - self.low) % self.period if self.high != self.low + self.period else self.period
        return (message - self.low) % self.period < size


@dataclass(slots=True)
class Registers:
    """State of one queue pair; at 0 as a switch starts."""

    epoch: int = 0
    next_psn: int = 0
    count: int = 0
    lost: bool = False
    seen: int = 0
    """Tick at which it was heard last."""
    after: int = 0
    """PSN after that of the packet heard last."""


@dataclass(slots=True)
class Follower:
    """All queue pairs of a switch."""

    state: dict[int, Registers] = field(default_factory=dict)
    verdicts: dict[int, int] = field(default_factory=dict)
    """``fc.verdicts``: index * 8 + verdict -> packets."""

    def judge(self, packet: Facts, entry: Following | None, now: int = 0) -> tuple[Verdict, int]:
        """What a packet is, and the message ends counted before it (``UNKNOWN_MESSAGE`` where that is not known).

        ``now``: microseconds since the switch started.
        """
        if not packet.request:
            return Verdict.OTHER, UNKNOWN_MESSAGE
        if entry is None:
            return Verdict.UNFOLLOWED, UNKNOWN_MESSAGE
        verdict, message = self._place(packet, entry, now // _TICK_US)
        slot = entry.index * 8 + verdict
        self.verdicts[slot] = self.verdicts.get(slot, 0) + 1
        return verdict, message

    @staticmethod
    def _begins(here: Registers, packet: Facts, entry: Following, tick: int) -> bool:
        """Is it the first packet of a new connection? Notes that it was heard."""
        silent = here.seen != tick
        past = (packet.psn - (entry.anchor >> 8)) % _PSNS
        first = bool(entry.anchored) and past == 0 and silent and packet.psn != here.after
        if not (entry.anchored and silent and 1 <= past <= _REACH):
            here.seen, here.after = tick, (packet.psn + 1) % _PSNS
        return first

    def _place(self, packet: Facts, entry: Following, tick: int) -> tuple[Verdict, int]:
        here = self.state.setdefault(entry.index, Registers())
        begins = self._begins(here, packet, entry, tick)
        if here.epoch != entry.epoch or begins:
            start = entry.anchor >> 8 if entry.anchored else packet.psn
            here.epoch, here.next_psn, here.count, here.lost = entry.epoch, start, 0, False
        ahead = (packet.psn - here.next_psn) % _PSNS
        behind = (here.next_psn - packet.psn) % _PSNS
        message = here.count
        if ahead >= _REACH and behind > _REACH:
            here.lost = True
        if ahead == 0:
            here.next_psn = (here.next_psn + 1) % _PSNS
            if packet.ends_message:
                here.count = 0 if here.count + 1 >= entry.period else here.count + 1
        if here.lost:
            return Verdict.LOST, UNKNOWN_MESSAGE
        if ahead == 0:
            return (Verdict.INSIDE if entry.holds(message) else Verdict.OUTSIDE), message
        return (Verdict.AHEAD if ahead < _REACH else Verdict.REPEAT), UNKNOWN_MESSAGE
