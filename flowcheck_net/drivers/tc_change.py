"""Steps -> lines of a tc batch, checked as far as can be before anything is sent. Pure."""

import re
from collections.abc import Sequence

from flowcheck_net.drivers.tc_filters import FIRST_PREF, LAST_PREF, SIDES, Filter, Machine, cookie_of
from flowcheck_net.drivers.tc_match import protocol_of, words_for
from flowcheck_net.drivers.tc_sessions import Found
from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSession, Step, StepKind

_NAME = re.compile(r"[A-Za-z0-9_.@:+-]{1,15}")
"""Interface names that tc takes in a batch as they are."""
KINDS = {False: ("matchall", "bpf", "u32"), True: ("bpf", "flower", "u32")}
"""Has the session address pairs? -> classifiers, the best one first."""
HARDWARE_KINDS = {False: ("matchall",), True: ("flower",)}
"""Switch chips take no others."""


class Refusal(Exception):
    """A step cannot be taken; nothing was sent."""


def check(step: Step, machine: Machine, found: dict[SessionName, Found], job: str) -> None:
    """Raise Refusal where a step cannot be taken."""
    session, there = step.session, found.get(step.session.name)
    if step.kind is StepKind.DELETE:
        if there is None:
            raise Refusal("there is no such session")
        if there.session != session:
            raise Refusal("the session was changed by someone else since it was read")
        return
    if there is not None:
        raise Refusal("it is there already")
    if complaint := _complaint(session) or _place_complaint(session, machine):
        raise Refusal(complaint)
    try:
        cookie_of(session, job)
    except ValueError as error:
        raise Refusal(str(error)) from error


def kinds_for(session: MirrorSession, machine: Machine) -> tuple[str, ...]:
    """Classifiers that can do it, the best one first."""
    chips = any(machine.links[s.port].hardware for s in session.sources)
    return (HARDWARE_KINDS if chips else KINDS)[bool(session.filters)]


def lines_to_add(session: MirrorSession, machine: Machine, job: str, kind: str) -> list[str]:
    """The batch that makes a session; qdiscs first, where they are missing."""
    lines, filters = [], []
    for port in sorted({s.port for s in session.sources}):
        if not _has_qdisc(machine, port):
            lines.append(f"qdisc add dev {port} clsact")
        cookie = cookie_of(session, job).text()
        filters += _filter_lines(session, port, machine, kind, cookie)
    return [*lines, *filters]


def lines_to_remove(filters: Sequence[Filter]) -> list[str]:
    """The batch that removes these filters.

    The qdisc stays, also where we added it: between a look and its removal somebody could have put a filter there, and
    the kernel takes all filters of a qdisc away with it. An empty one does nothing.
    """
    return [f.removal() for f in filters]


def _filter_lines(session: MirrorSession, port: PortName, machine: Machine, kind: str, cookie: str) -> list[str]:
    pairs: Sequence[FlowFilter | None] = session.filters or (None,)
    wanted = [(s.direction, pair) for s in session.sources if s.port == port for pair in pairs]
    # Of both directions: filters of u32 with one preference in one clsact are shown, and counted, at both.
    taken = {f.pref for f in machine.at(port)}
    free = [p for p in range(FIRST_PREF, LAST_PREF + 1) if p not in taken][: len(wanted)]
    if len(free) < len(wanted):
        raise Refusal(f"{port} has no room for {len(wanted)} filters of ours in {FIRST_PREF} to {LAST_PREF}")
    lines = []
    for pref, (direction, pair) in zip(free, wanted, strict=True):
        place = f"dev {port} {SIDES[direction]} protocol {protocol_of(kind, pair)} pref {pref}"
        # `continue`: what others' filters do with the packet afterwards is left to them.
        action = f"action mirred egress mirror dev {session.destination} continue cookie {cookie}"
        lines.append(f"filter add {place} {' '.join(words_for(kind, pair))} {action}")
    return lines


def _complaint(session: MirrorSession) -> str:
    if session.windows:
        return "it has message windows, and tc follows no queue pairs"
    if not session.sources:
        return "it has no source"
    for pair in session.filters:
        if (":" in pair.source) != (":" in pair.destination):
            return f"{pair.source} and {pair.destination} are of two IP versions"
    if session.destination in {s.port for s in session.sources}:
        return f"{session.destination} is source and destination"
    return ""


def _place_complaint(session: MirrorSession, machine: Machine) -> str:
    for port in sorted({session.destination, *(s.port for s in session.sources)}):
        if port not in machine.links:
            return f"there is no interface {port}"
        if not _NAME.fullmatch(port):
            return f"{port!r} cannot be written in a tc batch"
    for source in session.sources:
        if "ingress" in machine.qdiscs.get(source.port, ()) and source.direction is Direction.TX:
            return f"{source.port} has the old qdisc `ingress`, which sees only what arrives: replace it by clsact"
        if why := dict(machine.unread).get(source.port):
            return f"the filters of {source.port} cannot be read: {why}"
    if "loopback" in str(machine.links[session.destination].row.get("link_type", "")):
        return f"{session.destination} is the loopback interface: copies would come back"
    return ""


def _has_qdisc(machine: Machine, port: str) -> bool:
    return bool({"clsact", "ingress"} & set(machine.qdiscs.get(port, ())))
