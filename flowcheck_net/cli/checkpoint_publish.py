"""``flowcheck-net checkpoint publish``: replay, and publish the state of the last step that is proven."""

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flowcheck_net.cli.checkpoint_inventory import source_option
from flowcheck_net.cli.checkpoint_listen import shared_key, side_key_option

if TYPE_CHECKING:
    from flowcheck_net.checkpoint.drift import Drift
    from flowcheck_net.checkpoint.guarded import Guards
    from flowcheck_net.checkpoint.replay import ReplayReport
    from flowcheck_net.checkpoint.sealing import Key
    from flowcheck_net.checkpoint.store import Published

_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)
_FOLDER = click.Path(path_type=Path, file_okay=False)
_MEMORY = Path("/dev/shm")  # noqa: S108 - memory that is a file, which is what is wanted


def key_option(function: Any) -> Any:  # noqa: ANN401 - click's decorators
    """``--key-file FILE``."""
    return click.option("--key-file", type=_FILE, help="Key of an encrypted store: 32 bytes, or 64 hex digits.")(
        function
    )


def trial_options(function: Any) -> Any:  # noqa: ANN401 - click's decorators
    """``--trial FILE`` and ``--within DIFFERENCE``."""
    trial = "A regular checkpoint of a later step, to try the description with."
    within = "Largest relative difference of a tensor in the trial; 0: bit by bit."
    function = click.option("--within", default=0.0, show_default=True, type=click.FloatRange(0), help=within)(function)
    return click.option("--trial", type=_FILE, help=trial)(function)


def key_of(path: Path | None) -> "Key | None":
    """The key of ``--key-file``. Raises OutputError."""
    from flowcheck_net.checkpoint.sealing import read_key

    return None if path is None else read_key(path)


