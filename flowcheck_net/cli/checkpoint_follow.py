"""``flowcheck-net checkpoint follow``: a replica beside a running trainer."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flowcheck_net.cli.checkpoint_listen import shared_key, side_key_option
from flowcheck_net.cli.checkpoint_publish import trial_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from flowcheck_net.checkpoint.findings import StepIncomplete, StepRefused
    from flowcheck_net.checkpoint.follow import Follower, FollowStatus, ReceiverRestarted
    from flowcheck_net.checkpoint.follow_again import Begin
    from flowcheck_net.checkpoint.follow_boards import Boards
    from flowcheck_net.checkpoint.follow_proof import Prover
    from flowcheck_net.checkpoint.follow_store import Store
    from flowcheck_net.checkpoint.hyper import StepValues
    from flowcheck_net.checkpoint.shard import Decision

    Words = Callable[[], Mapping[int, StepValues]]

_FILE = click.Path(path_type=Path, dir_okay=False, exists=True)
_FOLDER = click.Path(path_type=Path, file_okay=False)


@click.command("follow")
@click.option("--plan", "plan_file", required=True, type=_FILE, help="The plan that the receiver was given.")
@click.option(
    "--boards", required=True, multiple=True, type=_FOLDER, help="As given to `receive --payload`. May be repeated."
)
@click.option(
    "--records",
    required=True,
    multiple=True,
    type=click.Path(path_type=Path, dir_okay=False),
    help="As given to `receive -o`, of each receiver. May be repeated.",
)
@click.option("--training", required=True, type=_FILE, help="Parameters, buckets and optimizer (training.yaml).")
@click.option("--anchor", required=True, type=_FILE, help="Regular checkpoint to begin from, where --state is new.")
@click.option("--state", required=True, type=_FOLDER, help="The replica's own files. It goes on from there.")
@click.option(
    "--first-step",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Step that the receiver's iteration 0 completes.",
)
@click.option("--until", type=click.IntRange(1), help="End once the replica is at this step.")
@click.option("--save-every", default=10, show_default=True, type=click.IntRange(1), help="Steps between full states.")
@click.option("--trust-order", is_flag=True, help="As given to `receive`.")
@trial_options
@click.option(
    "--side",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Log of `checkpoint listen`; it may grow, or come yet.",
)
@side_key_option
@click.option("--values", type=_FILE, help="In its place: one JSON object a step; it may grow.")
@click.option(
    "--untold", is_flag=True, help="Apply also steps of which nobody told: what changed in silence is not seen."
)
@click.option(
    "--anchors",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the trainer writes regular checkpoints (step-N.pt): go on from one when the receiver was restarted.",
)
@click.option("--shards", default=1, show_default=True, type=click.IntRange(1), help="Parts of the replica.")
@click.option("--interval", default=0.2, show_default=True, type=click.FloatRange(0.01), help="Seconds between looks.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object a line.")
def command(
    plan_file: Path,
    boards: tuple[Path, ...],
    records: tuple[Path, ...],
    training: Path,
    anchor: Path,
    state: Path,
    first_step: int,
    until: int | None,
    save_every: int,
    trial: Path | None,
    within: float,
    side: Path | None,
    side_key_file: Path | None,
    values: Path | None,
    anchors: Path | None,
    shards: int,
    interval: float,
    *,
    untold: bool,
    trust_order: bool,
    as_json: bool,
) -> None:
    """Apply each step to a replica as soon as it is proven, while the trainer runs.

    A step is applied when the boards of `receive --payload` hold all its bytes, the audit of the records so far calls
    it COVERED or RECOVERED, and the side channel told its learning rates. No packet tells whether training.yaml is
    right: at the step of --trial the replica must be what the trainer wrote, or nothing of it is kept.

    A receiver that is started again breaks an iteration and counts anew. With --anchors a regular checkpoint is asked
    for, and the replica goes on from it, as soon as it is certain which steps the new numbers mean.

    Ends when the receivers have ended, at --until, or by SIGINT or SIGTERM; killed at
    any moment, it goes on from --state. Exit codes: 4 bytes are missing, 10 something is not proven or not as
    described: the replica keeps its step, and a regular checkpoint is asked for.

    \b
    Example:
      flowcheck-net receive --plan plan.json --node ckpt0 --port cap0=0000:3b:00.0 --payload /dev/shm/fc -o r.fcr &
      flowcheck-net checkpoint follow --plan plan.json --boards /dev/shm/fc --records r.fcr \\
          --training training.yaml --anchor step-40.pt --trial step-41.pt --side side.log --state /var/lib/replica
    """  # noqa: D301 - click wants the real backspace character
    from dataclasses import replace

    from flowcheck_net.checkpoint.anchor import read_anchor
    from flowcheck_net.checkpoint.assemble import Assembly
    from flowcheck_net.checkpoint.follow import Follower, ReceiverRestarted, Settings, opened_words
    from flowcheck_net.checkpoint.follow_again import Begin, latest, regular_in
    from flowcheck_net.checkpoint.follow_boards import Boards
    from flowcheck_net.checkpoint.follow_proof import Prover
    from flowcheck_net.checkpoint.follow_store import Store
    from flowcheck_net.checkpoint.training import build_training
    from flowcheck_net.cli.checkpoint_publish import guards_of
    from flowcheck_net.cli.checkpoint_replay import require_torch
    from flowcheck_net.cli.inputs import read_plan_and_digest
    from flowcheck_net.plan.plan import expectation
    from flowcheck_net.receive.layout import lay_out
    from flowcheck_net.spec.check_training import load_training

    if not (side or values or untold):
        raise click.UsageError("give the trainer's words: --side LOG, or --values FILE; or go without by --untold")
    require_torch()
    plan, digest = read_plan_and_digest(plan_file)
    expected = expectation(plan)
    layout = lay_out(expected.wire, expected.hops)
    told = build_training(load_training(training))
    begun = read_anchor(anchor)
    told_by = words_of(side, values, shared_key(side_key_file), expected.job)
    say = _Say(as_json)
    begin = latest(Begin(state, first_step))
    while True:
        guards = guards_of(trial, within, begun, untold=untold)
        if begin.at_step is not None and anchors is not None:
            guards = replace(guards, regular=regular_in(anchors))
        with Store(begin.state, told) as store, Boards(boards, layout.groups, store.gradients) as open_boards:
            prover = Prover(expected, layout, records, begin.state)
            if begin.at_step is not None:
                found = _regular(begin, anchors, store, open_boards, prover, digest, interval)
                anchor, begun = found, read_anchor(found)
            settings = Settings(begin.first_step, save_every, trust_order, 64, int(begun["step"]), untold)
            announced = told_by()
            checked = Assembly(told.layout, told.average, trust_assumed=trust_order)
            opened = store.open(anchor, checked, begin.first_step, shards, announced, guards)
            if not as_json:
                click.echo(opened_words(opened, store.replay.step), err=True)
                if store.replay.trial is None and trial is None:
                    click.echo("nothing tells whether training.yaml is the trainer's: give --trial", err=True)
            follower = Follower(open_boards, prover, store, settings, digest)
            follower.values = announced
            try:
                _run(follower, say, interval, until, told_by)
                return
            except ReceiverRestarted as broken:
                if anchors is None or broken.former is None:
                    say.refused(broken)
                    raise
                why = broken
        begin = _again(begin, why, say, (expected, layout, records, boards, digest), interval)


def _regular(
    begin: "Begin",
    anchors: Path | None,
    store: "Store",
    boards: "Boards",
    prover: "Prover",
    digest: str,
    interval: float,
) -> Path:
    """Wait for the regular checkpoint to begin from after a restart, and take what comes meanwhile."""
    import time

    from flowcheck_net.checkpoint.findings import CheckpointRequest, StepIncomplete, Stop
    from flowcheck_net.checkpoint.follow_again import first_from
    from flowcheck_net.checkpoint.follow_store import fulls

    at_step = begin.at_step or 0
    if there := fulls(store.directory):
        return there[0][1]
    if anchors is None:
        raise click.UsageError("the receiver was started again: --anchors says where regular checkpoints are")
    start = at_step + 1 - begin.first_step
    while (found := first_from(anchors, at_step)) is None:
        if boards.open(digest, start):
            boards.collect(start + 64)
        judged = prover.look()
        if judged is not None and judged.final:
            reason = f"the receivers ended before there was a regular checkpoint in {anchors}"
            raise StepIncomplete(CheckpointRequest(at_step - 1, at_step, Stop.INCOMPLETE, reason))
        time.sleep(interval)
    return found


def _again(
    begin: "Begin", broken: "ReceiverRestarted", say: "_Say", given: tuple[Any, ...], interval: float
) -> "Begin":
    """Wait until it is certain what the receiver's new numbers mean. Raises StepIncomplete where it will not be."""
    import time
    from dataclasses import replace

    from flowcheck_net.checkpoint.findings import CheckpointRequest
    from flowcheck_net.checkpoint.follow import ReceiverRestarted
    from flowcheck_net.checkpoint.follow_again import fresh, renumbered
    from flowcheck_net.checkpoint.follow_boards import Boards
    from flowcheck_net.checkpoint.follow_proof import Prover

    expected, layout, records, folders, digest = given
    folder = fresh(begin)
    prover = Prover(expected, layout, records, folder)
    with Boards(folders, layout.groups, folder) as boards:
        while broken.former is not None:
            found = renumbered(begin, broken.former, prover, boards, digest)
            if found is not None and found.at_step is not None:
                request: CheckpointRequest = replace(broken.request, at_step=found.at_step)
                say.refused(ReceiverRestarted(request, None))
                return found
            judged = prover.look()
            if judged is not None and judged.final:
                break
            time.sleep(interval)
    say.refused(broken)
    raise broken


