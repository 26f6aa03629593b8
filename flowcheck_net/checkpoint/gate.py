"""What must be proven before a state may be published: all of it, or every reason against it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.checkpoint.gradient import Proof
from flowcheck_net.checkpoint.guarded import Trial, told
from flowcheck_net.checkpoint.hyper import StepValues
from flowcheck_net.checkpoint.inventory import Inventory
from flowcheck_net.checkpoint.side import Missing
from flowcheck_net.errors import CoverageUnknown


class Bar(StrEnum):
    """Why a step is not published."""

    FIELD = "unknown-field"
    """Nobody knows where a field would come from."""
    SIDE = "side-value-missing"
    JOB = "side-values-of-another-job"
    PROOF = "step-unproven"
    """A step between the anchor and this one has no proof."""
    DRIFT = "drift"
    """The replica was not equal to the last anchor, and equality is asked for."""
    UNTRIED = "description-untried"
    """No step since the anchor was compared with a regular checkpoint of the trainer."""
    UNTOLD = "step-untold"
    """The side channel did not tell with which learning rates a step since the anchor was made."""


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason against publishing."""

    bar: Bar
    what: str

    def __str__(self) -> str:
        return f"{self.bar}: {self.what}"


class NotPublished(CoverageUnknown):
    """A checkpoint was not published; the newest one before it stays."""

    def __init__(self, step: int, reasons: Sequence[Reason], *, hint: str = "") -> None:
        shown = "\n".join(f"  {reason}" for reason in reasons[:20])
        more = f"\n  and {len(reasons) - 20:,} more" if len(reasons) > 20 else ""
        super().__init__(f"step {step:,} is not published:\n{shown}{more}", hint=hint or _HINT)
        self.step = step
        self.reasons = tuple(reasons)


_HINT = "give what is missing (docs/checkpoint.md), or let the trainer write a regular checkpoint"


@dataclass(frozen=True, slots=True)
class Run:
    """What happened since the anchor."""

    step: int
    """To be published."""
    begun_at: int
    """The anchor's step."""
    proofs: Sequence[tuple[int, Proof]]
    """Step and proof of each that was applied."""
    values: Mapping[int, StepValues]
    """What the side channel told, by step."""
    trial: Trial | None
    """Of the description; None: it was not tried."""
    jobs: Collection[str] = ()
    """Names that the trainers gave at the side channel; none: they gave none."""


def reasons_against(run: Run, inventory: Inventory, missing: Sequence[Missing]) -> list[Reason]:
    """All that is not proven.

    Args:
        run: Since the anchor.
        inventory: Of the checkpoint to be written.
        missing: Values of the side channel for this step.
    """
    found = [Reason(Bar.FIELD, f"{each.field.name}: {each.reason}") for each in inventory.unknown]
    found += [Reason(Bar.SIDE, str(each)) for each in missing]
    return [*found, *_unproven(run), *_unvouched(run)]


def _unproven(run: Run) -> list[Reason]:
    """Steps whose gradient is not proven."""
    step, begun_at, proofs = run.step, run.begun_at, run.proofs
    proven = {proof.job for _, proof in proofs}
    found = [
        Reason(Bar.JOB, f"the side channel's log is of job {other}, the gradients of {sorted(proven)[0]}")
        for other in (sorted(set(run.jobs) - proven) if proven else ())
    ]
    steps = [number for number, _ in proofs]
    if steps != list(range(begun_at + 1, step + 1)):
        absent = sorted(set(range(begun_at + 1, step + 1)) - set(steps))
        what = f"no proof of step {absent[0]:,}" if absent else f"proofs of {len(steps):,} steps, in another order"
        found.append(Reason(Bar.PROOF, f"{what} (anchor at step {begun_at:,})"))
    for number, proof in proofs:
        if proof.verdict not in (Verdict.COVERED, Verdict.RECOVERED):
            found.append(Reason(Bar.PROOF, f"step {number:,} is {proof.verdict}"))
    return found


def _unvouched(run: Run) -> list[Reason]:
    """What no packet tells, and the trainer did not confirm."""
    found = []
    silent = [number for number, _ in run.proofs if not told(run.values.get(number))]
    if silent:
        more = f" nor of {len(silent) - 1:,} more" if silent[1:] else ""
        found.append(Reason(Bar.UNTOLD, f"nobody told the learning rates of step {silent[0]:,}{more}"))
    if run.trial is None or not run.begun_at < run.trial.step <= run.step:
        what = f"no step after the anchor (step {run.begun_at:,}) was compared with a regular checkpoint"
        found.append(Reason(Bar.UNTRIED, what))
    return found
