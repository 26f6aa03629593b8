"""What every driver of ours checks alike: what its switch can mirror, and whose sessions it is told to write."""

from collections.abc import Sequence

from flowcheck_net.errors import PlanError, Rejected
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import Capabilities, Step, SwitchAddress, is_owned


def limits_of(address: SwitchAddress) -> Capabilities:
    """The table of the switch's platform; raises PlanError, which names the switch, where there is none."""
    # The platform tables are read when the first switch is opened, not when a driver is loaded.
    from flowcheck_net.model.platforms import capabilities

    try:
        return capabilities(address.platform)
    except PlanError as error:
        raise PlanError(f"{address.name}: {error.message}", hint=error.hint) from error


def refuse_foreign(switch: SwitchName, steps: Sequence[Step], job: str) -> None:
    """Raise Rejected where a step is for a session that is not the job's: nobody's driver may touch it."""
    for step in steps:
        if not is_owned(step.session.name, job):
            raise Rejected(switch, f"{step.session.name} is not a session of job {job}")