@click.command("publish")
@click.argument("gradients", nargs=-1, required=True, type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--store", required=True, type=_FOLDER, help="Where published checkpoints are kept; made if missing.")
@click.option("--training", required=True, type=_FILE, help="Parameters, buckets and optimizer (training.yaml).")
@click.option("--anchor", required=True, type=_FILE, help="The regular checkpoint to begin from.")
@trial_options
@click.option("--side", type=_FILE, help="Log of the side channel.")
@side_key_option
@source_option
@click.option(
    "--from-step", type=click.IntRange(1), help="Step that the first iteration completes. Default: the anchor's next."
)
@click.option("--first-iteration", is_flag=True, help="It is the first iteration of a training process.")
@click.option("--trust-order", is_flag=True, help="Apply also what `replay --trust-order` laid.")
@click.option("--shards", default=1, show_default=True, type=click.IntRange(1), help="Parts of the replica.")
@key_option
@click.option("--keep", default=3, show_default=True, type=click.IntRange(1), help="Newest checkpoints that stay.")
@click.option("--keep-every", type=click.IntRange(1), help="Checkpoints at multiples of so many steps stay too.")
@click.option("--supersede", is_flag=True, help="Training went back to the anchor: erase published later steps.")
@click.option("--exact", is_flag=True, help="Refuse if the anchor is not bit by bit what was published for its step.")
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
def command(
    gradients: tuple[Path, ...],
    store: Path,
    training: Path,
    anchor: Path,
    trial: Path | None,
    within: float,
    side: Path | None,
    side_key_file: Path | None,
    sources: tuple[str, ...],
    from_step: int | None,
    shards: int,
    key_file: Path | None,
    keep: int,
    keep_every: int | None,
    *,
    first_iteration: bool,
    trust_order: bool,
    exact: bool,
    supersede: bool,
    as_json: bool,
) -> None:
    """Replay the gradients of GRADIENTS onto a regular checkpoint and publish the last step that is proven.

    The checkpoint has all fields of the anchor: replayed ones, those that the side channel sent for exactly this step,
    and those that do not change. If a step since the anchor is not proven, a field has no source or a value is missing,
    nothing is published, and every reason is told. It is written as torch DCP and as safetensors, read back, brought
    to the disk, and appears by one rename. If the store has a checkpoint of the anchor's step, the two are compared.

    No packet tells whether training.yaml is right: where the replay comes to the step of --trial, it must be what the
    trainer wrote then. No step is applied of which the side channel did not tell the learning rates.

    Exit codes: 0 published and all gradients used; 4 or 10 as of `checkpoint replay` (what was proven is published
    before), 10 also where it is not published.

    \b
    Examples:
      flowcheck-net checkpoint publish laid --store ckpt --training training.yaml --anchor step-0.pt \\
          --trial step-1.pt --side side.log
      flowcheck-net checkpoint publish laid --store ckpt --training training.yaml --anchor step-200.pt \\
          --trial step-201.pt --side side.log --key-file key --keep 5 --keep-every 1000
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.checkpoint import access
    from flowcheck_net.checkpoint import anchor as anchors
    from flowcheck_net.checkpoint.assemble import Assembly
    from flowcheck_net.checkpoint.findings import Stop
    from flowcheck_net.checkpoint.gate import NotPublished
    from flowcheck_net.checkpoint.guarded import Guarded
    from flowcheck_net.checkpoint.optimizer import Replay
    from flowcheck_net.checkpoint.publish import Candidate, Policy, publish
    from flowcheck_net.checkpoint.replay import iterations_of, run_replay
    from flowcheck_net.checkpoint.side import SideLog, read_side
    from flowcheck_net.checkpoint.training import build_training
    from flowcheck_net.cli.checkpoint_inventory import declarations
    from flowcheck_net.cli.checkpoint_replay import require_torch
    from flowcheck_net.spec.check_training import load_training

    require_torch()
    key, declared = key_of(key_file), declarations(sources)
    told = build_training(load_training(training))
    begun = anchors.read_anchor(anchor)
    log = read_side(side, shared_key(side_key_file)) if side else SideLog()
    guards = guards_of(trial, within, begun)
    drift, against = _aligned(store, begun, key, exact=exact)
    with ExitStack() as stack:
        memory = stack.enter_context(tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None))
        places = [Path(memory) / f"shard{number}" for number in range(min(shards, len(told.layout.parameters)))]
        states = anchors.begin(places, told.layout, told.optimizer, begun)
        replay = Guarded(Replay(told.optimizer, states), told, guards)
        report = run_replay(
            replay,
            Assembly(told.layout, told.average, trust_assumed=trust_order),
            iterations_of(gradients),
            from_step=from_step or int(begun["step"]) + 1,
            first=first_iteration,
            values=log.values(),
        )
        disproved = report.request is not None and report.request.stop is Stop.DISPROVED
        if report.refused is not None and (disproved or not report.applied):
            _note_stop(store, report)
            raise report.refused
        candidate = Candidate(
            report.step,
            report.begun_at,
            begun,
            replay.snapshot(),
            [(each.decision.step, each.proof) for each in report.applied],
            {name: each.shape for each in told.layout.parameters for name in (each.name, *each.aliases)},
            told.optimizer.digest,
            log,
            declared,
            replay.trial,
        )
        try:
            done = publish(store, candidate, Policy(key, keep, keep_every, supersede), against)
        except NotPublished as refused:
            if store.is_dir():
                access.note(store, "refuse", report.step, reasons=[str(each) for each in refused.reasons[:20]])
            raise
    _note_stop(store, report)
    _show(done, report, drift, as_json=as_json)
    if report.refused is not None:
        raise report.refused


def guards_of(trial: Path | None, within: float, begun: Any, *, untold: bool = False) -> "Guards":  # noqa: ANN401
    """What a replay that begins at the anchor ``begun`` is held to. Raises BadParameter, RecordsCorrupt."""
    from flowcheck_net.checkpoint.anchor import read_anchor
    from flowcheck_net.checkpoint.guarded import Guards

    if trial is None:
        return Guards(untold=untold)
    regular = read_anchor(trial)
    step = int(regular["step"])
    if step <= int(begun["step"]):
        told = f"{trial} is of step {step:,}: it must be of a step after the anchor's ({int(begun['step']):,})"
        raise click.BadParameter(told, param_hint="--trial")
    return Guards({step: regular}.get, within, untold)


def _aligned(store: Path, begun: Any, key: "Key | None", *, exact: bool) -> tuple["Drift | None", list[Any]]:  # noqa: ANN401
    """Compare the anchor with what was published for its step; reasons against going on."""
    from flowcheck_net.checkpoint import drift as drifts
    from flowcheck_net.checkpoint.gate import Bar, Reason
    from flowcheck_net.checkpoint.publish import read
    from flowcheck_net.checkpoint.store import folder_of, read_published

    step = int(begun["step"])
    folder = folder_of(store, step)
    if not folder.exists():
        return None, []
    found = drifts.measure(step, begun, read(store, read_published(folder), key))
    drifts.record(store, found)
    if found.identical or not exact:
        return found, []
    names = ", ".join(field.name for field in found.fields[:3])
    return found, [Reason(Bar.DRIFT, f"the replica of step {step:,} differed from the anchor in {names}")]


def _note_stop(store: Path, report: "ReplayReport") -> None:
    from flowcheck_net.checkpoint import access

    if report.request is not None and store.is_dir():
        access.note(store, "stop", report.step, reason=f"{report.request.stop}: {report.request.reason}")


def _show(done: "Published", report: "ReplayReport", drift: "Drift | None", *, as_json: bool) -> None:
    from dataclasses import asdict

    from flowcheck_net.cli.output import emit_json

    manifest = done.manifest
    if as_json:
        request = report.request
        emit_json(
            {
                "path": str(done.path),
                "step": done.step,
                "anchor_step": report.begun_at,
                "digest": manifest["digest"],
                "plans": manifest["plans"],
                "fields": len(manifest["fields"]),
                "bytes": sum(file["bytes"] for file in manifest["files"].values()),
                "sealed": manifest["sealed"],
                "drift": None if drift is None else asdict(drift) | {"identical": drift.identical},
                "request": None if request is None else asdict(request) | {"stop": request.stop.value},
            }
        )
        return
    sources = [field["source"] for field in manifest["fields"].values()]
    parts = ", ".join(f"{sources.count(source):,} by {source}" for source in sorted(set(sources)))
    click.echo(f"{done.path}: the state of step {done.step:,}, proven since step {report.begun_at:,}")
    click.echo(f"  {len(sources):,} fields: {parts}")
    if drift is not None:
        same = "bit by bit" if drift.identical else f"but {len(drift.fields):,} fields, by {drift.largest:.3g} at most"
        click.echo(f"  the anchor of step {drift.step:,} is what was published for it, {same}")
