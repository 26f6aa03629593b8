"""What drivers of switches with a command line have in common, whatever carries the lines.

What a platform says and understands is in ``dialects``; how lines get there is in the derived class.
"""

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any, ClassVar, Self, TypeVar

from flowcheck_net.drivers.checks import refuse_foreign
from flowcheck_net.drivers.checks_sessions import meddling, refuse_impossible
from flowcheck_net.drivers.dialects.base import (
    Answers,
    Block,
    Dialect,
    Lock,
    ParseError,
    Picture,
    Purpose,
    Site,
    Unfit,
)
from flowcheck_net.drivers.dialects.catalogue import dialect_of
from flowcheck_net.drivers.dialects.survey import SURVEYS
from flowcheck_net.drivers.login import Login, NoLogin, find_login
from flowcheck_net.drivers.ssh_change import Change, Conversation, Doubt, Refused
from flowcheck_net.drivers.ssh_connect import Lost, Unreachable
from flowcheck_net.drivers.ssh_reference import Reference, parse_reference
from flowcheck_net.drivers.ssh_shell import Confused, LineRejected
from flowcheck_net.drivers.surroundings import checked_with, surroundings_of
from flowcheck_net.errors import ConnectError, PartialWrite, Rejected, StateUnknown
from flowcheck_net.intent import (
    Capabilities,
    Counters,
    Step,
    Surroundings,
    SwitchAddress,
    SwitchState,
    is_owned,
    split_state,
)

Answer = TypeVar("Answer")
_ROUNDS = 4
"""Most rounds of questions that depend on one another."""
_READINGS = 2
"""Times that an answer is asked for again where it is not understood: a log line may have cut it."""


