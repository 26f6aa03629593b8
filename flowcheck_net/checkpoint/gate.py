"""What must be proven before a state may be published: all of it, or every reason against it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.checkpoint.gradient import Proof
from flowcheck_net.checkpoint.inventory import Inventory
from flowcheck_net.checkpoint.side import Missing
from flowcheck_net.errors import CoverageUnknown


class Bar(StrEnum):
    """Why a step is not published."""

    FIELD = "unknown-field"
    """Nobody knows where a field would come from."""
    SIDE = "side-value-missing"
    PROOF = "step-unproven"
    """A step between the anchor and this one has no proof."""
    DRIFT = "drift"
    """The replica was not equal to the last anchor, and equality is asked for."""


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


def reasons_against(
    step: int, begun_at: int, proofs: Sequence[tuple[int, Proof]], inventory: Inventory, missing: Sequence[Missing]
) -> list[Reason]:
    """All that is not proven.

    Args:
        step: To be published.
        begun_at: The anchor's step.
        proofs: Step and proof of each that was applied since.
        inventory: Of the checkpoint to be written.
        missing: Values of the side channel for this step.
    """
    found = [Reason(Bar.FIELD, f"{each.field.name}: {each.reason}") for each in inventory.unknown]
    found += [Reason(Bar.SIDE, str(each)) for each in missing]
    steps = [number for number, _ in proofs]
    if steps != list(range(begun_at + 1, step + 1)):
        absent = sorted(set(range(begun_at + 1, step + 1)) - set(steps))
        told = f"no proof of step {absent[0]:,}" if absent else f"proofs of {len(steps):,} steps, in another order"
        found.append(Reason(Bar.PROOF, f"{told} (anchor at step {begun_at:,})"))
    for number, proof in proofs:
        if proof.verdict not in (Verdict.COVERED, Verdict.RECOVERED):
            found.append(Reason(Bar.PROOF, f"step {number:,} is {proof.verdict}"))
    return found
