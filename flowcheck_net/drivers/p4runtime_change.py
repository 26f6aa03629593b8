"""Steps as batches of entries, and carrying them out so that a refused step leaves nothing behind.

Within a batch a P4Runtime server may act in any order and goes on after an error, so that what depends on one another
stands in batches of its own. Whatever moment a write is cut off at, each entry of ours hangs on a description that says
whose it is, and no rule names a clone session that is not there:

* create: description, counters to 0, clone session, queue pairs to follow, rules;
* delete: rules, queue pairs, clone session, description.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from flowcheck_net.drivers.p4runtime_entries import Clone, Description, Entry, Picture, Zero
from flowcheck_net.drivers.p4runtime_errors import Lost, Refused, UpdateError
from flowcheck_net.drivers.p4runtime_flows import Flow, NoRoom, flows_for
from flowcheck_net.drivers.p4runtime_sessions import (
    FIRST_ID,
    LAST_ID,
    Found,
    Ports,
    Rivals,
    find_sessions,
    job_tag,
    rules_for,
)
from flowcheck_net.intent import Capabilities, Direction, MirrorSession, Step, StepKind

BATCH = 500
"""Updates in one call: far below gRPC's limits on a message and on the metadata of its errors."""
_NUMBERS = 1 << 16


class Impossible(Exception):
    """The steps cannot be carried out on this switch: nothing was sent."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One entry that comes or goes."""

    entry: Entry
    comes: bool

    def inverse(self) -> "Edit":
        """What undoes it."""
        return Edit(self.entry, not self.comes)


Batch = tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Room:
    """What the tables of the switch hold, and when it is asked."""

    rules: Mapping[Direction, int]
    flows: int
    seconds: int
    """Since 1970."""


class Planner:
    """Turns steps into batches, one list for each step, while it keeps a picture of what will be there."""

    def __init__(self, picture: Picture, job: str, ports: Ports, limits: Capabilities, room: Room) -> None:
        self._job = job
        self._ports = ports
        self._limits = limits
        self._room = room
        self._flows = list(picture.flows)
        self._gone: list[Flow] = []
        self._found = list(find_sessions(picture, job, ports))

    def batches(self, steps: Sequence[Step]) -> list[list[Batch]]:
        """The batches of each step; raises Impossible."""
        return [self._create(s.session) if s.kind is StepKind.CREATE else self._delete(s.session) for s in steps]

    def _create(self, session: MirrorSession) -> list[Batch]:
        if any(f.session.name == session.name for f in self._found):
            raise Impossible(f"{session.name} is there already")
        if len(self._found) >= self._limits.max_sessions:
            raise Impossible(
                f"{session.name}: the switch has {len(self._found)} clone sessions, which is all it may have"
            )
        if not 0 < len(session.sources) <= self._limits.max_sources_per_session:
            most = self._limits.max_sources_per_session
            raise Impossible(f"{session.name} has {len(session.sources)} sources; 1 to {most} are possible")
        found = self._made(session, self._free_id(session))
        self._check_room(found)
        self._check_rivals(found)
        self._found.append(found)
        clone, description = found.clone, found.description
        if clone is None or description is None:
            raise Impossible(f"{session.name} cannot be described")
        batches: list[Batch] = [(Edit(description, True), Edit(Zero(found.id), True)), (Edit(clone, True),)]
        if self._limits.platform == "bmv2":
            # After a pipeline was pushed over living sessions BMv2 keeps their replicas, unseen, and would add ours to
            # them; a delete clears them. No rule names the session yet.
            batches += [(Edit(clone, False),), (Edit(clone, True),)]
        batches += _cut([Edit(flow, True) for flow in found.flows])
        return batches + _cut([Edit(rule, True) for rule in found.rules])

    def _delete(self, session: MirrorSession) -> list[Batch]:
        named = [f for f in self._found if f.session.name == session.name]
        found = next((f for f in named if f.session == session), None)
        if found is None:
            state = "is not there" if not named else "is not as it was read: somebody has changed it"
            raise Impossible(f"{session.name} {state}")
        self._found.remove(found)
        self._flows = [flow for flow in self._flows if flow not in found.flows]
        self._gone += found.flows
        batches = _cut([Edit(rule, False) for rule in found.rules])
        batches += _cut([Edit(flow, False) for flow in found.flows])
        batches += [(Edit(found.clone, False),)] if found.clone else []
        return batches + ([(Edit(found.description, False),)] if found.description else [])

    def _made(self, session: MirrorSession, number: int) -> Found:
        try:
            rules = rules_for(session, number, self._ports)
            port = self._ports.number(session.destination)
        except ValueError as error:
            raise Impossible(f"{session.name}: {error}") from error
        name_number = int(session.name.rsplit("-", 1)[1])
        if name_number >= _NUMBERS:
            raise Impossible(f"{session.name}: numbers of sessions end at {_NUMBERS - 1} on a P4 switch")
        description = Description(number, job_tag(self._job), name_number)
        flows = self._followed(session, number)
        return Found(session, number, rules, description, Clone(number, ((port, 1),)), flows)

    def _followed(self, session: MirrorSession, number: int) -> tuple[Flow, ...]:
        if not session.windows:
            return ()
        if not self._room.flows:
            raise Impossible(f"{session.name} has message windows, and the program of the switch has no fc.flows")
        try:
            made = flows_for(session.windows, number, self._flows, self._gone, self._room.flows, self._room.seconds)
        except NoRoom as error:
            raise Impossible(f"{session.name}: {error}") from error
        self._flows += made
        return made

    def _free_id(self, session: MirrorSession) -> int:
        taken = {f.id for f in self._found}
        free = next((n for n in range(FIRST_ID, LAST_ID + 1) if n not in taken), None)
        if free is None:
            raise Impossible(f"{session.name}: no clone session id from {FIRST_ID} to {LAST_ID} is free")
        return free

    def _check_room(self, new: Found) -> None:
        for direction, size in self._room.rules.items():
            used, more = (
                sum(r.direction is direction for f in every for r in f.rules) for every in (self._found, [new])
            )
            if more and used + more > size:
                raise Impossible(
                    f"{new.session.name} needs {more} rules for {direction}, and {size - used} of {size} are free"
                )

    def _check_rivals(self, new: Found) -> None:
        rivals = Rivals(self._found)
        for rule in new.rules:
            for _, other in rivals.of(rule):
                raise Impossible(
                    f"{new.session.name} would share packets with {other.session.name}, and a packet is copied once "
                    "in a direction: one of the two would miss it"
                )


