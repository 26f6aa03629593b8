"""The side channel's log: what the trainer said of each step, and why something of a step is not there.

A value is used for the step that it was sent with and for no other. Nothing is guessed: what is missing has a cause.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from flowcheck_net.checkpoint.hyper import StepValues
from flowcheck_net.checkpoint.side_client import VERSION
from flowcheck_net.checkpoint.side_frame import is_signed, signed_parts, unframe
from flowcheck_net.errors import RecordsCorrupt


class Cause(StrEnum):
    """Why a value of a step is missing."""

    NEVER = "never-sent"
    """No rank ever sent a field of this name."""
    OMITTED = "omitted"
    """The step was told, without this field."""
    REFUSED = "not-sendable"
    """The client could not turn it into a message."""
    DROPPED = "dropped"
    """The client's queue was full."""
    LOST = "lost"
    """Sent, and later messages arrived without it: lost in transport or damaged."""
    AWAITED = "awaited"
    """The rank has not told of this step yet."""
    CONTRADICTED = "contradicted"
    """Two ranks sent different values."""
    UNPROVEN = "unauthenticated"
    """A message is there, without the signature of the job's key."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A value that the state of a step needs and that is not there."""

    step: int
    field: str
    cause: Cause
    detail: str

    def __str__(self) -> str:
        return f"{self.field} of step {self.step:,}: {self.cause} ({self.detail})"


@dataclass(frozen=True, slots=True)
class Message:
    """What one rank said of one step."""

    run: str
    rank: int
    sequence: int
    step: int
    at: float
    """Seconds since 1970, by the rank's clock."""
    dropped: int
    lost: tuple[int, ...]
    """The newest steps that the client dropped."""
    refused: tuple[str, ...]
    values: Mapping[str, Any]
    fields: Mapping[str, Any]
    job: str = ""
    """Its name by the trainer; empty: it said none."""
    life: str = ""
    """Of the process, which numbers its messages; empty: a client before there were keys."""


@dataclass(frozen=True, slots=True)
class TensorValue:
    """A tensor as it was sent."""

    dtype: str
    """PyTorch's name."""
    shape: tuple[int, ...]
    data: bytes


