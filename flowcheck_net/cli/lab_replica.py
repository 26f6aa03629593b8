"""``flowcheck-net lab replica``: a real training through real switches, and its replica compared bit by bit."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flowcheck_net.cli.lab_options import alone_in, interruptible
from flowcheck_net.errors import CoverageGap, CoverageUnknown, Drift
from flowcheck_net.lab.faults import FORMS

if TYPE_CHECKING:
    from collections.abc import Callable

    from flowcheck_net.checkpoint.drift import Drift as Compared
    from flowcheck_net.lab.replica import Replica
    from flowcheck_net.lab.trained import Trained

_GROUP = "dp0"
_ANCHOR = 10
"""Step of the regular checkpoint to begin from: receivers learn from the first iterations, which they do not place."""
_SLOWER = (1, 3)
"""Times --slower: where the machine was too busy, once more."""


@dataclass(frozen=True, slots=True)
class _Row:
    """What came of one training."""

    name: str
    replica: "Replica"
    state: "Compared"
    published: "Compared"
    resumed: "Compared"

    @property
    def identical(self) -> bool:
        """Everywhere, bit by bit, and all fields of the replica are the trainer's."""
        return all(found.identical and not found.only_replica for found in (self.state, self.published, self.resumed))


@click.command("replica", epilog=f"\b\nFaults:\n{FORMS}")
@click.argument(
    "directory",
    required=False,
    default=Path("topologies/lab-leaf-spine"),
    type=click.Path(path_type=Path, exists=True, file_okay=False),
)
@click.option(
    "--steps", default=200, show_default=True, type=click.IntRange(_ANCHOR + 4, 10_000), help="Of the training."
)
@click.option(
    "--type",
    "names",
    multiple=True,
    type=click.Choice(["fp32", "bf16"]),
    default=("fp32", "bf16"),
    show_default=True,
    help="Of the parameters; bf16 has an fp32 master copy. May be repeated.",
)
@click.option("--resume", "more", default=5, show_default=True, type=click.IntRange(1, 1000), help="Steps trained on.")
@click.option(
    "--fault", "faults", multiple=True, metavar="SPEC", help="One of those below. May be given several times."
)
@click.option("--slower", default=2.0, show_default=True, type=click.FloatRange(0.01, 1000), help="As of `lab run`.")
@click.option(
    "-o",
    "--output",
    default=Path("build/lab-replica"),
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for training, records, replica and store; what an earlier run left there is removed.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON.")
def command(
    directory: Path,
    steps: int,
    names: tuple[str, ...],
    more: int,
    faults: tuple[str, ...],
    slower: float,
    output: Path,
    *,
    as_json: bool,
) -> None:
    """Train a small GPT, send its gradients through the lab, and rebuild its state from the mirrored packets.

    A GPT trains under PyTorch's DDP in four processes. Its reduced gradients travel as RoCEv2 through Open vSwitch
    into the DPDK receivers (root); `checkpoint follow` replays the optimizer beside them. The state is published,
    restored from the store, and training goes on from it. Replica, published checkpoint and resumed training are
    compared with the trainer's own, bit by bit. Exit code 6: they differ; 4 and 10 as `checkpoint follow`.

    \b
    Examples:
      flowcheck-net lab replica                                     (fp32 and bf16, 200 steps: make lab-replica)
      flowcheck-net lab replica --steps 24 --type fp32
      flowcheck-net lab replica --steps 24 --type bf16 --fault loss:rate=0.001 --json
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.cli.checkpoint_replay import require_torch
    from flowcheck_net.cli.output import emit_json
    from flowcheck_net.receive.receiver import program

    require_torch()
    program()
    _check(directory, faults)
    tell: Callable[[str], None] = (lambda _: None) if as_json else click.echo
    with alone_in(output):
        rows = [_one(directory, output.absolute(), name, (steps, more), faults, slower, tell) for name in names]
    if as_json:
        emit_json({row.name: _to_json(row, steps) for row in rows})
    else:
        _show(rows, steps)
    if wrong := [row.name for row in rows if not row.identical]:
        raise Drift(f"the replica is not the trainer's state: {', '.join(wrong)}", hint="the files are in -o")


def _check(directory: Path, faults: tuple[str, ...]) -> None:
    """What would end the run after minutes of training; raises LabError, SpecError."""
    from flowcheck_net.errors import LabError
    from flowcheck_net.lab.blueprint import blueprint
    from flowcheck_net.lab.build import missing
    from flowcheck_net.lab.faults import parse_faults
    from flowcheck_net.spec.load import load_specs

    specs = load_specs(directory / "topology.yaml", directory / "job.yaml", directory / "policy.yaml")
    parse_faults(faults, blueprint(specs.topology))
    if why := missing({each.platform for each in specs.topology.switches}):
        raise LabError(f"no lab can be made: {why}", hint="see docs/lab.md for what a lab needs")


def _one(
    directory: Path,
    output: Path,
    name: str,
    lengths: tuple[int, int],
    faults: tuple[str, ...],
    slower: float,
    tell: "Callable[[str], None]",
) -> _Row:
    """One training; ``lengths``: steps that are sent, and steps that it is resumed for."""
    from flowcheck_net.lab.replica import compare, publish, resume
    from flowcheck_net.lab.trained import SETTINGS, Trained, hand_over, train

    steps, more = lengths
    place = output / "training"
    shutil.rmtree(place / name, ignore_errors=True)
    shutil.rmtree(place / f"{name}-resumed", ignore_errors=True)
    # A process that goes on from a checkpoint has DDP's first buckets again; so must the one that it is compared with.
    setting: dict[str, Any] = {**SETTINGS[name], "name": name, "steps": steps + more, "rewrap_at": steps}
    tell(f"{name}: a GPT trains {steps + more:,} steps in 4 processes")
    train(place, [{**setting, "keep": [*range(_ANCHOR, steps + 1), steps + more]}])
    trained = Trained(place / name, steps)
    job = hand_over(trained, _GROUP, directory)
    found = _followed(directory, job, trained, output / name, faults, slower, tell)
    back = output / name / "restored.pt"
    publish(trained, found, output / name / "store", back)
    resumed = resume(trained, setting, back, steps + more)
    return _Row(
        name,
        found,
        compare(steps, trained.checkpoint(steps), found.newest),
        compare(steps, trained.checkpoint(steps), back),
        compare(steps + more, trained.checkpoint(steps + more), resumed),
    )


def _followed(
    directory: Path,
    job: Path,
    trained: "Trained",
    place: Path,
    faults: tuple[str, ...],
    slower: float,
    tell: "Callable[[str], None]",
) -> "Replica":
    """A run, again and slower where the machine was too busy. Raises as ``checkpoint follow`` ended."""
    from flowcheck_net.lab.build import directory_of, lab_of
    from flowcheck_net.lab.faults import parse_faults
    from flowcheck_net.lab.replica import run_followed
    from flowcheck_net.spec.load import load_specs

    specs = load_specs(directory / "topology.yaml", job, directory / "policy.yaml")
    with interruptible(), lab_of(specs, directory_of(f"replica-{os.getpid()}")) as lab:
        asked = parse_faults(faults, lab.drawn)
        for times in _SLOWER:
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            found = run_followed(lab, trained, place, _ANCHOR, asked, tell, slower=slower * times)
            if found.code == 0 or not found.report.busy:
                break
            tell(f"this machine was too busy, packets may be {found.report.late:.2f} s late: once more, slower")
    if found.code == 0:
        return found
    said = found.said.strip().splitlines()
    words = f"`checkpoint follow` ended with {found.code}: {'; '.join(said[-2:])}"
    hint = "this machine was too busy; --slower gives it more time" if found.report.busy else ""
    raise (CoverageGap if found.code == CoverageGap.exit_code else CoverageUnknown)(words, hint=hint)


def _words(found: "Compared") -> str:
    extra = "".join(f"; {len(names):,} of one side only" for names in [found.only_replica] if names)
    if found.identical:
        return f"{found.compared:,} fields, {found.elements:,} values identical{extra}"
    return f"{len(found.fields):,} of {found.compared:,} fields differ{extra}"


def _show(rows: list[_Row], steps: int) -> None:
    from flowcheck_net.cli.output import console, table

    for row in rows:
        audited = row.replica.report.audit.iterations
        good = sum(one.publishable for one in audited)
        text = f"{row.name}: {good:,} of {len(audited):,} iterations COVERED or RECOVERED, {len(row.replica.applied):,}"
        click.echo(f"{text} steps applied while packets came")
    shown = table(
        "Bit by bit beside the trainer", "training", f"replica, step {steps}", "restored from the store", "trained on"
    )
    for row in rows:
        shown.add_row(row.name, *map(_words, (row.state, row.published, row.resumed)))
    console().print(shown)


def _to_json(row: _Row, steps: int) -> dict[str, object]:
    from dataclasses import asdict

    report = row.replica.report
    compared = {"replica": row.state, "restored": row.published, "resumed": row.resumed}
    return {
        "steps": steps,
        "identical": row.identical,
        "applied": list(row.replica.applied),
        "verdict": report.verdict.value,
        "sent": report.sent.packets,
        "received": report.received,
        "busy": report.busy,
        "compared": {name: asdict(found) | {"identical": found.identical} for name, found in compared.items()},
    }
