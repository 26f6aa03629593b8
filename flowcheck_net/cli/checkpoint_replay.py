"""``flowcheck-net checkpoint replay``: gradients of a run onto a regular checkpoint."""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from flowcheck_net.checkpoint.anchor import Anchor
    from flowcheck_net.checkpoint.replay import ReplayReport

_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)
_MEMORY = Path("/dev/shm")  # noqa: S108 - memory that is a file, which is what is wanted


@click.command("replay")
@click.argument("gradients", nargs=-1, required=True, type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--training", required=True, type=_FILE, help="Parameters, buckets and optimizer (training.yaml).")
@click.option("--anchor", type=_FILE, help="The regular checkpoint to begin from.")
@click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Begin from the newest full state of `checkpoint follow --state` instead.",
)
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path, dir_okay=False), help="The new one.")
@click.option(
    "--from-step", type=click.IntRange(1), help="Step that the first iteration completes. Default: the anchor's next."
)
@click.option(
    "--first-iteration", is_flag=True, help="It is the first iteration of a training process, which has other buckets."
)
@click.option("--trust-order", is_flag=True, help="Apply also what `replay --trust-order` laid.")
@click.option("--values", type=_FILE, help="What the trainer announced, one JSON object a step.")
@click.option("--shards", default=1, show_default=True, type=click.IntRange(1), help="Parts of the replica.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(
    gradients: tuple[Path, ...],
    training: Path,
    anchor: Path | None,
    state: Path | None,
    output: Path,
    from_step: int | None,
    values: Path | None,
    shards: int,
    *,
    first_iteration: bool,
    trust_order: bool,
    as_json: bool,
) -> None:
    """Apply the gradients of GRADIENTS (directories of `replay --payload`, in order) to a checkpoint.

    It goes on until the end or the first step that is not proven, writes the state of the last step that is, and says
    which regular checkpoint it needs to go on. Exit codes: 0 all applied, 4 bytes are missing, 10 something is not
    proven or not as described.

    \b
    Examples:
      flowcheck-net replay mirror.pcapng --plan plan.json --payload laid
      flowcheck-net checkpoint replay laid --training training.yaml --anchor step-0.pt -o step-200.pt
      flowcheck-net checkpoint replay later --training training.yaml --state /var/lib/replica --from-step 181 -o new.pt
      flowcheck-net checkpoint replay first rest --first-iteration --training training.yaml --anchor step-0.pt -o new.pt
    """  # noqa: D301 - click wants the real backspace character
    if (anchor is None) == (state is None):
        raise click.UsageError("say where to begin: --anchor CHECKPOINT, or --state DIR of `checkpoint follow`")
    require_torch()
    from flowcheck_net.checkpoint import anchor as anchors
    from flowcheck_net.checkpoint.assemble import Assembly
    from flowcheck_net.checkpoint.optimizer import Replay
    from flowcheck_net.checkpoint.replay import iterations_of, read_values, run_replay
    from flowcheck_net.checkpoint.training import build_training
    from flowcheck_net.cli.guard import spare_inputs
    from flowcheck_net.spec.check_training import load_training

    spare_inputs(
        output, "-o", training, *((anchor,) if anchor is not None else state.glob("step-*.pt") if state else ())
    )
    told = build_training(load_training(training))
    begun = _begin_from(anchor, state)
    iterations = iterations_of(gradients)
    announced = read_values(values) if values else None
    with ExitStack() as stack:
        memory = stack.enter_context(tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None))
        places = [Path(memory) / f"shard{number}" for number in range(min(shards, len(told.layout.parameters)))]
        states = anchors.begin(places, told.layout, told.optimizer, begun)
        report = run_replay(
            Replay(told.optimizer, states),
            Assembly(told.layout, told.average, trust_assumed=trust_order),
            iterations,
            from_step=from_step or int(begun["step"]) + 1,
            first=first_iteration,
            values=announced,
        )
        anchors.write_anchor(output, anchors.snapshot(states, told.layout, told.optimizer))
    _show(report, output, as_json=as_json)
    if report.refused is not None:
        raise report.refused


def _begin_from(anchor: Path | None, state: Path | None) -> "Anchor":
    """The checkpoint, or the newest full state. Raises RecordsCorrupt."""
    from flowcheck_net.checkpoint.anchor import read_anchor
    from flowcheck_net.checkpoint.follow_store import newest_full
    from flowcheck_net.errors import RecordsCorrupt

    if anchor is not None:
        return read_anchor(anchor)
    found = newest_full(state) if state is not None else None
    if found is None:
        raise RecordsCorrupt(f"{state} holds no full state (step-N.pt)", hint="`checkpoint follow --state` writes them")
    return found


def require_torch() -> None:
    """Raises OutputError where the extra `checkpoint` is not installed."""
    import importlib.util

    from flowcheck_net.errors import OutputError

    if importlib.util.find_spec("torch") is None:
        hint = "pip install 'flowcheck-net[checkpoint]'; a CPU build of PyTorch will do"
        raise OutputError("PyTorch is not installed: its kernels do the optimizer's arithmetic", hint=hint)


def _show(report: "ReplayReport", output: Path, *, as_json: bool) -> None:
    from flowcheck_net.cli.output import emit_json

    if as_json:
        emit_json(_json(report, output))
        return
    recovered = sum(1 for each in report.applied if each.proof.recovered_units)
    skipped = sum(1 for each in report.applied if each.decision.skipped)
    click.echo(f"{output}: the state of step {report.step:,}, {report.step - report.begun_at:,} after the anchor")
    covered = len(report.applied) - recovered
    click.echo(f"  steps: {covered:,} covered, {recovered:,} recovered; {skipped:,} of them skipped as the trainer did")


def _json(report: "ReplayReport", output: Path) -> dict[str, Any]:
    request = report.request
    return {
        "output": str(output),
        "begun_at": report.begun_at,
        "step": report.step,
        "steps": [
            {
                "step": each.decision.step,
                "iteration": each.proof.iteration,
                "verdict": each.proof.verdict.value,
                "recovered_units": each.proof.recovered_units,
                "plan": each.proof.plan,
                "skipped": each.decision.skipped,
                "learning_rates": list(each.decision.learning_rates),
                "loss_scale": each.decision.loss_scale,
                "norm": each.decision.norm,
            }
            for each in report.applied
        ],
        "request": None
        if request is None
        else {
            "replica_step": request.replica_step,
            "at_step": request.at_step,
            "stop": request.stop.value,
            "reason": request.reason,
        },
    }
