"""``flowcheck-net checkpoint compare``: ways to checkpoint, side by side on one model."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from flowcheck_net.checkpoint.baselines.report import Row
    from flowcheck_net.checkpoint.baselines.run import Comparison


@click.command("compare")
@click.option("--processes", default=2, show_default=True, type=click.IntRange(1, 64), help="Ranks of the training.")
@click.option("--width", default=128, show_default=True, type=click.IntRange(4), help="Of the GPT; a multiple of 4.")
@click.option("--blocks", default=2, show_default=True, type=click.IntRange(1), help="Of the GPT.")
@click.option("--steps", default=40, show_default=True, type=click.IntRange(1), help="Of each measured stretch.")
@click.option("--interval", default=10, show_default=True, type=click.IntRange(1), help="Steps between checkpoints.")
@click.option(
    "--full-every",
    default=4,
    show_default=True,
    type=click.IntRange(1),
    help="Every n-th checkpoint is a full one (incremental), or one of the trainer (hybrid).",
)
@click.option(
    "--rounds", default=3, show_default=True, type=click.IntRange(1), help="Each method has its turn in each."
)
@click.option("--kills", default=2, show_default=True, type=click.IntRange(0), help="Failures of each method.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="Of the model and of the kills.")
@click.option(
    "--place",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Directory on the storage to measure; left as it was. Default: where temporary files go.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def command(
    processes: int,
    width: int,
    blocks: int,
    steps: int,
    interval: int,
    full_every: int,
    rounds: int,
    kills: int,
    seed: int,
    place: Path | None,
    *,
    as_json: bool,
) -> None:
    """Measure ways to checkpoint on one small GPT that trains here (PyTorch DDP over gloo, on the CPU).

    control: none. sync: torch.save and fsync while training waits. async: torch.distributed.checkpoint.async_save.
    incremental: the blocks that differ from the last full one. hybrid: a replica replays the reduced gradients in a
    process of its own, and the trainer writes a full checkpoint now and then.

    All have their turns in one training. Then, for each, trainings are killed with SIGKILL at random moments and
    restored from what is on storage; each restored state must be bit by bit what the trainer had recorded, or the
    comparison fails. Which of the numbers hold for GPUs, and which do not: docs/baselines.md.

    Exit codes: 0 done, 1 a restored state is not the trainer's, or a process failed.

    \b
    Examples:
      flowcheck-net checkpoint compare
      flowcheck-net checkpoint compare --place /mnt/checkpoints --width 512 --interval 5 --full-every 8 --json
      flowcheck-net checkpoint compare --processes 4 --rounds 5 --kills 10
    """  # noqa: D301 - click wants the real backspace character
    if steps % (interval * full_every):
        told = f"{steps} is no multiple of {interval} x {full_every}: full checkpoints would not have their due share"
        raise click.BadParameter(told, param_hint="--steps")
    if width % 4:
        raise click.BadParameter(f"{width} is no multiple of 4, the number of heads", param_hint="--width")
    from flowcheck_net.cli.checkpoint_replay import require_torch
    from flowcheck_net.errors import FlowcheckError

    require_torch()
    from flowcheck_net.checkpoint.baselines.report import as_json as plain
    from flowcheck_net.checkpoint.baselines.run import compare
    from flowcheck_net.checkpoint.baselines.words import Setup
    from flowcheck_net.cli.output import emit_json

    where = place or Path(tempfile.gettempdir())
    setup = Setup(processes, width, blocks, steps, interval, full_every, rounds, kills, seed, where)
    found = compare(setup, None if as_json else _tell)
    if as_json:
        emit_json(plain(found))
    else:
        _show(found)
    if found.wrong:
        first = found.wrong[0]
        hint = "none of the numbers is worth anything until the cause is found; --seed and --kills make it happen again"
        raise FlowcheckError(f"{len(found.wrong)} restored states are wrong; {first.method}: {first.wrong}", hint=hint)


def _tell(what: str) -> None:
    click.echo(what, err=True)


def _show(found: "Comparison") -> None:
    from flowcheck_net.checkpoint.baselines.report import rows

    setup, machine = found.setup, found.machine
    click.echo(
        f"GPT of {machine.parameters:,} parameters (gradient {_bytes(machine.gradient_bytes)}, state "
        f"{_bytes(machine.state_bytes)}), {setup.processes} processes on {machine.processors} processors, "
        f"PyTorch {machine.torch}, storage {machine.file_system}"
    )
    click.echo(
        f"{setup.rounds} rounds of {setup.steps} steps; a checkpoint every {setup.interval} steps, "
        f"every {setup.full_every}th a full one (incremental) or the trainer's (hybrid)"
    )
    told = rows(found)
    _show_time(told)
    _show_recovery(told)
    _show_bytes(told)
    _show_rest(told, found)


def _show_time(told: "list[Row]") -> None:
    from flowcheck_net.cli.output import console, table

    names = ("median ms", "p95 ms", "mean ms", "overhead", "of rounds")
    shown = table("training step", "method", *names, numbers=names)
    for row in told:
        over = row.overhead
        spread = f"{min(over.rounds):+.0%} to {max(over.rounds):+.0%}"
        said = "" if row.recovery is None else "below noise" if over.below_noise else f"{over.median:+.0%}"
        times = (f"{1e3 * each:.1f}" for each in (row.time.median, row.time.p95, row.time.mean))
        shown.add_row(row.method.value, *times, said, spread)
    console().print(shown)
    click.echo(f"noise: the two controls of a round differ by up to {told[0].overhead.noise:.0%}")


def _show_recovery(told: "list[Row]") -> None:
    from flowcheck_net.cli.output import console, table

    point = ("behind, mean", "worst", "age, mean s", "worst s")
    cost = ("kills", "lost steps, mean", "worst ", "lost s", "restore s")
    shown = table("recovery point and failures", "method", *point, *cost, numbers=(*point, *cost))
    for row in told:
        if row.recovery is None:
            shown.add_row(row.method.value, "all", "all", "all", "all", *[""] * len(cost))
            continue
        each = row.recovery
        cells = [f"{each.mean_steps:.1f}", str(each.worst_steps), f"{each.mean_seconds:.2f}"]
        cells.append(f"{each.worst_seconds:.2f}")
        lost = row.lost
        if lost is not None:
            cells += [str(lost.failures), f"{lost.mean_steps:.1f}", str(lost.worst_steps)]
            cells += [f"{lost.mean_seconds:.2f}", f"{lost.mean_restore_seconds:.2f}"]
        shown.add_row(row.method.value, *cells, *[""] * (len(point) + len(cost) - len(cells)))
    console().print(shown)


def _show_bytes(told: "list[Row]") -> None:
    from flowcheck_net.checkpoint.baselines.words import Channel
    from flowcheck_net.cli.output import console, table

    names = tuple(channel.value for channel in Channel)
    shown = table("bytes a step", "method", *names, numbers=names)
    for row in told:
        shown.add_row(row.method.value, *(_bytes(row.moved[channel]) for channel in Channel))
    console().print(shown)


def _show_rest(told: "list[Row]", found: "Comparison") -> None:
    for row in told:
        parts = []
        if row.spent["wait"]:
            parts.append(f"waited {1e3 * row.spent['wait']:.1f} ms a step for the checkpoint before")
        if row.spent["tap"]:
            parts.append(f"{1e3 * row.spent['tap']:.1f} ms a step are the copy that switches make in the field")
            parts.append(f"the replica took {1e3 * row.spent['node-cpu']:.1f} ms of a processor a step")
            parts.append(f"{row.missed} gradients found no room")
        if row.recovery is not None and row.spent["tail"] >= _SHOWN:
            parts.append(f"{row.spent['tail']:.2f} s of work were left at the end of a stretch")
        if parts:
            click.echo(f"{row.method}: {'; '.join(parts)}")
    click.echo(f"{len(found.failures) - len(found.wrong)} of {len(found.failures)} restored states equal the trainer's")


_SHOWN = 0.005
"""Seconds."""


def _bytes(count: float) -> str:
    """In binary units, three digits."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1000:
            return f"{count:.3g} {unit}" if count else "0"
        count /= 1024
    return f"{count:.3g} GiB"
