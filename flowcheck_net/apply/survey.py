"""Read every switch, compare with what is wanted, and find out before the first write whether it will fit."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from flowcheck_net.apply.preflight import obstacles
from flowcheck_net.apply.reach import Reach, Reading, joined
from flowcheck_net.errors import ConnectError, DriverError, PlanError, Rejected
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import MirrorSession, Step, StepKind, SwitchAddress, SwitchState, is_owned
from flowcheck_net.plan.diff import diff
from flowcheck_net.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Wish:
    """What our sessions on a switch shall be."""

    address: SwitchAddress
    wanted: tuple[MirrorSession, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """A switch as it is, as it shall be, and the steps between."""

    address: SwitchAddress
    wanted: tuple[MirrorSession, ...]
    """Sorted."""
    actual: SwitchState
    steps: tuple[Step, ...]


def wishes(plan: Plan, leftovers: Sequence[SwitchAddress], forget: Collection[SwitchName]) -> tuple[Wish, ...]:
    """The plan's switches with their sessions, and the switches that it no longer uses with none, sorted by name.

    Raises:
        PlanError: a session is not marked as one of the plan's job, or its switch has no address.
    """
    job = plan.job.name
    known = {a.name for a in plan.switches}
    for planned in plan.sessions:
        if not is_owned(planned.session.name, job):
            raise PlanError(f"{planned.switch}: {planned.session.name} does not bear the mark of job {job}")
        if planned.switch not in known:
            raise PlanError(f"session {planned.session.name} is on {planned.switch}, which the plan does not list")
    every = (
        *(Wish(a, tuple(sorted(p.session for p in plan.sessions if p.switch == a.name))) for a in plan.switches),
        *(Wish(a, ()) for a in leftovers if a.name not in forget),
    )
    return tuple(sorted(every, key=lambda w: w.address.name))


def survey(every: Sequence[Wish], reach: Reach) -> tuple[Target, ...]:
    """Read the switches of all wishes; changes nothing.

    Raises:
        ConnectError: a switch cannot be read.
        Rejected: a switch cannot take its sessions; every obstacle of every switch is named.
    """
    readings = read_all([w.address for w in every], reach)
    targets, found = [], []
    for wish, reading in zip(every, readings, strict=True):
        steps = diff(wish.wanted, reading.state)
        targets.append(Target(wish.address, wish.wanted, reading.state, steps))
        if any(step.kind is StepKind.CREATE for step in steps):
            found += [(wish.address.name, o) for o in obstacles(wish.wanted, reading.state.foreign, reading.limits)]
    if found:
        first, text = found[0]
        more = "".join(f"; {name}: {other}" for name, other in found[1:])
        raise Rejected(first, text + more, hint="nothing was written; free what stands in the way, or plan again")
    return tuple(targets)


def read_all(addresses: Sequence[SwitchAddress], reach: Reach) -> list[Reading]:
    """Read switches at once; raises ConnectError naming every one that cannot be read."""
    results = reach.each(reach.read, addresses)
    errors = [r for r in results if isinstance(r, DriverError)]
    if errors:
        raise ConnectError(
            errors[0].switch,
            joined(errors).removeprefix(f"{errors[0].switch}: "),
            hint=errors[0].hint or "nothing was written; a switch gone for good: --forget it, and plan without it",
        )
    return [r for r in results if isinstance(r, Reading)]