Send = Callable[[Batch], list[UpdateError | None]]
"""Carries out a batch: of each edit its error or None. May raise Refused (nothing was done) or Lost."""


class StepRefused(Exception):
    """A step was refused, and nothing of it is in effect."""

    def __init__(self, text: str, index: int, hint: str = "") -> None:
        super().__init__(text)
        self.index = index
        self.hint = hint


class Doubt(Exception):
    """A step may be in effect by half, or wholly."""


def carry_out(steps: Sequence[Step], batches: Sequence[Sequence[Batch]], send: Send) -> None:
    """Send the batches of each step; raises StepRefused or Doubt at the first that fails."""
    for index, (step, parts) in enumerate(zip(steps, batches, strict=True)):
        place = f"step {index + 1} ({step.kind} {step.session.name})"
        done: list[Batch] = []
        for part in parts:
            try:
                errors = send(part)
            except Lost as error:
                raise Doubt(f"connection lost during {place}: {error}") from error
            except Refused as error:
                _undo(done, send, f"{place} was refused: {error}")
                raise StepRefused(f"{place} was refused: {error}", index, error.hint) from error
            done.append(tuple(edit for edit, wrong in zip(part, errors, strict=True) if wrong is None))
            if wrong := [(edit, error) for edit, error in zip(part, errors, strict=True) if error]:
                text = f"{place} was refused: {describe(wrong[0][0])}: {wrong[0][1]}{_more(len(wrong) - 1)}"
                _undo(done, send, text)
                raise StepRefused(text, index)


def describe(edit: Edit) -> str:
    """An edit in words."""
    entry = edit.entry
    if isinstance(entry, Zero):
        return f"counters of clone session {entry.clone} to 0"
    verb = "write" if edit.comes else "remove"
    if isinstance(entry, Clone):
        return f"{verb} clone session {entry.id}"
    if isinstance(entry, Description):
        return f"{verb} the description of clone session {entry.clone}"
    if isinstance(entry, Flow):
        return f"{verb} the window of queue pair {entry.qp:#x} at {entry.rule.destination}"
    fields = ", ".join(f"{name}={value:#x}" for name, value, _ in entry.match)
    return f"{verb} rule {entry.direction} {fields}"


def _undo(done: Sequence[Batch], send: Send, text: str) -> None:
    for part in reversed(done):
        back = tuple(edit.inverse() for edit in part if not isinstance(edit.entry, Zero))
        if not back:
            continue
        try:
            failed = [error for error in send(back) if error]
        except (Lost, Refused) as error:
            raise Doubt(f"{text}; then what was done of it could not be undone: {error}") from error
        if failed:
            raise Doubt(f"{text}; then what was done of it could not be undone: {failed[0]}")


def _more(count: int) -> str:
    return f", and {count} more like it" if count else ""


def _cut(edits: Sequence[Edit]) -> list[Batch]:
    return [tuple(edits[start : start + BATCH]) for start in range(0, len(edits), BATCH)]
