"""Compare the switches with the plan. Changes nothing.

What is found here is acceptance: the configuration is there. That copies are made is proven by counting (``effect.py``,
``audit``); the switch's own counters are shown as a first sign. What a driver remarks, such as sampling or a port that
is down, is a statement about coverage: a session that is read back as planned may still be less than a whole copy.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from flowcheck_net.apply.compare import Difference, differences, owner
from flowcheck_net.apply.preflight import clashes
from flowcheck_net.apply.reach import Reach
from flowcheck_net.apply.survey import Wish, wishes
from flowcheck_net.errors import DriverError
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import MirrorSession, Remark, SwitchAddress
from flowcheck_net.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class SessionCount:
    """A planned session and what the switch says that it mirrored."""

    session: MirrorSession
    packets: int | None
    """Since the session was created; None: the switch cannot say, or has no such session."""


@dataclass(frozen=True, slots=True)
class SwitchVerdict:
    """One switch against the plan."""

    switch: SwitchName
    differences: tuple[Difference, ...]
    counts: tuple[SessionCount, ...]
    foreign: int
    """Sessions of other owners."""
    remarks: tuple[Remark, ...] = ()
    """What makes our sessions less than whole copies, or puts that in doubt."""
    restart_mark: str = ""
    """``SwitchState.restart_mark``"""
    failure: str = ""
    """Why the switch could not be read; then nothing else is known of it."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """All switches of the plan, and those on which earlier runs may have left sessions, sorted by name."""

    switches: tuple[SwitchVerdict, ...]

    @property
    def differences(self) -> tuple[Difference, ...]:
        """Of all switches."""
        return tuple(d for s in self.switches for d in s.differences)

    @property
    def gaps(self) -> tuple[str, ...]:
        """Remarks by which copies are certainly incomplete, in words."""
        return tuple(remark_text(s.switch, r) for s in self.switches for r in s.remarks if r.kind.incomplete)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Remarks by which it depends, in words."""
        return tuple(remark_text(s.switch, r) for s in self.switches for r in s.remarks if not r.kind.incomplete)

    @property
    def failures(self) -> tuple[str, ...]:
        """Of switches that could not be read."""
        return tuple(s.failure for s in self.switches if s.failure)


def remark_text(switch: SwitchName, remark: Remark) -> str:
    """``leaf1: fcn-gpt-0: sampling: 1 packet in 16``."""
    about = " ".join(name for name in (remark.session, remark.port) if name)
    return ": ".join(part for part in (switch, about, remark.kind.value, remark.text) if part)


def verify_plan(
    plan: Plan, reach: Reach, leftovers: Sequence[SwitchAddress] = (), *, leave_out: Collection[SwitchName] = ()
) -> VerifyReport:
    """Read every switch and compare.

    Args:
        plan: what should be there.
        reach: the way to the switches.
        leftovers: switches outside the plan which earlier runs of the job used (``Journal.leftovers``).
        leave_out: switches that are not asked now, and not in the report.
    """
    job = plan.job.name
    every = [wish for wish in wishes(plan, leftovers, ()) if wish.address.name not in leave_out]
    results = reach.each(lambda wish: _verify(wish, job, reach), every)
    return VerifyReport(
        tuple(
            SwitchVerdict(wish.address.name, (), (), 0, failure=result.message)
            if isinstance(result, DriverError)
            else result
            for wish, result in zip(every, results, strict=True)
        )
    )


def _verify(wish: Wish, job: str, reach: Reach) -> SwitchVerdict:
    name = wish.address.name
    with reach.connect(wish.address) as driver:
        state, limits, counters = driver.read(), driver.capabilities(), driver.counters()
    in_the_way = [
        Difference(name, other.name, owner(other.name, job), f"stands in the way of {text}")
        for other, text in clashes(wish.wanted, state.foreign, limits)
    ]
    return SwitchVerdict(
        switch=name,
        differences=tuple(sorted([*differences(name, job, wish.wanted, state.owned), *in_the_way])),
        counts=tuple(SessionCount(s, counters.sessions.get(s.name)) for s in wish.wanted),
        foreign=len(state.foreign),
        remarks=state.remarks,
        restart_mark=state.restart_mark,
    )
