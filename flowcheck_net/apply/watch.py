"""Look at the switches again and again: what began to differ, what is over, what restarted. Changes nothing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from flowcheck_net.apply.compare import owner
from flowcheck_net.apply.reach import Reach
from flowcheck_net.apply.verify import SwitchVerdict, VerifyReport, remark_text, verify_plan
from flowcheck_net.ids import SessionName, SwitchName
from flowcheck_net.intent import SwitchAddress, restarted
from flowcheck_net.plan.plan import Plan

LONGEST_BACKOFF = 32
"""Rounds that a switch which cannot be reached is left out for at most."""


class Kind(StrEnum):
    """What can be the matter."""

    DRIFT = "drift"
    INCOMPLETE = "incomplete"
    """A remark by which copies are missing."""
    DOUBT = "in doubt"
    UNREACHABLE = "unreachable"
    STALE = "stale"
    """The fabric or the job is no longer what the plan was made for."""
    UNCONFIRMED = "unconfirmed"
    """A change should have been confirmed or undone by now."""
    RESTARTED = "restarted"
    """The switch restarted or was upgraded since the last look: what passed meanwhile was not mirrored."""
    COUNTED_ANEW = "counted anew"
    """A session's count went back: it was made again, or cleared, since the last look."""


@dataclass(frozen=True, slots=True, order=True)
class Condition:
    """Something that is the matter now."""

    kind: Kind
    switch: str
    """Empty: about the plan as a whole."""
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.switch, self.kind.value, self.text) if part)


@dataclass(frozen=True, slots=True)
class Seen:
    """What is remembered of a switch from one look to the next."""

    restart_mark: str
    packets: Mapping[SessionName, int]


@dataclass(frozen=True, slots=True)
class Look:
    """One look at everything."""

    began: tuple[Condition, ...]
    """Not there at the last look; what happened in between (restarts) stands here too."""
    over: tuple[Condition, ...]
    standing: tuple[Condition, ...]
    """All that is the matter now, and what happened since the last look."""
    working: tuple[SwitchName, ...]
    """Switches that were read in this look."""


@dataclass(slots=True)
class Watcher:
    """Remembers what it saw."""

    plan: Plan
    reach: Reach
    leftovers: Callable[[], Sequence[SwitchAddress]] = lambda: ()
    stale: Callable[[], str] = lambda: ""
    """How the plan no longer fits its input files; empty: it does, or nobody asked."""
    unconfirmed: Callable[[], str] = lambda: ""
    """Which change should have been confirmed or undone by now; empty: none."""
    memory: dict[SwitchName, Seen] = field(default_factory=dict)
    _standing: set[Condition] = field(default_factory=set)
    _failures: dict[SwitchName, int] = field(default_factory=dict)
    _rest: dict[SwitchName, int] = field(default_factory=dict)
    """Rounds for which a switch is still left out."""

    def look(self) -> Look:
        """Read all switches that are due, and compare with the plan and with the last look."""
        left_out = {name for name, rounds in self._rest.items() if rounds}
        report = verify_plan(self.plan, self.reach, self.leftovers(), leave_out=left_out)
        moments = [c for s in report.switches if not s.failure for c in self._happened(s)]
        self._note(report, left_out)
        standing = {c for c in self._standing if c.switch in left_out}
        standing |= {c for s in report.switches for c in _conditions(s)}
        standing |= {
            Condition(kind, "", text)
            for kind, text in ((Kind.STALE, self.stale()), (Kind.UNCONFIRMED, self.unconfirmed()))
            if text
        }
        look = Look(
            began=(*moments, *sorted(standing - self._standing)),
            over=tuple(sorted(self._standing - standing)),
            standing=(*moments, *sorted(standing)),
            working=tuple(s.switch for s in report.switches if not s.failure),
        )
        self._standing = standing
        return look

    def _happened(self, now: SwitchVerdict) -> list[Condition]:
        before = self.memory.get(now.switch)
        if before is None:
            return []
        found = []
        if restarted(before.restart_mark, now.restart_mark):
            text = f"it was {before.restart_mark}, it is {now.restart_mark}"
            found.append(Condition(Kind.RESTARTED, now.switch, text))
        for count in now.counts:
            name, packets = count.session.name, count.packets
            if packets is not None and packets < (had := before.packets.get(name, 0)):
                text = f"{name} ({owner(name, self.plan.job.name)}) had {had} packets, it has {packets}"
                found.append(Condition(Kind.COUNTED_ANEW, now.switch, text))
        return found

    def _note(self, report: VerifyReport, left_out: set[SwitchName]) -> None:
        """Remember counts and marks, and how long to leave failing switches out."""
        for name in left_out:
            self._rest[name] -= 1
        for switch in report.switches:
            if switch.failure:
                failures = self._failures[switch.switch] = self._failures.get(switch.switch, 0) + 1
                self._rest[switch.switch] = min(2 ** (failures - 1), LONGEST_BACKOFF) - 1
            else:
                self._failures.pop(switch.switch, None)
                packets = {c.session.name: c.packets for c in switch.counts if c.packets is not None}
                self.memory[switch.switch] = Seen(switch.restart_mark, packets)


def _conditions(switch: SwitchVerdict) -> list[Condition]:
    name = switch.switch
    if switch.failure:
        return [Condition(Kind.UNREACHABLE, name, switch.failure.removeprefix(f"{name}: "))]
    return [
        *(Condition(Kind.DRIFT, name, f"{d.session} ({d.owner}) {d.text}") for d in switch.differences),
        *(
            Condition(
                Kind.INCOMPLETE if r.kind.incomplete else Kind.DOUBT,
                name,
                remark_text(name, r).removeprefix(f"{name}: "),
            )
            for r in switch.remarks
        ),
    ]
