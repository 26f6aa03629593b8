"""A replica beside a running trainer: boards -> files -> proof -> optimizer, one step after another.

What is not proven is not applied. ``docs/design/0010-follow.md`` says why each part is needed.
"""

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum

from flowcheck_net.checkpoint.assemble import Assembly
from flowcheck_net.checkpoint.files import sync_tree
from flowcheck_net.checkpoint.findings import CheckpointRequest, StepIncomplete, StepRefused, Stop
from flowcheck_net.checkpoint.follow_boards import Boards, settle
from flowcheck_net.checkpoint.follow_lives import Former
from flowcheck_net.checkpoint.follow_proof import Judged, Prover
from flowcheck_net.checkpoint.follow_store import Identity, Opened, Store
from flowcheck_net.checkpoint.guarded import told
from flowcheck_net.checkpoint.hyper import StepValues
from flowcheck_net.checkpoint.pace import Pace, Paced, paced_words
from flowcheck_net.checkpoint.shard import Decision
from flowcheck_net.errors import OutputError
from flowcheck_net.receive.gradient import group_entry, iteration_directory, write_manifest


class Lag(StrEnum):
    """Why the replica is not at the trainer's step."""

    NONE = "none"
    RECEIVER = "no-receiver"
    """No board is there yet: the receiver does not run, or does not know the queue pairs yet."""
    COMING = "coming"
    """Packets of the next step are still coming."""
    PROOF = "proof"
    """All bytes of the next step are there, but the audit does not prove it yet."""
    SIDE = "side"
    """The next step is proven, and the side channel has not told of it."""
    WORK = "work"
    """Proven steps wait for the optimizer."""


@dataclass(frozen=True, slots=True)
class FollowStatus:
    """Where everything stands."""

    training_step: int | None
    """Step whose gradient began to come; None: nothing is seen."""
    replica_step: int
    """Applied, and on the disk: its gradient, or a full state."""
    full_step: int
    """Of the newest full state: a start applies the gradients after it again."""
    lag: Lag
    reason: str
    """A sentence."""
    tried: int | None = None
    """Step at which the replica was what the trainer wrote; None: nothing says yet that the description is right."""
    paced: Paced | None = None
    """How often full states are written now, and why."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How to follow."""

    first_step: int
    """Step that iteration 0 of the receivers completes."""
    save_every: int
    trust_order: bool
    backlog: int
    """Iterations in files that may wait for their proof."""
    anchor_step: int = 0
    """Of the regular checkpoint that the state began from."""
    untold: bool = False
    """Apply also steps of which the side channel says nothing."""
    patience: float = 30.0
    """Seconds to wait for the word on a step when later ones were told, or the receivers have ended."""


class ReceiverRestarted(StepIncomplete):
    """The receiver of a group was started again: an iteration is broken, and the next ones are numbered anew."""

    def __init__(self, request: CheckpointRequest, former: Former | None) -> None:
        super().__init__(request)
        self.former = former
        """None: too little is known of it to find the numbers of the new life."""


