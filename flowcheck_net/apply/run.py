"""What the journal knows about a change: a run, its switches, and how far each has come."""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from flowcheck_net.intent import MirrorSession, Step, SwitchAddress, SwitchState


class StepStatus(StrEnum):
    """How far a step has come."""

    PLANNED = "planned"
    """Journalled; not handed to the switch."""
    INTENDED = "intended"
    """About to be handed to the switch, or handed over: its effect is unknown until the switch is read."""
    DONE = "done"
    """In effect, as read back."""
    UNDONE = "undone"
    """Undone, as read back."""


class SwitchResult(StrEnum):
    """Where a switch stands in a run."""

    PENDING = "pending"
    """Not finished, or never started."""
    WRITTEN = "written"
    """Read back equal to the plan."""
    RESTORED = "restored"
    """Read back equal to the state before the run."""
    UNKNOWN = "unknown"
    """Neither; the last error says why."""
    FORGOTTEN = "forgotten"
    """The operator said that this switch is gone."""


class RunResult(StrEnum):
    """How a run ended."""

    APPLIED = "applied"
    ROLLED_BACK = "rolled back"


@dataclass(frozen=True, slots=True)
class RunSwitch:
    """One switch of a run."""

    address: SwitchAddress
    before: SwitchState
    """As read before the first write of the run."""
    wanted: tuple[MirrorSession, ...]
    """Our sessions after the run, sorted."""
    steps: tuple[Step, ...]
    """From ``before`` to ``wanted``."""
    statuses: tuple[StepStatus, ...]
    """One a step."""
    result: SwitchResult = SwitchResult.PENDING

    @property
    def after(self) -> SwitchState:
        """The state that the run aims at."""
        return SwitchState(owned=self.wanted, foreign=self.before.foreign)

    @property
    def touched(self) -> bool:
        """May the run have changed this switch?"""
        return any(s is not StepStatus.PLANNED for s in self.statuses)

    @property
    def in_flight(self) -> bool:
        """Is a write under way whose effect was not read back?"""
        return StepStatus.INTENDED in self.statuses


@dataclass(frozen=True, slots=True)
class Run:
    """One change of the fabric."""

    id: int
    plan_digest: str
    job: str
    who: str
    """user@host and process."""
    started: str
    """ISO 8601, UTC."""
    finished: str | None
    """None: open."""
    result: RunResult | None
    switches: tuple[RunSwitch, ...]
    """Sorted by name."""
    confirm_within: float | None = None
    """Seconds within which the run must be confirmed once it is finished; None: it stays as it is."""
    confirm_by: float | None = None
    """Seconds since the epoch after which it is to be undone. Set at its begin, and anew at its end."""
    confirmed: str | None = None
    """ISO 8601, UTC: when it was confirmed."""

    @property
    def unconfirmed(self) -> bool:
        """Is the run, open or finished, to be undone unless somebody confirms it?"""
        return self.confirm_by is not None and self.confirmed is None and self.result is not RunResult.ROLLED_BACK

    @property
    def deadline(self) -> str:
        """``confirm_by`` as ISO 8601, UTC; empty: there is none."""
        if self.confirm_by is None:
            return ""
        return datetime.fromtimestamp(self.confirm_by, UTC).isoformat(timespec="seconds")

    def __str__(self) -> str:
        return f"run {self.id} of job {self.job}, begun {self.started} by {self.who}"