class SideLog:
    """All messages of a log."""

    def __init__(
        self, messages: Sequence[Message] = (), damaged: int = 0, torn: int = 0, unproven: Sequence[Message] = ()
    ) -> None:
        """Take messages in the order in which they arrived; the rest as ``read_side`` finds it."""
        self.messages = _once(messages)
        self.unproven = tuple(unproven)
        """Messages without the signature that was asked for: no value of them is used."""
        self.damaged = damaged
        """Stretches of bytes that were no message."""
        self.torn = torn
        """Bytes at the end that are the beginning of a message."""
        self._runs: dict[int, dict[str, list[Message]]] = {}
        """By rank and run; runs in the order of their first message."""
        self._first: dict[tuple[int, str], int] = {}
        """First step of a rank's run."""
        self._last: dict[tuple[int, str, int], Message] = {}
        """The last word of a rank in a run on a step."""
        self._order: dict[str, int] = {}
        self._known: set[str] = set()
        for message in self.messages:
            self._runs.setdefault(message.rank, {}).setdefault(message.run, []).append(message)
            key = (message.rank, message.run)
            self._first[key] = min(message.step, self._first.get(key, message.step))
            self._last[*key, message.step] = message
            self._order.setdefault(message.run, len(self._order))
            self._known |= message.fields.keys() | set(message.refused)

    @property
    def step(self) -> int | None:
        """The newest step of the newest run; None: nothing was told."""
        if not self.messages:
            return None
        newest = max(self._order, key=self._order.__getitem__)
        return max(message.step for message in self.messages if message.run == newest)

    @property
    def dropped(self) -> int:
        """Messages that clients dropped."""
        return sum(runs[-1].dropped for ranks in self._runs.values() for runs in ranks.values())

    def of_step(self, step: int) -> dict[int, Message | Missing]:
        """What each rank said of a step, or why it did not.

        A run that began at or before the step puts earlier runs of its rank out of force: after a restart their values
        belong to steps that never became part of the training.
        """
        chosen, newest = self._in_force(step)
        found: dict[int, Message | Missing] = {}
        for rank, run in chosen.items():
            if run is None:
                found[rank] = Missing(step, "*", Cause.AWAITED, f"rank {rank} has not told of run {newest} yet")
            else:
                found[rank] = self._last.get((rank, run, step)) or _why_not(self._runs[rank][run], step)
        return found

    def _in_force(self, step: int) -> tuple[dict[int, str | None], str]:
        """By rank, the run whose words count for a step (None: it has yet to tell of the newest); and the newest."""
        begun = {
            rank: found[-1]
            for rank, runs in self._runs.items()
            if (found := [run for run in runs if self._first[rank, run] <= step])
        }
        newest = max(begun.values(), key=self._order.__getitem__, default="")
        shared = sum(newest in runs for runs in self._runs.values()) > 1
        return {rank: None if shared and run != newest else run for rank, run in begun.items()}, newest

    def fields(self, step: int, wanted: Sequence[str]) -> tuple[dict[str, Any], tuple[Missing, ...]]:
        """Values of a step for fields of a checkpoint.

        Args:
            step: The state after so many gradients.
            wanted: Names of fields. A message may give one of them, or all below a name (``rng`` for ``rng.torch``).

        Returns:
            Values by the names they were sent under, decoded; and what is missing.
        """
        told = self.of_step(step)
        given: dict[str, Any] = {}
        missing = []
        senders: dict[str, int] = {}
        for rank, message in told.items():
            if isinstance(message, Missing):
                continue
            for name, value in message.fields.items():
                if name in given and given[name] != value:
                    detail = f"ranks {senders[name]} and {rank} sent different values"
                    missing.append(Missing(step, name, Cause.CONTRADICTED, detail))
                given[name], senders[name] = value, rank
        used = set()
        for name in wanted:
            above = next((each for each in _upwards(name) if each in given), None)
            if above is None:
                missing.append(self._why(step, name, told))
            else:
                used.add(above)
        return {name: decode(given[name]) for name in used}, tuple(missing)

    def values(self) -> dict[int, StepValues]:
        """What was said of learning rates, loss scale, skipping and optimizer, by step; where ranks agree.

        Raises:
            RecordsCorrupt: Two ranks contradict one another.
        """
        found: dict[int, StepValues] = {}
        for step in sorted({message.step for message in self.messages}):
            for rank, run in self._in_force(step)[0].items():
                message = None if run is None else self._last.get((rank, run, step))
                if message is None or not message.values:
                    continue
                values = _step_values(step, message.values)
                if found.setdefault(step, values) != values:
                    raise RecordsCorrupt(f"rank {rank} told other values of step {step:,} than another rank")
        return found

    @property
    def jobs(self) -> frozenset[str]:
        """Names that the trainers gave."""
        return frozenset(message.job for message in self.messages if message.job)

    def _why(self, step: int, name: str, told: Mapping[int, Message | Missing]) -> Missing:
        if any(message.step == step for message in self.unproven):
            return Missing(step, name, Cause.UNPROVEN, "the message of the step is not signed with the job's key")
        if not any(each in self._known for each in _upwards(name)):
            return Missing(step, name, Cause.NEVER, "no message of any step has it")
        silent = [each for each in told.values() if isinstance(each, Missing)]
        if silent:
            return Missing(step, name, silent[0].cause, silent[0].detail)
        if not told:
            return Missing(step, name, Cause.AWAITED, "no rank has told of it yet")
        for rank, message in told.items():
            if isinstance(message, Message) and any(each in message.refused for each in _upwards(name)):
                return Missing(step, name, Cause.REFUSED, f"rank {rank} could not turn its value into a message")
        return Missing(step, name, Cause.OMITTED, "the message of the step is without it")