class Follower:
    """Advances a replica as far as it is proven."""

    def __init__(self, boards: Boards, prover: Prover, store: Store, settings: Settings, plan_digest: str) -> None:
        """The store is open."""
        self._boards = boards
        self._prover = prover
        self._store = store
        self._settings = settings
        self._digest = plan_digest
        training = store.training
        self._assembly = Assembly(
            training.layout, training.average, trust_assumed=settings.trust_order, check_files=False
        )
        self._judged: Judged | None = None
        self._lives: Mapping[str, int] | None = None
        self._full = store.full_step
        self._begun = self._next
        self._silent_since: float | None = None
        self._pace = Pace(settings.save_every, settings.backlog)
        self._former: Former | None = None
        self.values: Mapping[int, StepValues] = {}
        """Of the side channel, by step; may grow."""

    @property
    def over(self) -> bool:
        """The receivers have ended and everything of them is applied."""
        judged = self._judged
        return judged is not None and judged.final and self._next >= judged.iterations

    @property
    def _next(self) -> int:
        """Iteration of the step after the replica's."""
        return self._store.replay.step + 1 - self._settings.first_step

    def turn(self) -> tuple[list[Decision], FollowStatus]:
        """Take what came, apply what is proven.

        Raises:
            StepIncomplete: Bytes of the next step will never be there. The replica keeps its step.
            StepRefused: The next step is not what it should be; or nobody told of it; or the replica is not what the
                trainer wrote (``DISPROVED``): then nothing of it is kept.
        """
        if not self._ready():
            self._judged = self._prover.look()
            self._refuse_missed()
            return [], self._status(Lag.RECEIVER, "no receiver places payload of all groups yet")
        if self._boards.newest is not None:
            self._pace.seen(self._boards.newest + self._settings.first_step, time.monotonic())
        self._boards.collect(self._next + self._settings.backlog)
        if self._judged is None or not self._judged.final:
            with self._boards.collecting(self._next + self._settings.backlog):  # a look takes long after many steps
                self._judged = self._prover.look()
        more = self._boards.collect(self._next + self._settings.backlog)  # closed before the receivers had ended
        done: list[Decision] = []
        while self._boards.whole(self._next) and not self._doubts() and self._told:
            done.append(self._apply())
        if not done and (reason := self._boards.gone.get(self._next)) is not None:
            raise self._incomplete(f"iteration {self._next:,}: {reason}")
        if not done and not more:
            self._refuse_missed()
            self._refuse_untold()
            self._refuse_doubted()
        return done, self._why()

    def save(self) -> None:
        """Write the full state, and see what it costs."""
        begun, before = time.monotonic(), self._full
        self._full = self._store.save()
        self._store.prune(self._settings.first_step)
        newest = self._boards.newest
        waiting = 0 if newest is None else max(0, newest + 1 - self._next)
        if self._full != before:
            self._pace.saved(self._full, time.monotonic() - begun, waiting)

    def _ready(self) -> bool:
        if not self._boards.open(self._digest, max(0, self._next)):
            return False
        lives = self._boards.lives
        if self._lives is None:
            training = self._store.training
            self._store.claim(
                Identity(
                    self._digest,
                    training.layout.digest,
                    training.optimizer.digest,
                    self._settings.first_step,
                    lives,
                )
            )
            self._lives = lives
        if lives != self._lives:
            step = self._store.replay.step + 1
            reason = f"the receiver was started again: iteration {self._next:,} (step {step:,}) is broken"
            raise ReceiverRestarted(self._request(Stop.INCOMPLETE, reason), self._former)
        return True

    def _doubts(self) -> tuple[str, ...]:
        if self._judged is None:
            return ("there are no records yet",)
        return self._judged.doubts(self._next, trust_order=self._settings.trust_order)

    @property
    def _told(self) -> bool:
        """Did the side channel tell of the next step?"""
        return self._settings.untold or told(self.values.get(self._store.replay.step + 1))

    def _apply(self) -> Decision:
        """Proof and gradient reach the disk before the first byte of the replica changes."""
        begun = time.monotonic()
        number, step = self._next, self._store.replay.step + 1
        self._remember(number)
        self._keep_proven(number)
        gradient = self._assembly.assemble(self._store.gradients, number, step)
        try:
            decision = self._store.advance(gradient, self.values)
        except StepRefused as error:
            if error.request.stop is Stop.DISPROVED:
                self._store.withdraw(self._settings.anchor_step + 1, self._settings.first_step)
            raise
        self._pace.applied(time.monotonic() - begun)
        if self._pace.due(step):
            self.save()
        return decision

    def _keep_proven(self, number: int) -> None:
        """The directory has its final name only once all in it is on the disk. Raises OutputError."""
        directory = iteration_directory(self._store.gradients, number, complete=False)
        try:
            self._write_proof(number)
            sync_tree(directory)
            directory.rename(iteration_directory(self._store.gradients, number, complete=True))
            settle(self._store.gradients)
        except OSError as error:
            reason = f"{directory} cannot be written: {error.strerror or error}"
            raise OutputError(reason, hint="make room, or choose another --state") from error

    def _remember(self, number: int) -> None:
        """What tells, should the receiver be started again, by how much its new numbers are behind."""
        moment = self._judged.moment(number) if self._judged is not None else None
        if self._judged is not None and moment is not None:
            self._former = Former(self._prover.lines, number, moment, self._judged.paces)

    def _write_proof(self, number: int) -> None:
        judged = self._judged
        if judged is None:
            raise self._incomplete("there are no records")
        directory = iteration_directory(self._store.gradients, number, complete=False)
        groups = [group_entry(directory, layout) for layout in judged.layout.groups.values()]
        document = {
            "iteration": number,
            "job": judged.expectation.job,
            "plan": self._digest,
            "verdict": judged.verdict(number).value,
            "complete": all(group["complete"] for group in groups),
            "why": [],
            "assumed": list(judged.assumed),
            "groups": groups,
            "recovered": [
                {"hop": r.hop, "units": r.units, "only_from": dict(r.given), "verdict": "RECOVERED"}
                for r in judged.recovered(number)
            ],
            "contradictions": [],
        }
        write_manifest(directory, document)

    def _refuse_missed(self) -> None:
        """The receivers have ended, and the next step is not there or not proven: it will never be."""
        judged = self._judged
        if judged is None or not judged.final or self._next >= judged.iterations:
            return
        reasons = judged.doubts(self._next, trust_order=self._settings.trust_order)
        if not self._boards.whole(self._next):
            what = "; ".join(reasons) or "the records are whole, but its bytes are in no board"
            raise self._incomplete(f"iteration {self._next:,}: {what}")
        if reasons:
            request = self._request(Stop.UNPROVEN, f"iteration {self._next:,}: {'; '.join(reasons)}")
            raise StepRefused(request)

    def _refuse_untold(self) -> None:
        """The word on the next step, which is proven, is later than it can be."""
        step = self._store.replay.step + 1
        waits = self._boards.whole(self._next) and not self._doubts() and not self._told
        final = self._judged is not None and self._judged.final
        if not waits or not (final or any(later > step for later in self.values)):
            self._silent_since = None
            return
        now = time.monotonic()
        self._silent_since = now if self._silent_since is None else self._silent_since
        if now - self._silent_since >= self._settings.patience:
            reason = f"the side channel did not tell the learning rates of step {step:,}"
            raise StepRefused(self._request(Stop.VALUE_MISSING, reason))

    def _refuse_doubted(self) -> None:
        """The whole records may contradict what the first part of them proved: such steps are taken back."""
        judged = self._judged
        if judged is None or not judged.final:
            return
        for number in range(max(0, self._begun), self._next):
            doubts = judged.doubts(number, trust_order=self._settings.trust_order)
            if doubts:
                step = number + self._settings.first_step
                self._store.withdraw(step, self._settings.first_step)
                reason = f"step {step:,} was applied, and the whole records do not prove it: {doubts[0]}"
                raise StepRefused(CheckpointRequest(step - 1, self._store.replay.step + 1, Stop.UNPROVEN, reason))

    def _why(self) -> FollowStatus:
        newest = self._boards.newest
        if newest is None or newest < self._next:
            return self._status(Lag.NONE, "every step that was seen is applied")
        if not self._boards.whole(self._next):
            return self._status(Lag.COMING, f"packets of step {self._store.replay.step + 1:,} are still coming")
        doubts = self._doubts()
        if doubts:
            return self._status(
                Lag.PROOF, f"step {self._store.replay.step + 1:,} waits for its proof: {_short(doubts[0])}"
            )
        if not self._told:
            step = self._store.replay.step + 1
            return self._status(Lag.SIDE, f"step {step:,} is proven and waits for the word of the side channel")
        return self._status(Lag.WORK, "proven steps wait for the optimizer")

    def _status(self, lag: Lag, reason: str) -> FollowStatus:
        newest = self._boards.newest
        training = None if newest is None else newest + self._settings.first_step
        trial = self._store.replay.trial
        tried = None if trial is None else trial.step
        return FollowStatus(training, self._store.replay.step, self._full, lag, reason, tried, self._pace.now)

    def _incomplete(self, reason: str) -> StepIncomplete:
        return StepIncomplete(self._request(Stop.INCOMPLETE, reason))

    def _request(self, stop: Stop, reason: str) -> CheckpointRequest:
        step = self._store.replay.step
        newest = self._boards.newest
        at = step + 1 if newest is None else max(step + 1, newest + self._settings.first_step)
        return CheckpointRequest(step, at, stop, reason)


def _short(doubt: str) -> str:
    """``dp0/0: GAP``: what is missing of records that still grow is no news."""
    return ": ".join(doubt.split(": ")[:2])


def status_words(status: FollowStatus) -> dict[str, object]:
    """Plain values."""
    pace = {} if status.paced is None else {"pace": paced_words(status.paced)}
    told = {name: value for name, value in asdict(status).items() if name != "paced"}
    return {**told, "lag": status.lag.value, **pace}


def opened_words(opened: Opened, step: int) -> str:
    """A sentence on how a state was found."""
    torn = f"; the last process died while it applied step {opened.torn:,}" if opened.torn is not None else ""
    return f"replica at step {step:,}: full state of step {opened.full:,}, {opened.redone:,} steps applied again{torn}"
