"""The options of ``flowcheck-net receive`` that place payload: ``--payload`` and what belongs to it."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from flowcheck_net.checkpoint.placing import Learner
    from flowcheck_net.plan.plan import Plan as JobPlan
    from flowcheck_net.receive.receiver_config import Placing
    from flowcheck_net.receive.receiver_run import Run
    from flowcheck_net.receive.receiver_status import Status


@dataclass(frozen=True, slots=True)
class PayloadArguments:
    """As given on the command line."""

    payload: Path
    trust_order: bool
    copiers: tuple[str, ...]
    slots: int


_OPTIONS = (
    click.option(
        "--payload",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Place the fully reduced bytes into gradient memory, DIR/GROUP.board, as they come. "
        "DIR on hugetlbfs or /dev/shm; needs --plan.",
    ),
    click.option(
        "--trust-order",
        is_flag=True,
        help="--payload: equal channels, whose queue pairs the job does not name, use them in ascending order.",
    ),
    click.option(
        "--copy",
        "copiers",
        multiple=True,
        metavar="DEVICE",
        help="--payload: a DMA device that copies for a worker, the first for the first: a PCI address, or "
        "dma_skeleton0. May be repeated.  [default: the workers copy]",
    ),
    click.option(
        "--payload-slots",
        "slots",
        type=click.IntRange(2, 16),
        help="--payload: iterations that are in memory at once.  [default: 3]",
    ),
)
_SLOTS = 3


def payload_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets them as one ``payload``: None where it is not given."""

    @functools.wraps(function)
    def collected(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - click's
        given = {name: kwargs.pop(name) for name in PayloadArguments.__dataclass_fields__}
        if given["payload"] is None and any(given.values()):
            raise click.UsageError("options that are marked --payload in the help need --payload")
        given["slots"] = given["slots"] or _SLOTS
        function(*args, payload=PayloadArguments(**given) if given["payload"] is not None else None, **kwargs)

    for option in reversed(_OPTIONS):
        collected = option(collected)
    return collected


def placing_of(given: PayloadArguments, plan: "JobPlan") -> "Placing":
    """For the receiver; what is to be placed is learnt later."""
    from flowcheck_net.errors import OutputError
    from flowcheck_net.receive.receiver_config import Placing

    try:
        given.payload.mkdir(parents=True, exist_ok=True)
    except OSError as fault:
        raise OutputError(
            f"{given.payload} cannot be made: {fault.strerror}", hint="choose another --payload"
        ) from fault
    close_ms = min(max(round(4000 * plan.job.iteration_time), 2000), 3_600_000)
    return Placing("", given.payload.absolute(), given.slots, close_ms, given.copiers)


class Learning:
    """Looks at every status until it knows where the payload belongs, and then tells the receiver."""

    def __init__(self, given: PayloadArguments) -> None:
        self._trust_order = given.trust_order
        self._learners: dict[str, Learner] = {}
        self._known = False

    def expect(self, plan: "JobPlan", digest: str) -> None:
        """A plan that may come into force."""
        from flowcheck_net.checkpoint.placing import Learner
        from flowcheck_net.plan.plan import expectation

        self._learners[digest] = Learner(expectation(plan), trust_order=self._trust_order, plan_digest=digest)

    def look(self, status: "Status", run: "Run") -> None:
        """``run``: whose status it is."""
        learner = self._learners[run.digest]
        if status.event == "started":
            learner.begin()
            self._known = False
            _say_aside(run)
        packets = sum(port.rocev2 for port in status.ports)
        if status.event == "stopped" and not self._known:
            _say_why(learner.latest)
        elif status.event == "stopped":
            _say_unlaid(status.placed)
        if self._known or run.spool is None or status.event != "status" or not packets:
            return
        text = learner.look(run.spool, packets)
        if text:
            self._known = True
            run.place(text)
            pairs = learner.latest.queue_pairs if learner.latest else 0
            click.echo(f"placing payload of {pairs} queue pairs", err=True)


_LAID = frozenset(
    {"places.placed", "places.repeated", "lays.laid", "lays.present", "lays.in_flight", "lays.not_reduced"}
    | {"device_copies", "device_full", "device_failed", "unfollowed"}
)
"""Nothing is wrong with these."""


def _say_unlaid(placed: Mapping[str, int]) -> None:
    wrong = [f"{name} {count:,}" for name, count in placed.items() if count and name not in _LAID]
    if wrong:
        click.echo(f"packets whose payload was not laid, or was taken back: {', '.join(wrong)}", err=True)


def _say_aside(run: "Run") -> None:
    for path in run.aside:
        click.echo(f"{path} has iterations of the former plan that nobody has taken; remove it when they are", err=True)
    run.aside = ()


def _say_why(latest: Any) -> None:  # noqa: ANN401 - Learnt, imported late
    reasons = (
        ["fewer than two iterations of the planned job were seen"] if latest is None or latest.iterations < 2 else []
    )
    if latest is not None:
        reasons += [] if latest.in_step else ["by their times, iterations of one number differ between queue pairs"]
        reasons += [*latest.doubts, *(text for texts in latest.assumptions.values() for text in texts)]
        reasons += [f"{group}: no queue pair brings {count} packets" for group, count in latest.uncovered.items()]
    for reason in dict.fromkeys(reasons):
        click.echo(f"no payload was placed: {reason}", err=True)
