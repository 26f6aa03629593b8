"""What proves an iteration while packets come: the audit of the receivers' records, and that it places as they did.

A board that is complete has every byte, each confirmed at its place. Two things only the audit knows: whether the
iteration is the job's (ring order, counts, copies that differ, losses that nobody explains), and whether the numbers
and positions that the receiver was told hold still, now that more is known. ``docs/design/0010-follow.md``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from flowcheck_net.audit.anchors import Recovered, anchors, recovered
from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.result import AuditReport
from flowcheck_net.audit.survey import Survey, survey
from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.checkpoint.follow_boards import durable
from flowcheck_net.checkpoint.follow_lives import PSNS, Line, TrackKey, cycles_of, lines_of, shift_between
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
    moved: int = 0
    """Number that the audit gives to iteration 0 of a receiver which was started again: others saw earlier ones."""

    @property
    def iterations(self) -> int:
        """That the records show, by the receiver's numbers."""
        return self.sighted.iterations - self.moved

    def moment(self, iteration: int) -> int | None:
        """When it began, in nanoseconds; None: nothing of it was seen."""
        times = self.sighted.times
        return times[iteration + self.moved][0] if 0 <= iteration + self.moved < len(times) else None

    @property
    def paces(self) -> tuple[int, ...]:
        """Nanoseconds between iterations that followed one another."""
        begun = [first for first, _ in self.sighted.times]
        return tuple(two - one for one, two in pairwise(begun) if one is not None and two is not None)

    @property
    def until(self) -> int:
        """When the last message was seen, in nanoseconds."""
        return max((last for _, last in self.sighted.times if last is not None), default=0)

    def verdict(self, iteration: int) -> Verdict:
        """Of one iteration; UNKNOWN where the records do not show it yet."""
        found = [each.verdict for each in self.report.iterations if each.number == iteration + self.moved]
        return found[0] if found else Verdict.UNKNOWN

    def doubts(self, iteration: int, *, trust_order: bool) -> tuple[str, ...]:
        """Why an iteration whose bytes are all there is not proven; empty: it is."""
        number = iteration + self.moved
        judged = [each for each in self.report.iterations if each.number == number]
        if not judged:
            return ("the records do not show it yet",)
        bad = [r for r in self.report.rings if r.iteration == number and not r.verdict.publishable]
        found = [f"{ring.group}/{ring.channel}: {ring.verdict}: {ring.reason}" for ring in bad]
        if not found and not judged[0].publishable:
            found = [f"the audit says {judged[0].verdict}: not every ring of the job was found"]
        return (*found, *self.misplaced, *(() if trust_order else self.assumed))

    def recovered(self, iteration: int) -> tuple[Recovered, ...]:
        """What one hop lost and another gave."""
        return recovered(self.expectation, self.sighted, self.layout, iteration + self.moved)


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
        self._later: set[Path] = set()
        """Receivers that had been started again when they were told."""

    @property
    def lines(self) -> dict[TrackKey, Line]:
        """Of all receivers that were told what to place; empty where their queue pairs take turns."""
        texts = self._told.values()
        if any(cycles_of(text) != {1} for text in texts):
            return {}
        return {key: line for text in texts for key, line in lines_of(text).items()}

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
        moved = self._moved(layer, sighted.iterations) if self._later else 0
        return Judged(
            self._expectation,
            self._layout,
            sighted,
            audit(self._expectation, records, sighted),
            tuple(text for many in found_anchors.assumptions.values() for text in many),
            tuple(misplaced(texts, layer, moved)) if texts else ("the receiver was not told what to place yet",),
            final,
            moved or 0,
        )

    def _moved(self, layer: Layer, iterations: int) -> int | None:
        """Number that the audit gives to iteration 0 of receivers that were started again; None: not one for all."""
        now = {key: next(iter(lines)) for key, lines in _now(layer).items() if len(lines) == 1}
        return shift_between(now, self.lines, 0, iterations)

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
                again = spools[-1].stem != "life-0" and placing.exists()
                if again and placing.read_text(encoding="utf-8") == self._told[output]:
                    self._later.add(output)
                return spool_records(spools[-1], ()), False
            if output.exists():
                return read_records(output), True
        except FileNotFoundError:  # it ends just now: the next look finds its records
            pass
        except (ReceiveError, RecordsCorrupt):
            if folder.exists():
                raise
        return None


def misplaced(told: Iterable[str], layer: Layer, moved: int | None = 0) -> Iterator[str]:
    """Queue pairs that the receiver was told to place otherwise than the records of now show.

    Args:
        told: The texts that receivers were given (``receive/placement.py``).
        layer: Of the records of now.
        moved: Number that the records of now give to the receivers' iteration 0; None: to none for certain. Unless it
            is 0, positions are compared as PSNs: those of a life that was joined to a former one go on from there.
    """
    now = _now(layer)
    for text in told:
        for key, (start, span) in lines_of(text).items():
            wanted = (start, span) if not moved else ((start - moved * span) % PSNS, span)
            found = now.get(key, frozenset())
            if moved:
                found = frozenset((each % PSNS, width) for each, width in found)
            if moved is None or found != frozenset({wanted}):
                where = "elsewhere" if key in now else "nowhere for certain"
                yield f"queue pair {key[1]} from {key[2]}: by the records of now its iterations lie {where}"


def _now(layer: Layer) -> Mapping[TrackKey, frozenset[Line]]:
    found: dict[TrackKey, frozenset[Line]] = {}
    for each in layer.tracks():
        one = each.followed
        key = (each.group, int(one.dest_qp), str(one.ends[0]), str(one.ends[1]), str(one.capture))
        found[key] = _lines(each, sum(slot.packets for slot in layer.pattern(one).slots))
    return found


def _lines(each: Tracked, span: int) -> frozenset[Line]:
    return frozenset((position - cycle * span, span) for position, cycle, _ in each.anchors)
