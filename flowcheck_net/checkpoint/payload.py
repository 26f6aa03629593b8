"""Captures to gradients: count, audit, then lay the bytes of what was proven, and say what is missing and why."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flowcheck_net.audit.anchors import Anchors, Recovered, anchors, recovered
from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.immediate import Immediates
from flowcheck_net.audit.result import AuditReport
from flowcheck_net.audit.survey import Survey, survey
from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.errors import OutputError
from flowcheck_net.model.expect import Expectation
from flowcheck_net.receive.gradient import group_entry, iteration_directory, write_manifest
from flowcheck_net.receive.lay import Laid, Layer
from flowcheck_net.receive.layout import Layout, lay_out
from flowcheck_net.receive.native import Core
from flowcheck_net.receive.native_track import ImmediateForm
from flowcheck_net.receive.records import Records

FORMS = {
    Immediates.LITTLE: ImmediateForm.LITTLE,
    Immediates.BIG: ImmediateForm.BIG,
    Immediates.NUMBERS: ImmediateForm.IGNORED,
}
"""What the audit found of the immediates -> what the core is to check."""
_SHOWN = 20
"""Contradictions that a manifest spells out."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be written, and where."""

    out: Path
    first: int = 0
    stop: int | None = None
    """Without; None: all there are."""
    trust_order: bool = False
    """Take for true that the queue pairs of equal channels ascend in the order of the channels."""
    plan_digest: str | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """One iteration."""

    iteration: int
    directory: Path
    verdict: Verdict
    complete: bool
    """All bytes of all groups are there, it is publishable, and nothing is assumed."""
    why: tuple[str, ...]
    """Why it is not complete."""
    missing: Mapping[str, int]
    """By group: packets' worth of gradient that is not there."""
    recovered: tuple[Recovered, ...]


@dataclass(frozen=True, slots=True)
class PayloadReport:
    """What became of a capture."""

    audit: AuditReport
    written: tuple[Written, ...]
    laid: Laid


def write_gradients(
    expectation: Expectation, records: Records, wanted: Wanted, feed: Callable[[Core], None], core: Callable[[], Core]
) -> PayloadReport:
    """Write the gradients of the iterations that a capture shows.

    Args:
        expectation: What must be seen.
        records: Of the first pass over the capture.
        wanted: Iterations and place.
        feed: Hands all frames of the capture to a core, in the order of the first pass.
        core: Makes a core with the settings of the first pass.

    Raises:
        OutputError: An iteration is there already, or the place cannot be written.
    """
    sighted = survey(expectation, records)
    report = audit(expectation, records, sighted)
    found = anchors(sighted)
    layout = lay_out(expectation.wire, expectation.hops)
    numbers = range(sighted.iterations)[wanted.first : wanted.stop]
    _refuse_present(wanted.out, numbers)
    try:
        wanted.out.mkdir(parents=True, exist_ok=True)
        layer = Layer(expectation.wire, layout, found.followed, FORMS[sighted.immediates])
        laid = layer.lay(feed, numbers, wanted.out, core)
        run = _Run(expectation, sighted, report, found, layout, wanted, laid)
        written = tuple(run.finish(number) for number in numbers)
    except OSError as error:
        raise OutputError(
            f"{error.filename or wanted.out} cannot be written: {error.strerror}",
            hint="choose another place with --payload",
        ) from error
    return PayloadReport(report, written, laid)


def _refuse_present(out: Path, numbers: Sequence[int]) -> None:
    for number in numbers:
        for complete in (True, False):
            if (path := iteration_directory(out, number, complete=complete)).exists():
                raise OutputError(f"{path} is there already", hint="give --payload another directory, or remove it")


@dataclass(frozen=True, slots=True)
class _Run:
    """What all iterations share."""

    expectation: Expectation
    sighted: Survey
    report: AuditReport
    found: Anchors
    layout: Layout
    wanted: Wanted
    laid: Laid

    def finish(self, number: int) -> Written:
        """Write the manifest; give a complete iteration its name."""
        directory = iteration_directory(self.wanted.out, number, complete=False)
        entries = [group_entry(directory, layout) for layout in self.layout.groups.values()]
        missing = {e["group"]: sum(b["missing_units"] for b in e["buckets"]) for e in entries if not e["complete"]}
        judged = next(i for i in self.report.iterations if i.number == number)
        others = recovered(self.expectation, self.sighted, self.layout, number)
        why = (*self._missing(missing), *self._unproven(number, judged.publishable, judged.verdict))
        write_manifest(directory, self._document(number, entries, why, others, judged.verdict))
        if not why:
            directory = directory.rename(iteration_directory(self.wanted.out, number, complete=True))
        return Written(number, directory, judged.verdict, not why, why, missing, others)

    def _missing(self, missing: Mapping[str, int]) -> list[str]:
        packets = {group: f"{count} packet{'s' * (count != 1)}" for group, count in missing.items()}
        found = [f"{group}: the data of {which} were never observed" for group, which in packets.items()]
        return [*found, *(f"not followed: {doubt}" for doubt in self.found.doubts)] if found else []

    def _unproven(self, number: int, publishable: bool, verdict: Verdict) -> list[str]:
        found = []
        if not publishable:
            bad = [r for r in self.report.rings if r.iteration == number and not r.verdict.publishable]
            reasons = [f"{ring.group}/{ring.channel}: {ring.verdict}: {ring.reason}" for ring in bad]
            found += reasons or [f"the audit says {verdict}: not every ring of the job was found"]
        if not self.wanted.trust_order:
            found += [f"{group}: {text}" for group, texts in self.found.assumptions.items() for text in texts]
        return found

    def _document(
        self,
        number: int,
        entries: list[dict[str, Any]],
        why: Sequence[str],
        others: Sequence[Recovered],
        verdict: Verdict,
    ) -> dict[str, Any]:
        shown = [c for c in self.laid.contradictions if c.finding.iteration == number][:_SHOWN]
        return {
            "iteration": number,
            "job": self.expectation.job,
            "plan": self.wanted.plan_digest,
            "verdict": verdict.value,
            "complete": not why,
            "why": list(why),
            "assumed": [text for texts in self.found.assumptions.values() for text in texts],
            "groups": entries,
            "recovered": [
                {"hop": r.hop, "units": r.units, "only_from": dict(r.given), "verdict": Verdict.RECOVERED.value}
                for r in others
            ],
            "contradictions": [
                {"hop": f"{c.hop.group}/{c.hop.channel}/{c.hop.index}", "capture": c.capture, **asdict(c.finding)}
                for c in shown
            ],
        }