class CliDriver(ABC):
    """One switch over one connection."""

    PORT: ClassVar[int] = 22
    """Where none is said."""

    def __init__(self, address: SwitchAddress, job: str, limits: Capabilities) -> None:
        self._switch = address.name
        self._job = job
        self._limits = limits
        try:
            self._where: Reference = parse_reference(address.management, self.PORT)
            self._dialect: Dialect[Any] = dialect_of(self._where.dialect or address.platform)
        except (ValueError, KeyError) as error:
            raise ConnectError(self._switch, str(error.args[0])) from error
        self._site = Site(job, limits, self._where.ids, self._where.vrf, self._where.origin, self._where.via)
        self._login = Login("")
        self._shell: Conversation | None = None
        self._holding = False
        self._seen: Picture | None = None

    def __enter__(self) -> Self:
        try:
            self._login = find_login(self._where.login)
            jump = find_login(self._where.jump_login) if self._where.jump_login else self._login
            self._shell = self._dial(jump)
        except NoLogin as error:
            raise ConnectError(self._switch, str(error)) from error
        except Unreachable as error:
            raise ConnectError(self._switch, str(error), hint=error.hint) from error
        self._ask(lambda: self._live().start(self._login.enable or self._login.password))
        return self

    def __exit__(self, *exc: object) -> None:
        self._hang_up()
        self._holding = False

    @abstractmethod
    def _dial(self, jump: Login) -> Conversation:
        """Connect, with ``self._login``; raises Unreachable."""

    @abstractmethod
    def _close(self) -> None:
        """Hang up; never raises."""

    def capabilities(self) -> Capabilities:
        """The platform's table."""
        self._live()
        return self._limits

    def read(self) -> SwitchState:
        """All mirror sessions."""
        self._seen = picture = self._look(Purpose.READ)
        return split_state(picture.sessions, self._job, remarks=picture.remarks, restart_mark=picture.restart_mark)

    def hold(self) -> AbstractContextManager[None]:
        """The platform's configuration lock; nothing where it has none."""
        lock = self._dialect.words.lock
        self._live()
        return self._hold(lock) if lock else nullcontext()

    def write(self, steps: Sequence[Step]) -> None:
        """Carry out the steps; see ``Driver.write``. Deletes must name sessions as they are."""
        refuse_foreign(self._switch, steps, self._job)
        lock = self._dialect.words.lock
        with self._hold(lock) if lock and not self._holding else nullcontext():
            if not steps:
                self._take_effect()
                return
            before, self._seen = self._seen, None
            picture = self._look(Purpose.WRITE, steps)
            if before is not None and sorted(before.sessions) != sorted(picture.sessions):
                raise Rejected(self._switch, "its mirror sessions were changed since they were read; nothing was sent")
            refuse_impossible(self._switch, steps, picture.sessions, self._limits)
            self._carry_out(steps, picture)

    def counters(self) -> Counters:
        """What the switch counts of our sessions and of the ports that they watch."""
        found = self._look(Purpose.COUNT).counters
        return Counters(
            {name: count for name, count in found.sessions.items() if is_owned(name, self._job)},
            {place: count for place, count in found.sources.items() if is_owned(place.session, self._job)},
            found.ports,
        )

    def surroundings(self) -> Surroundings:
        """Neighbours, speeds and facts as its command line shows them, checked against napalm's getters where it has.

        An answer other than that of the neighbours that is not understood, or refused, is a doubt.
        """
        survey = SURVEYS.get(self._dialect.name)
        if survey is None:
            raise ConnectError(self._switch, f"how {self._dialect.name} shows its LLDP neighbours is not known")
        told = self._ask(lambda: surroundings_of(survey, self._live().ask))
        getters = self._getters()
        if getters is None:
            return told
        return self._ask(lambda: checked_with(getters, survey, self._live().ask, told))

    def _getters(self) -> Any | None:  # noqa: ANN401 -- napalm is not typed
        """Napalm's driver of this very connection, for its getters; None where this way to the switch has none."""
        return None

    def _look(self, purpose: Purpose, steps: Sequence[Step] = ()) -> Picture:
        for left in reversed(range(_READINGS)):
            try:
                found: Picture = self._ask(lambda: self._dialect.parse(self._answers(purpose, steps), self._site))
                return found
            except ParseError as error:
                if not left:
                    text = f"what it answers is not understood: {self._login.without_secrets(str(error))}"
                    raise ConnectError(
                        self._switch, text, hint="nothing was changed; please report the line"
                    ) from error
        raise ValueError("readings is 1 or more")

    def _answers(self, purpose: Purpose, steps: Sequence[Step]) -> Answers:
        answers: dict[str, str] = {}
        for _ in range(_ROUNDS):
            open_ones = self._dialect.ask(purpose, steps, answers, self._site)
            if not open_ones:
                return answers
            for command in open_ones:
                answers[command] = self._live().ask(command)
        raise ParseError(f"the dialect {self._dialect.name} asks without end")

    def _carry_out(self, steps: Sequence[Step], picture: Picture) -> None:
        blocks = self._render(steps, picture)
        change = self._change(steps, picture)
        # The steps start from what was read, so that must stay: a switch that goes back takes no second trial either.
        self._settle(picture)
        if self._dialect.words.transaction is not None:
            self._send(change, blocks, 0)
        else:
            for done, step in enumerate(steps):
                self._send_one(step, done, picture)
        self._save(change)

    def _send_one(self, step: Step, done: int, picture: Picture) -> None:
        """Where each line is in effect at once, what others did since the step before is looked at before the next."""
        try:
            now = self._look(Purpose.WRITE, [step]) if done else picture
            refuse_impossible(self._switch, [step], now.sessions, self._limits, first=done + 1)
            blocks = [replace(block, step=done) for block in self._render([step], now)]
        except (ConnectError, Rejected) as error:
            if not done:
                raise
            raise PartialWrite(self._switch, error.message.removeprefix(f"{self._switch}: "), done=done) from error
        self._send(self._change([step], now), blocks, done)

    def _render(self, steps: Sequence[Step], picture: Picture) -> Sequence[Block]:
        try:
            return self._dialect.render(steps, picture, self._site)
        except Unfit as error:
            raise Rejected(self._switch, f"{error}; nothing was sent") from error

    def _change(self, steps: Sequence[Step], before: Picture) -> Change:
        def rivals() -> str:
            try:
                now = self._look(Purpose.WRITE, steps)
            except ConnectError as error:
                raise Doubt(error.message) from error
            return meddling(steps[0].session, before.sessions, now.sessions)

        name = f"fcn-{self._job}-{secrets.token_hex(4)}"
        return Change(self._live(), self._dialect.words, name, self._where.confirm, rivals)

    def _send(self, change: Change, blocks: Sequence[Block], done: int) -> None:
        """Send blocks; so many steps before them are in effect."""
        try:
            change.carry_out(blocks)
        except Refused as error:
            self._refuse(error, max(done, error.done))
        except Doubt as error:
            self._hang_up()
            raise StateUnknown(self._switch, self._login.without_secrets(str(error))) from error

    def _refuse(self, error: Refused, done: int) -> None:
        text = self._login.without_secrets(str(error))
        if error.lost:
            self._hang_up()
        if done:
            raise PartialWrite(self._switch, text, done=done, hint=error.hint) from error
        raise Rejected(self._switch, text, hint=error.hint) from error

    def _save(self, change: Change) -> None:
        if not self._where.save:
            return
        try:
            change.run(self._dialect.words.save)
        except (LineRejected, Confused, Lost) as error:
            self._hang_up()
            text = f"written, but not saved for a restart: {self._login.without_secrets(str(error))}"
            raise StateUnknown(self._switch, text) from error

    def _take_effect(self) -> None:
        """Finish what an earlier write of ours was cut off from."""
        self._settle(self._look(Purpose.READ))

    def _settle(self, picture: Picture) -> None:
        """Clear away what earlier writes of ours left pending, and confirm what they committed on trial."""
        change = Change(self._live(), self._dialect.words, "", self._where.confirm)
        if picture.stale:
            self._ask(lambda: change.run(picture.stale))
        if picture.unconfirmed:
            self._ask(lambda: change.run(picture.unconfirmed))

    @contextmanager
    def _hold(self, lock: Lock) -> Iterator[None]:
        change = Change(self._live(), self._dialect.words, "", 0)
        try:
            change.run(lock.take)
        except LineRejected as error:
            text = self._login.without_secrets(error.answer)
            raise Rejected(self._switch, f"another one holds its configuration: {text}") from error
        except (Lost, Confused) as error:
            self._hang_up()
            raise ConnectError(self._switch, str(error)) from error
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
            # Where the connection is gone, so is the lock.
            if self._shell is not None:
                with suppress(Lost, Confused, LineRejected):
                    change.run(lock.release)

    def _ask(self, question: Callable[[], Answer]) -> Answer:
        """Of a conversation that changes no session: what its failures mean."""
        try:
            return question()
        except LineRejected as error:
            raise ConnectError(self._switch, self._login.without_secrets(str(error))) from error
        except (Lost, Confused) as error:
            self._hang_up()
            raise ConnectError(self._switch, self._login.without_secrets(str(error))) from error

    def _live(self) -> Conversation:
        if self._shell is None:
            raise ConnectError(self._switch, "not connected")
        return self._shell

    def _hang_up(self) -> None:
        self._shell = None
        self._close()
