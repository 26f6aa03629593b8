"""``flowcheck-net accept``: does whatever is published equal the trainer's state, whatever goes wrong?"""

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flowcheck_net.checkpoint.accept.words import Outcome, Report


@click.command("accept")
@click.option("--experiments", default=39, show_default=True, type=click.IntRange(1), help="How many.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="All faults follow from it.")
@click.option("--only", type=click.IntRange(0), help="Run this experiment alone, and tell everything of it.")
@click.option(
    "--kind", "kinds", multiple=True, metavar="KIND", help="Only what goes wrong in this way; may be repeated."
)
@click.option("--steps", default=8, show_default=True, type=click.IntRange(1, 200), help="That each trains.")
@click.option(
    "--every", default=2, show_default=True, type=click.IntRange(1), help="Steps from checkpoint to checkpoint."
)
@click.option(
    "--example",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=Path("topologies/four-host"),
    show_default=True,
    help="Folder with the files of the fabric; the job's buckets and MTU are replaced.",
)
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write the report as one HTML file.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(
    experiments: int,
    seed: int,
    only: int | None,
    kinds: tuple[str, ...],
    steps: int,
    every: int,
    example: Path,
    html: Path | None,
    *,
    as_json: bool,
) -> None:
    """Try the way from packets to a restored checkpoint with faults on all of its parts.

    Each experiment trains a small model in this process, sends its gradients as synthesized frames, spoils something,
    and lets a checkpoint node (a process of its own) count, audit, lay, replay and publish. Then every published
    checkpoint is loaded and compared with the trainer's own state, bit by bit, and training goes on from the newest.
    Each checkpoint that was due and is not there must have its reason. Nothing is sent to a network.

    Exit codes: 0 passed, 1 not passed.

    \b
    Examples:
      flowcheck-net accept
      flowcheck-net accept --experiments 1000 --html accept.html
      flowcheck-net accept --kind node-restart --kind storage-failure --experiments 100
      flowcheck-net accept --only 17
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.checkpoint.accept.words import Kind
    from flowcheck_net.cli.checkpoint_replay import require_torch
    from flowcheck_net.errors import FlowcheckError, OutputError

    known = {kind.value: kind for kind in Kind}
    unknown = [word for word in kinds if word not in known]
    if unknown:
        raise click.BadParameter(f"{unknown[0]!r} is none of {', '.join(known)}", param_hint="--kind")
    require_torch()
    from flowcheck_net.checkpoint.accept.report import as_json as plain
    from flowcheck_net.checkpoint.accept.report import render_html
    from flowcheck_net.checkpoint.accept.run import accept
    from flowcheck_net.cli.output import emit_json

    wanted = tuple(known[word] for word in kinds) or tuple(Kind)
    with _terminable():
        report = accept(
            example,
            1 if only is not None else experiments,
            seed=seed,
            steps=steps,
            every=every,
            kinds=wanted,
            first=only or 0,
            each=None if as_json else _tell,
        )
    if html is not None:
        try:
            html.write_text(render_html(report), encoding="utf-8")
        except OSError as fault:
            raise OutputError(f"{html} cannot be written: {fault.strerror}", hint="choose another place") from fault
    if as_json:
        emit_json(plain(report))
    else:
        if only is not None:
            _show_one(report.outcomes[0])
        _show(report)
    if report.wrong:
        numbers = ", ".join(str(each.number) for each in report.wrong[:10])
        hint = f"flowcheck-net accept --seed {seed} --only {report.wrong[0].number} makes the first happen again"
        raise FlowcheckError(f"{len(report.wrong)} of {len(report.outcomes)} experiments failed: {numbers}", hint=hint)


@contextmanager
def _terminable() -> "Iterator[None]":
    """SIGTERM ends like Ctrl-C: files of a run lie in memory, and must not stay there."""
    import signal

    former = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def _tell(outcome: "Outcome") -> None:
    """What is wrong, at once; all else waits for the report."""
    for each in outcome.wrong:
        click.echo(f"experiment {outcome.number} ({outcome.kind}, {outcome.setting}): {each}", err=True)


def _show_one(outcome: "Outcome") -> None:
    click.echo(f"experiment {outcome.number}: {outcome.kind}; trainer {outcome.setting}")
    for fault in outcome.faults:
        click.echo(f"  fault: {fault}")
    click.echo(f"  training step {outcome.training_step}, replica step {outcome.replica_step}, ", nl=False)
    click.echo(f"persisted step {outcome.persisted_step}; restored: {outcome.restored}")
    for step, why in outcome.unpublished.items():
        click.echo(f"  step {step} is not published: {why}")


def _show(report: "Report") -> None:
    from flowcheck_net.checkpoint.accept.report import reasons, restored, rows
    from flowcheck_net.cli.output import console, table

    title = f"{len(report.outcomes):,} experiments of {report.steps} steps, a checkpoint due every {report.every}"
    names = ("runs", "published", "not published", "withdrawn", "lives", "steps behind", "failed")
    shown = table(title, "what goes wrong", *names, numbers=names)
    for row in rows(report):
        counts = (row.experiments, row.published, row.unpublished, row.withdrawn, row.lives)
        shown.add_row(row.kind.value, *(f"{count:,}" for count in counts), f"{row.lost:.1f}", f"{row.wrong:,}")
    out = console()
    out.print(shown)
    told = ", ".join(f"{reason} {count:,}" for reason, count in reasons(report))
    click.echo(f"not published, by reason: {told or 'none'}")
    click.echo("restored: " + ", ".join(f"{how.value} {count:,}" for how, count in restored(report)))
    click.echo(f"{report.published:,} published checkpoints were compared with the trainer, in {report.seconds:.0f} s")
