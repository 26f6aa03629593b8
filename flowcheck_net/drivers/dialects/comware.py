"""H3C Comware 7: mirroring groups for whole ports, flow mirroring by QoS policy for address pairs. Pure.

A group has a number and no name, so a named ACL is its label (``labels.py``). A flow-mirroring session is an ACL, a
class, a behaviour and a policy of our name. Each line is in effect at once.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from flowcheck_net.drivers.dialects import comware_text
from flowcheck_net.drivers.dialects.base import Answers, Block, Line, Mode, ParseError, Picture, Purpose, Site, Words
from flowcheck_net.drivers.dialects.comware_found import compose, read_flows, read_labels, remarks_on, unwritten_labels
from flowcheck_net.drivers.dialects.comware_render import Board, Tunnel, render
from flowcheck_net.drivers.dialects.sections import split_port
from flowcheck_net.intent import Counters, Direction, MirrorSession, Step, is_owned

GROUPS = "display mirroring-group all"
CONFIGURATION = "display current-configuration"
LINKS = "display interface brief"
START = "display process name scmd"
COUNTS = {
    Direction.RX: "display counters inbound interface",
    Direction.TX: "display counters outbound interface",
}
FIRST, LAST = 1, 15
"""Group ids of the largest models; smaller ones refuse."""
_STARTED = re.compile(r"Last started\s*:\s*(?P<when>\S.*\S)", re.IGNORECASE)
_COUNT = re.compile(r"(?P<port>[A-Za-z][A-Za-z-]*[0-9]+(?:/[0-9]+)+(?::[0-9]+)?)\s+(?P<total>[0-9]+|Overflow)\s.*")

WORDS = Words(
    device_type="hp_comware",
    modes=(
        Mode("user", r"<{host}>"),
        Mode("system", r"\[{host}\]"),
        Mode("below", r"\[{host}-[^\]\n]+\]"),
    ),
    exec_mode="user",
    config_mode="system",
    configure=(Line("system-view", "system"),),
    leave=(Line("return", "user", may_fail=True),),
    paging_off=("screen-length disable",),
    pager=r"---- More ----",
    comment="#{}",
    errors=(r"^\s*% \S", r"^\s*\^\s*$"),
    # A line that was carried out says nothing.
    refusals=(r"\S",),
    harmless=(r"^\s*Info:", r"^% Screen-length configuration is disabled"),
    busy=(r"configuration (?:is|has been) locked",),
    noise=(
        r"^System View: return to User View",
        r"^%[A-Z][a-z]{2}\s+[0-9 ]{1,2}\s[0-9:.]+\s[0-9]{4}\s\S+\s\S+/[0-7]/\S+:.*$",
    ),
    save=(Line("save force"),),
)


@dataclass(frozen=True, slots=True)
class Seen(Picture):
    """What ``render`` needs beside the sessions."""

    board: Board = field(default_factory=Board)


class Comware:
    """See ``Dialect``."""

    name = "comware"
    words = WORDS

    def ask(self, purpose: Purpose, steps: Sequence[Step], answers: Answers, site: Site) -> Sequence[str]:
        """See ``Dialect.ask``."""
        del steps, site
        more = {Purpose.READ: (LINKS, START), Purpose.WRITE: (), Purpose.COUNT: tuple(COUNTS.values())}[purpose]
        return [command for command in (GROUPS, CONFIGURATION, *more) if command not in answers]

    def parse(self, answers: Answers, site: Site) -> Seen:
        """See ``Dialect.parse``."""
        try:
            groups = {group.id: group for group in comware_text.read_groups(answers[GROUPS])}
        except ValueError as error:
            raise ParseError(f"{GROUPS}: {error}") from error
        try:
            configuration = comware_text.read_configuration(answers[CONFIGURATION])
        except ValueError as error:
            raise ParseError(f"{CONFIGURATION}: {error}") from error
        flows, labels = read_flows(configuration), read_labels(configuration)
        sessions = tuple(compose(groups, flows, labels))
        cut_off = unwritten_labels(configuration, site.job)
        return Seen(
            sessions=sessions,
            remarks=tuple(remarks_on(groups, flows, labels, configuration, _links(answers))),
            restart_mark=_mark(answers),
            counters=_counters(answers, [s for s in sessions if is_owned(s.name, site.job)]),
            board=Board.of(groups, flows, labels, configuration, cut_off),
            stale=tuple(_clearing(sorted(cut_off))),
        )

    def render(self, steps: Sequence[Step], seen: Seen, site: Site) -> Sequence[Block]:
        """See ``Dialect.render``."""
        first, last = site.ids or (FIRST, LAST)
        return render(steps, seen.board, (max(first, FIRST), min(last, LAST)), Tunnel(site.via, site.origin))


COMWARE = Comware()


def _clearing(names: Sequence[str]) -> Iterator[Line]:
    """Removes labels that were cut off before a word was written into them."""
    if names:
        yield Line("system-view", "system")
        yield from (Line(f"undo acl name {name}") for name in names)
        yield Line("return", "user")


def _links(answers: Answers) -> dict[str, str]:
    if LINKS not in answers:
        return {}
    links = comware_text.read_links(answers[LINKS])
    if not links:
        raise ParseError(f"{LINKS}: no port is found in the answer")
    return links


def _mark(answers: Answers) -> str:
    """When the first process started; empty where a release does not say it."""
    match = _STARTED.search(answers.get(START, ""))
    return f"since {match['when']}" if match else ""


def _counters(answers: Answers, ours: Sequence[MirrorSession]) -> Counters:
    counts: dict[tuple[str, Direction], int] = {}
    for direction, command in COUNTS.items():
        for line in answers.get(command, "").splitlines():
            # The management port counts its places for itself; a count that overflowed is not known.
            match = _COUNT.fullmatch(line.strip())
            if match and not match["port"].startswith("M") and match["total"].isdigit():
                counts[split_port(match["port"])[1], direction] = int(match["total"])
    sources = {source for session in ours for source in session.sources}
    keys = {source: (split_port(source.port)[1], source.direction) for source in sources}
    return Counters(ports={source: counts[key] for source, key in keys.items() if key in counts})