def _once(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Without those that arrived again: whoever sends an old message again must not bring its values back."""
    seen: set[tuple[str, int, str, int]] = set()
    found = []
    for message in messages:
        number = (message.run, message.rank, message.life, message.sequence)
        if not message.life or number not in seen:
            found.append(message)
        seen.add(number)
    return tuple(found)


def _upwards(name: str) -> list[str]:
    """``a.b.c``, ``a.b``, ``a``."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _why_not(messages: Sequence[Message], step: int) -> Missing:
    """Why a rank did not tell of a step in one run."""
    rank = messages[0].rank
    if any(step in message.lost for message in messages):
        return Missing(step, "*", Cause.DROPPED, f"the queue of rank {rank} was full")
    later = [message for message in messages if message.step > step]
    if not later:
        last = max(message.step for message in messages)
        return Missing(step, "*", Cause.AWAITED, f"rank {rank} told of step {last:,} last")
    before = [message for message in messages if message.step < step]
    if before and later[0].sequence == before[-1].sequence + 1:
        detail = f"rank {rank} told of steps {before[-1].step:,} and {later[0].step:,}, and of none between"
        return Missing(step, "*", Cause.OMITTED, detail)
    return Missing(step, "*", Cause.LOST, f"rank {rank} told of step {later[0].step:,} since")


def _step_values(step: int, told: Mapping[str, Any]) -> StepValues:
    rates = told.get("learning_rates")
    return StepValues(
        step,
        None if rates is None else tuple(map(float, rates)),
        told.get("loss_scale"),
        told.get("skipped"),
        told.get("optimizer"),
    )


def read_side(path: Path, shared: bytes | None = None) -> SideLog:
    """Read a log; what is no message is passed over and counted.

    Args:
        path: Of the log.
        shared: The key of trainers and listener; given, only what it signed counts. None: the file is trusted.

    Raises:
        RecordsCorrupt: It cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordsCorrupt(f"{path} cannot be read: {error.strerror or error}") from error
    return SideLog(*_messages(data, shared))


def _messages(data: bytes, shared: bytes | None) -> tuple[list[Message], int, int, list[Message]]:
    """Messages, damaged stretches, bytes at the end that are the beginning of a message, and messages not signed."""
    messages: list[Message] = []
    unproven: list[Message] = []
    damaged = at = 0
    while at < len(data):
        found = unframe(data, at)
        if isinstance(found, int):
            return messages, damaged, found, unproven
        body, end = found
        message = read_message(body) if body is not None else None
        if message is None or body is None:
            damaged += 1
        else:
            (messages if shared is None or is_signed(body, message.job, shared) else unproven).append(message)
        at = end
    return messages, damaged, 0, unproven


class SideTail:
    """The values of a log that grows, and may not be there yet; each byte of it is read once."""

    def __init__(self, path: Path, shared: bytes | None = None, job: str = "") -> None:
        """``shared``: as for ``read_side``; ``job``: what trainers say of another one is passed over."""
        self._path, self._shared, self._job = path, shared, job
        self._read = 0
        self._rest = b""
        self._messages: list[Message] = []
        self._values: Mapping[int, StepValues] = {}

    def values(self) -> Mapping[int, StepValues]:
        """As of ``SideLog.values``. Raises RecordsCorrupt."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                more = file.read()
        except FileNotFoundError:
            return self._values
        except OSError as error:
            raise RecordsCorrupt(f"{self._path} cannot be read: {error.strerror or error}") from error
        if not more:
            return self._values
        self._read += len(more)
        data = self._rest + more
        found, _, torn, _ = _messages(data, self._shared)
        self._rest = data[len(data) - torn :]
        self._messages += [
            replace(message, fields={}) for message in found if self._job in ("", message.job or self._job)
        ]
        self._values = SideLog(self._messages).values()
        return self._values


def _are_values(told: Mapping[str, Any]) -> bool:
    """Of the kinds that they must be: any text would be as good as true, and skip a step."""
    rates, scale, skipped = (told.get(name) for name in ("learning_rates", "loss_scale", "skipped"))
    numbers = [*([] if rates is None else rates), 0.0 if scale is None else scale]
    return all(type(each) in (int, float) for each in numbers) and (skipped is None or isinstance(skipped, bool))


def read_message(body: bytes) -> Message | None:
    """The message of a frame; None: it is none. Its signature is not looked at."""
    try:
        told = json.loads(signed_parts(body)[1])
        if told["v"] != VERSION or not 0 <= int(told["seq"]) < 1 << 64 or not _are_values(told["values"]):
            return None
        for name in ("run", "job", "life"):
            str(told.get(name, "")).encode()  # half a surrogate pair can be neither signed nor written
        return Message(
            str(told["run"]),
            int(told["rank"]),
            int(told["seq"]),
            int(told["step"]),
            float(told["at"]),
            int(told["dropped"]),
            tuple(map(int, told["lost"])),
            tuple(map(str, told["refused"])),
            dict(told["values"]),
            dict(told["fields"]),
            str(told.get("job", "")),
            str(told.get("life", "")),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def decode(value: Any) -> Any:  # noqa: ANN401 - whatever a checkpoint holds
    """A sent value as the trainer had it; tensors as ``TensorValue``. Raises RecordsCorrupt."""
    if isinstance(value, list):
        return [decode(each) for each in value]
    if not isinstance(value, dict):
        return value
    kind = next(iter(value), "")
    try:
        if kind == "$bytes":
            return base64.b64decode(value[kind], validate=True)
        if kind == "$tuple":
            return tuple(decode(each) for each in value[kind])
        if kind == "$dict":
            return {decode(key): decode(each) for key, each in value[kind]}
        if kind == "$tensor":
            told = value[kind]
            data = base64.b64decode(told["data"], validate=True)
            return TensorValue(str(told["dtype"]), tuple(map(int, told["shape"])), data)
    except (ValueError, TypeError, KeyError) as error:
        raise RecordsCorrupt(f"the side channel sent a value that is none: {error}") from error
    return {key: decode(each) for key, each in value.items()}
