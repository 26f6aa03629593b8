"""Bring one switch back to where a run found it: the inverse of our own steps, behind a guard."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from flowcheck_net.apply.compare import Difference, differences, sentence
from flowcheck_net.apply.reach import Reach
from flowcheck_net.apply.run import Run, RunSwitch, StepStatus
from flowcheck_net.apply.survey import read_all
from flowcheck_net.errors import StateUnknown
from flowcheck_net.intent import SwitchState
from flowcheck_net.plan.diff import diff


@dataclass(frozen=True, slots=True)
class Restored:
    """A switch whose sessions of ours are as before the run."""

    steps: int
    """Steps that were needed."""
    foreign: tuple[Difference, ...]
    """Foreign sessions that changed while we wrote. Not ours to repair."""


def unexplained(switch: RunSwitch, job: str, actual: SwitchState) -> tuple[Difference, ...]:
    """What is on the switch that our own run cannot have left there: empty means it is safe to undo or go on.

    Outside a write the digest of our sessions must be one that the run knows. Within one (the process died, or the
    driver could not tell), each session that the run touches may be as before, as wanted, absent, or half done; every
    other session must be as before.
    """
    if not switch.in_flight:
        expected = switch.after if StepStatus.DONE in switch.statuses else switch.before
        if actual.digest() in (expected.digest(), switch.before.digest()):
            return ()
        return differences(switch.address.name, job, expected.owned, actual.owned)
    touched = {step.session.name for step in switch.steps}
    return differences(
        switch.address.name,
        job,
        [s for s in switch.before.owned if s.name not in touched],
        [s for s in actual.owned if s.name not in touched],
    )


def meddling(run: Run, switches: Sequence[RunSwitch], reach: Reach) -> str:
    """What someone else did to our sessions on these switches since the run, in one line; empty: nothing.

    Raises:
        ConnectError: a switch cannot be read.
    """
    readings = read_all([s.address for s in switches], reach)
    found = [
        f"{switch.address.name}: {sentence(strange)}"
        for switch, reading in zip(switches, readings, strict=True)
        if (strange := unexplained(switch, run.job, reading.state))
    ]
    return f"changed by someone else since {run}: {'; '.join(found)}" if found else ""


def restore(switch: RunSwitch, job: str, reach: Reach, about_to_write: Callable[[], None]) -> Restored:
    """Undo what the run did to one switch, in several attempts if need be.

    Args:
        switch: as the journal has it.
        job: whose sessions are ours.
        reach: the way to the switch.
        about_to_write: called before each write, to journal that one is in flight.

    Raises:
        DriverError: the former state could not be restored, or someone else changed our sessions.
    """
    current = switch

    def attempt() -> Restored:
        nonlocal current
        with reach.connect(switch.address) as driver, driver.hold():
            found = driver.read()
            if strange := unexplained(current, job, found):
                raise StateUnknown(switch.address.name, f"changed by someone else since: {sentence(strange)}")
            # All that is there is explained by our own steps, so this is the inverse of those that took effect.
            steps = diff(switch.before.owned, found)
            if not steps:
                if current.in_flight:
                    driver.write(())
                return Restored(0, ())
            about_to_write()
            current = replace(switch, statuses=(StepStatus.INTENDED,) * len(switch.steps))
            driver.write(steps)
        now = reach.read(switch.address, "reading back").state
        if left := differences(switch.address.name, job, switch.before.owned, now.owned):
            raise StateUnknown(switch.address.name, f"after undoing: {sentence(left)}")
        return Restored(len(steps), differences(switch.address.name, job, found.foreign, now.foreign))

    return reach.insist(attempt)