def words_of(side: Path | None, values: Path | None, shared: bytes | None = None, job: str = "") -> "Words":
    """What reads the words of the trainer, of all steps up to now."""
    from flowcheck_net.checkpoint.replay import read_values
    from flowcheck_net.checkpoint.side import SideTail

    if side is not None:
        return SideTail(side, shared, job).values
    return (lambda: read_values(values)) if values is not None else dict


def _run(follower: "Follower", say: "_Say", interval: float, until: int | None, words: "Words") -> None:
    """Until it is over; the full state is written at the end, whatever ends it."""
    import signal
    import time

    from flowcheck_net.checkpoint.findings import StepIncomplete, StepRefused
    from flowcheck_net.checkpoint.follow import ReceiverRestarted

    ended: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda seen, _: ended.append(seen)) for number in numbers]
    try:
        while not ended and not follower.over:
            done, status = follower.turn()
            say.told(done, status)
            if until is not None and status.replica_step >= until:
                break
            time.sleep(interval)
            follower.values = words()
    except ReceiverRestarted:  # the caller knows whether it can go on
        raise
    except (StepIncomplete, StepRefused) as error:
        say.refused(error)
        raise
    finally:
        follower.save()
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


class _Say:
    """What became of each step; the reason for a lag each time that it is another one."""

    def __init__(self, as_json: bool) -> None:
        self._json = as_json
        self._lag: object = None
        self._pace: object = None

    def told(self, done: "list[Decision]", status: "FollowStatus") -> None:
        """After a look."""
        import json

        from flowcheck_net.checkpoint.follow import status_words

        self._paced(status)
        if not done and status.lag == self._lag:
            return
        self._lag = status.lag
        skipped = [each.step for each in done if each.skipped]
        if self._json:
            words = {"event": "status", "applied": [each.step for each in done], "skipped": skipped}
            click.echo(json.dumps({**words, **status_words(status)}, sort_keys=True))
            return
        training = "?" if status.training_step is None else f"{status.training_step:,}"
        click.echo(f"training {training}, replica {status.replica_step:,}, full {status.full_step:,}: {status.reason}")

    def _paced(self, status: "FollowStatus") -> None:
        """The interval of full states was changed, or more nodes are asked for."""
        import json

        from flowcheck_net.checkpoint.pace import paced_text, paced_words

        paced = status.paced
        if paced is None or self._pace == (paced.interval, paced.act, paced.nodes):
            return
        told, self._pace = self._pace, (paced.interval, paced.act, paced.nodes)
        if told is None:
            return  # as asked for
        if self._json:
            click.echo(json.dumps({"event": "pace", "step": status.replica_step, **paced_words(paced)}, sort_keys=True))
        else:
            click.echo(paced_text(paced))

    def refused(self, error: "StepIncomplete | StepRefused") -> None:
        """What is asked of the trainer."""
        import json
        from dataclasses import asdict

        if self._json:
            request = asdict(error.request)
            click.echo(json.dumps({"event": "request", **request, "stop": error.request.stop.value}, sort_keys=True))
        else:
            click.echo(f"{error.message}; {error.hint}", err=True)
