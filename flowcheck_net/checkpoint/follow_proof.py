"""What proves an iteration while packets come: the audit of the receivers' records, and that it places as they did.

A board that is complete has every byte, each confirmed at its place. Two things only the audit knows: whether the
iteration is the job's (ring order, counts, copies that differ, losses that nobody explains), and whether the numbers
and positions that the receiver was told hold still, now that more is known. ``docs/design/0010-follow.md``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flowcheck_net.audit.anchors import Recovered, anchors, recovered
from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.result import AuditReport
from flowcheck_net.audit.survey import Survey, survey
from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.checkpoint.follow_boards import durable
from flowcheck_net.checkpoint.payload import FORMS
from flowcheck_net.errors import ReceiveError, RecordsCorrupt
from flowcheck_net.model.expect import Expectation
from flowcheck_net.receive.lay import Layer, Tracked
from flowcheck_net.receive.layout import Layout
from flowcheck_net.receive.receiver_config import placing_file
from flowcheck_net.receive.receiver_spool import spool_records
from flowcheck_net.receive.records import Records
from flowcheck_net.receive.records_merge import merge
from flowcheck_net.receive.records_read import read_records

Line = tuple[int, int]
"""(position of cycle 0, packets of a cycle): where all cycles of a queue pair lie."""
TrackKey = tuple[int, int, str, str, str]
"""(group, queue pair, source, destination, capture port)."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One look at the records."""

    expectation: Expectation
    layout: Layout
    sighted: Survey
    report: AuditReport
    assumed: tuple[str, ...]
    misplaced: tuple[str, ...]
    """Queue pairs whose iterations, by what is known now, do not lie where the receiver was told."""
    final: bool
    """All receivers have ended: nothing will be added."""

    @property
    def iterations(self) -> int:
        """That the records show."""
        return self.sighted.iterations

    def verdict(self, iteration: int) -> Verdict:
        """Of one iteration; UNKNOWN where the records do not show it yet."""
        found = [each.verdict for each in self.report.iterations if each.number == iteration]
        return found[0] if found else Verdict.UNKNOWN

    def doubts(self, iteration: int, *, trust_order: bool) -> tuple[str, ...]:
        """Why an iteration whose bytes are all there is not proven; empty: it is."""
        judged = [each for each in self.report.iterations if each.number == iteration]
        if not judged:
            return ("the records do not show it yet",)
        bad = [r for r in self.report.rings if r.iteration == iteration and not r.verdict.publishable]
        found = [f"{ring.group}/{ring.channel}: {ring.verdict}: {ring.reason}" for ring in bad]
        if not found and not judged[0].publishable:
            found = [f"the audit says {judged[0].verdict}: not every ring of the job was found"]
        return (*found, *self.misplaced, *(() if trust_order else self.assumed))

    def recovered(self, iteration: int) -> tuple[Recovered, ...]:
        """What one hop lost and another gave."""
        return recovered(self.expectation, self.sighted, self.layout, iteration)


class Prover:
    """Looks at what the receivers of all checkpoint nodes have written so far."""

    def __init__(self, expectation: Expectation, layout: Layout, outputs: Sequence[Path], keep: Path) -> None:
        """Begin to look.

        Args:
            expectation: What must be seen.
            layout: Of the job.
            outputs: The files that the receivers were given with ``-o``; they may not be there yet.
            keep: Directory for what receivers were told to place: they remove it when they end.
        """
        self._expectation = expectation
        self._layout = layout
        self._outputs = outputs
        self._keep = {output: keep / f"placing-{number}.txt" for number, output in enumerate(outputs)}
        kept = {output: path for output, path in self._keep.items() if path.exists()}
        self._told = {output: path.read_text(encoding="utf-8") for output, path in kept.items()}

    def look(self) -> Judged | None:
        """What the records prove now; None: there is nothing yet."""
        parts = []
        final = True
        for output in self._outputs:
            found = self._records(output)
            if found is None:
                final = False
                continue
            records, ended = found
            final &= ended
            parts.append((output.name, records))
        if not parts:
            return None
        records = parts[0][1] if len(parts) == 1 else merge(parts)
        sighted = survey(self._expectation, records)
        found_anchors = anchors(sighted)
        layer = Layer(self._expectation.wire, self._layout, found_anchors.followed, FORMS[sighted.immediates])
        texts = list(self._told.values())
        return Judged(
            self._expectation,
            self._layout,
            sighted,
            audit(self._expectation, records, sighted),
            tuple(text for many in found_anchors.assumptions.values() for text in many),
            tuple(misplaced(texts, layer)) if texts else ("the receiver was not told what to place yet",),
            final,
        )

    def _records(self, output: Path) -> tuple[Records, bool] | None:
        """Of one receiver, and whether it has ended."""
        folder = output.with_name(f"{output.name}.spool")
        try:
            spools = sorted(folder.glob("life-*.spool"), key=lambda path: int(path.stem.partition("-")[2]))
            if spools:
                placing = placing_file(spools[-1])
                if output not in self._told and placing.exists():
                    self._told[output] = placing.read_text(encoding="utf-8")
                    durable(self._keep[output], self._told[output].encode())
                return spool_records(spools[-1], ()), False
            if output.exists():
                return read_records(output), True
        except FileNotFoundError:  # it ends just now: the next look finds its records
            pass
        except (ReceiveError, RecordsCorrupt):
            if folder.exists():
                raise
        return None


def misplaced(told: Iterable[str], layer: Layer) -> Iterator[str]:
    """Queue pairs that the receiver was told to place otherwise than the records of now show.

    Args:
        told: The texts that receivers were given (``receive/placement.py``).
        layer: Of the records of now.
    """
    now: dict[TrackKey, frozenset[Line]] = {}
    for each in layer.tracks():
        one = each.followed
        key = (each.group, int(one.dest_qp), str(one.ends[0]), str(one.ends[1]), str(one.capture))
        now[key] = _lines(each, sum(slot.packets for slot in layer.pattern(one).slots))
    for text in told:
        for key, line in _told(text).items():
            if now.get(key) != frozenset({line}):
                found = "elsewhere" if key in now else "nowhere for certain"
                yield f"queue pair {key[1]} from {key[2]}: by the records of now its iterations lie {found}"


def _lines(each: Tracked, span: int) -> frozenset[Line]:
    return frozenset((position - cycle * span, span) for position, cycle, _ in each.anchors)


def _told(text: str) -> Mapping[TrackKey, Line]:
    """The last anchor of each queue pair holds until the end: by it all later cycles were placed."""
    spans: list[int] = []
    key: TrackKey | None = None
    pattern = 0
    found: dict[TrackKey, Line] = {}
    for line in text.splitlines():
        word, *rest = line.split()
        if word == "pattern":
            spans.append(0)
        elif word == "slot":
            spans[-1] += int(rest[0])
        elif word == "track":
            pattern = int(rest[0])
            key = (int(rest[1]), int(rest[2]), rest[3], rest[4], rest[5])
        elif word == "anchor" and key is not None:
            found[key] = (int(rest[0]) - int(rest[1]) * spans[pattern], spans[pattern])
    return found
