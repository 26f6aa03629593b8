"""``flowcheck-net checkpoint status``, ``verify``, ``restore`` and ``forecast``: what has been published."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flowcheck_net.cli.checkpoint_listen import shared_key, side_key_option
from flowcheck_net.cli.checkpoint_publish import key_of, key_option

if TYPE_CHECKING:
    from flowcheck_net.checkpoint.lag import Standing

_STORE = click.Path(path_type=Path, file_okay=False, exists=True)


@click.command("status")
@click.argument("store", type=_STORE)
@click.option("--side", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="Log of the side channel.")
@side_key_option
@click.option("--interval", type=click.IntRange(1), help="Steps between checkpoints. Default: as the last two.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def status(store: Path, side: Path | None, side_key_file: Path | None, interval: int | None, *, as_json: bool) -> None:
    """Show the trainer's step, the replica's and the stored one, and the reason for each difference.

    The trainer's step is known by the side channel, the replica's by the last `checkpoint publish` on this store. What
    is at risk is counted from the newest checkpoint whose files are all as published.

    \b
    Example:
      flowcheck-net checkpoint status ckpt --side side.log
    """  # noqa: D301 - click wants the real backspace character
    from dataclasses import asdict

    from flowcheck_net.checkpoint import store as stores
    from flowcheck_net.checkpoint.drift import last
    from flowcheck_net.checkpoint.lag import lag
    from flowcheck_net.cli.output import amount, emit_json

    told, wrong = _standing(store, side, side_key_file, interval)
    found = lag(told)
    drift = last(store)
    steps = [each.step for each in stores.published(store)[0]]
    if as_json:
        gaps = {
            name: asdict(gap) | {"why": gap.why.value}
            for name, gap in (("replica", found.replica), ("storage", found.storage))
        }
        emit_json(
            asdict(told)
            | {"behind": gaps, "at_risk": found.at_risk, "checkpoints": steps, "wrong": wrong, "drift": drift}
        )
        return
    click.echo(f"training   step {amount(told.training)}")
    for name, step, gap in (("replica", told.replica, found.replica), ("persisted", told.persisted, found.storage)):
        why = f"{gap.why}{': ' + gap.detail if gap.detail else ''}"
        click.echo(f"{name:<10} step {amount(step)}, {amount(gap.steps)} behind ({why})")
    click.echo(f"at risk    {amount(found.at_risk)} steps")
    if drift is not None:
        same = "identical" if drift["identical"] else f"{len(drift['fields']):,} fields differ"
        click.echo(f"alignment  step {drift['step']:,}: {same}")
    for text in wrong:
        click.echo(f"wrong      {text}")


def _standing(
    store: Path, side: Path | None, side_key_file: Path | None, interval: int | None
) -> tuple["Standing", list[str]]:
    from flowcheck_net.checkpoint import access
    from flowcheck_net.checkpoint import store as stores
    from flowcheck_net.checkpoint.lag import Standing
    from flowcheck_net.checkpoint.side import read_side

    there, wrong = stores.published(store)
    whole = stores.newest(store)
    stopped = refused = ""
    replica = 0
    for line in access.read_access(store):
        if line["action"] in ("publish", "refuse", "stop"):
            replica = int(line["step"])
        if line["action"] == "publish":
            stopped = refused = ""
        elif line["action"] == "refuse":
            refused = "; ".join(line["reasons"])
        elif line["action"] == "stop":
            stopped = line["reason"]
    if whole is None or (there and whole.step != there[-1].step):
        wrong = [
            *wrong,
            *(f"{each.path} is not as published" for each in there if whole is None or each.step > whole.step),
        ]
    told = interval or (there[-1].step - there[-2].step if len(there) > 1 else 1)
    log = read_side(side, shared_key(side_key_file)) if side else None
    training = log.step if log else None
    if log is not None and log.unproven:
        wrong = [*wrong, f"{side}: {len(log.unproven):,} messages are not signed with the job's key, and not used"]
    return Standing(training, replica, whole.step if whole else None, told, stopped, refused), wrong


@click.command("verify")
@click.argument("store", type=_STORE)
@click.option("--step", type=click.IntRange(0), help="One step. Default: all.")
@key_option
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def verify(store: Path, step: int | None, key_file: Path | None, *, as_json: bool) -> None:
    """Compare published checkpoints with their manifests, byte by byte and field by field; and the access log.

    Exit codes: 0 all as published, 9 something is not.

    \b
    Examples:
      flowcheck-net checkpoint verify ckpt
      flowcheck-net checkpoint verify ckpt --step 200 --key-file key
    """  # noqa: D301 - click wants the real backspace character
    from flowcheck_net.checkpoint import access
    from flowcheck_net.checkpoint import store as stores
    from flowcheck_net.checkpoint.publish import verify as compare
    from flowcheck_net.cli.checkpoint_replay import require_torch
    from flowcheck_net.cli.output import emit_json
    from flowcheck_net.errors import RecordsCorrupt

    require_torch()
    key = key_of(key_file)
    access.read_access(store)
    there, wrong = stores.published(store)
    if step is not None:
        there, wrong = [stores.read_published(stores.folder_of(store, step))], []
    right: dict[int, str] = {}
    for each in there:
        try:
            right[each.step] = compare(store, each, key)
        except RecordsCorrupt as error:
            wrong.append(error.message)
    if as_json:
        emit_json({"right": {str(number): what for number, what in right.items()}, "wrong": wrong})
    else:
        for number, what in right.items():
            click.echo(f"step {number:,}: {what} as published")
    if wrong:
        raise RecordsCorrupt("\n".join(wrong), hint="restore takes the newest checkpoint that is whole")
    if not right:
        raise RecordsCorrupt(f"{store} holds no checkpoint")


@click.command("restore")
@click.argument("store", type=_STORE)
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--step", type=click.IntRange(0), help="Default: the newest that is whole.")
@key_option
def restore(store: Path, target: Path, step: int | None, key_file: Path | None) -> None:
    """Copy a published checkpoint to TARGET, decrypted, with every field compared with its digest.

    TARGET is a directory with dcp/ (torch.distributed.checkpoint) and safetensors/ (tensors.safetensors, rest.json). A
    name that ends in .pt gets one torch.save file in the form of an anchor.

    \b
    Examples:
      flowcheck-net checkpoint restore ckpt resume
      flowcheck-net checkpoint restore ckpt step-200.pt --step 200 --key-file key
    """  # noqa: D301 - click wants the real backspace character
    import tempfile

    from flowcheck_net.checkpoint.anchor import write_anchor
    from flowcheck_net.checkpoint.publish import restore as copy
    from flowcheck_net.checkpoint.tree import read_tree
    from flowcheck_net.cli.checkpoint_replay import require_torch
    from flowcheck_net.errors import OutputError

    require_torch()
    key = key_of(key_file)
    if target.suffix != ".pt":
        found = copy(store, target, step=step, key=key)
    elif target.exists():
        raise OutputError(f"{target} is there already", hint="choose another name")
    else:
        with tempfile.TemporaryDirectory(dir=target.parent) as place:
            found = copy(store, Path(place) / "c", step=step, key=key)
            write_anchor(target, read_tree(Path(place) / "c" / "safetensors"))
    click.echo(f"{target}: the state of step {found.step:,}")


@click.command("forecast")
@click.option("--step-seconds", required=True, type=click.FloatRange(0, min_open=True), help="Of the trainer, a step.")
@click.option(
    "--apply-seconds", required=True, type=click.FloatRange(0, min_open=True), help="To apply one, on a node."
)
@click.option("--publish-seconds", required=True, type=click.FloatRange(0), help="To publish a checkpoint.")
@click.option("--interval", required=True, type=click.IntRange(1), help="Steps between checkpoints.")
@click.option("--gradient-bytes", required=True, type=click.IntRange(1), help="Of a step that waits.")
@click.option("--queue-bytes", required=True, type=click.IntRange(1), help="Room of a node for steps that wait.")
@click.option("--waiting", default=0, show_default=True, type=click.IntRange(0), help="Steps that wait now.")
@click.option("--nodes", default=1, show_default=True, type=click.IntRange(1), help="That share the work.")
@click.option("--overlap", is_flag=True, help="The replay goes on while a checkpoint is written.")
@click.option("--goal", type=click.FloatRange(0, min_open=True), help="Seconds of training that a failure may cost.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def forecast(interval: int, waiting: int, nodes: int, goal: float | None, *, as_json: bool, **rates: Any) -> None:  # noqa: ANN401
    """Reckon whether the queue of steps stays bounded, and what to change before it does not.

    \b
    Example:
      flowcheck-net checkpoint forecast --step-seconds 1 --apply-seconds 0.5 --publish-seconds 20 --interval 25 \\
          --gradient-bytes 14000000000 --queue-bytes 300000000000
    """  # noqa: D301 - click wants the real backspace character
    from dataclasses import asdict

    from flowcheck_net.checkpoint.lag import Rates, advise
    from flowcheck_net.checkpoint.lag import forecast as reckon
    from flowcheck_net.cli.output import emit_json

    told = Rates(**rates)
    now = reckon(told, interval, waiting, nodes)
    advice = advise(told, interval, waiting, nodes, goal=goal)
    if as_json:
        emit_json(
            {"now": asdict(now), "act": advice.act.value, "then": asdict(advice.forecast), "reason": advice.reason}
        )
        return
    lost = _lost(now.recovery)
    full = "never full" if now.full_in is None else f"full in {now.full_in:,.0f} s"
    click.echo(f"load {now.load:.2f}; the queue is {full}; a failure costs {lost}")
    then = advice.forecast
    click.echo(f"{advice.act}: {advice.reason or 'nothing to change'}")
    if then != now:
        nodes_ = "1 node" if then.nodes == 1 else f"{then.nodes:,} nodes"
        click.echo(
            f"  every {then.interval:,} steps on {nodes_}: load {then.load:.2f}, a failure costs {_lost(then.recovery)}"
        )


def _lost(seconds: float | None) -> str:
    return "training without bound" if seconds is None else f"{seconds:,.1f} s of training at most"
