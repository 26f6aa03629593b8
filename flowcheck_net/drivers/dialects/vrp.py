"""Huawei VRP 8 (CloudEngine): observing ports, traffic policies for address pairs, everything in one commit. Pure.

An observing port has a number and no name, so a named ACL is its label (``labels.py``). Releases without the two
configuration stages (S series) are not spoken to: their prompt has no ``~``, and every line there is in effect at once.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from flowcheck_net.drivers.dialects import vrp_render, vrp_text
from flowcheck_net.drivers.dialects.base import (
    Answers,
    Block,
    Line,
    Mode,
    ParseError,
    Picture,
    Purpose,
    Site,
    Transaction,
    Words,
)
from flowcheck_net.drivers.dialects.boot import boot_mark
from flowcheck_net.drivers.dialects.vrp_found import Found, compose, find, remarks_on
from flowcheck_net.ids import PortName
from flowcheck_net.intent import Counters, Direction, MirrorSource, Step, is_owned

CONFIGURATION = "display current-configuration"
IN_EFFECT = "display port-mirroring"
LINKS = "display interface brief"
VERSION = "display version"
CLOCK = "display clock"
PORT = "display interface {}"
FIRST, LAST = 1, 8
_COUNT = {
    Direction.RX: re.compile(r"^\s*Input\s*:\s*(?P<count>[0-9]+) packets", re.MULTILINE),
    Direction.TX: re.compile(r"^\s*Output\s*:\s*(?P<count>[0-9]+) packets", re.MULTILINE),
}
_UPTIME = re.compile(r"uptime is (?P<days>[0-9]+) days?, (?P<hours>[0-9]+) hours?, (?P<minutes>[0-9]+) minutes?")
_RELEASE = re.compile(r"VRP \(R\) software, Version (?P<release>.+)")

WORDS = Words(
    device_type="huawei_vrpv8",
    modes=(
        Mode("user", r"<{host}>"),
        Mode("system", r"\[[~*]{host}\]"),
        Mode("below", r"\[[~*]{host}-[^\]\n]+\]"),
    ),
    exec_mode="user",
    config_mode="system",
    configure=(Line("system-view", "system"),),
    leave=(Line("return", "user", may_fail=True),),
    paging_off=("screen-length 0 temporary",),
    pager=r"---- More ----",
    comment="#{}",
    errors=(r"^\s*Error:",),
    harmless=(r"^\s*(?:Info|Warning):",),
    busy=(r"is locked|locked by|another user is (?:configuring|committing)",),
    noise=(r"^[A-Z][a-z]{2} +[0-9]{1,2} [0-9]{4} [0-9:.]+\S* \S+ %%[0-9]+\S+.*$",),
    # Leaving with something uncommitted is how a change is given up.
    questions=((r"[Uu]ncommitted configurations found.*\[Y(?:\(yes\))?/N(?:\(no\))?/C(?:\(cancel\))?\]:?\s*$", "N"),),
    transaction=Transaction(
        begin=(Line("system-view", "system"),),
        commit=(Line("commit", "system"), Line("return", "user")),
        abort=(Line("system-view", "system"), Line("clear configuration candidate"), Line("return", "user")),
        effective=0,
        diff="display configuration candidate changes",
    ),
    save=(Line("save"),),
)


@dataclass(frozen=True, slots=True)
class Seen(Picture):
    """What ``render`` needs beside the sessions."""

    found: Found | None = None


class Vrp:
    """See ``Dialect``."""

    name = "vrp"
    words = WORDS

    def ask(self, purpose: Purpose, steps: Sequence[Step], answers: Answers, site: Site) -> Sequence[str]:
        """See ``Dialect.ask``: the counters of a port are asked for once it is known which ports are watched."""
        del steps
        wanted = [CONFIGURATION, IN_EFFECT]
        if purpose is Purpose.READ:
            wanted += [LINKS, VERSION, CLOCK]
        if purpose is Purpose.COUNT and CONFIGURATION in answers:
            wanted += [PORT.format(port) for port in sorted({s.port for s in _watched(_found(answers), site.job)})]
        return [command for command in wanted if command not in answers]

    def parse(self, answers: Answers, site: Site) -> Seen:
        """See ``Dialect.parse``."""
        found = _found(answers)
        try:
            in_effect = vrp_text.read_in_effect(answers[IN_EFFECT])
        except ValueError as error:
            raise ParseError(f"{IN_EFFECT}: {error}") from error
        links = _links(answers)
        return Seen(
            sessions=tuple(compose(found)),
            remarks=tuple(remarks_on(found, in_effect, links)),
            restart_mark=_mark(answers),
            counters=_counters(answers, found, site.job),
            found=found,
        )

    def render(self, steps: Sequence[Step], seen: Seen, site: Site) -> Sequence[Block]:
        """See ``Dialect.render``."""
        if seen.found is None:
            raise ValueError("a picture of this dialect is needed")
        first, last = site.ids or (FIRST, LAST)
        return vrp_render.render(steps, seen.found, (max(first, FIRST), min(last, LAST)))


VRP = Vrp()


def _found(answers: Answers) -> Found:
    try:
        return find(vrp_text.read_configuration(answers[CONFIGURATION]))
    except ValueError as error:
        raise ParseError(f"{CONFIGURATION}: {error}") from error


def _watched(found: Found, job: str) -> set[MirrorSource]:
    return {source for session in compose(found) if is_owned(session.name, job) for source in session.sources}


def _links(answers: Answers) -> dict[PortName, str]:
    if LINKS not in answers:
        return {}
    links = vrp_text.read_links(answers[LINKS])
    if not links:
        raise ParseError(f"{LINKS}: no port is found in the answer")
    return links


def _counters(answers: Answers, found: Found, job: str) -> Counters:
    counts = {}
    for source in _watched(found, job):
        # A switch that prints it otherwise has no counter for us: unknown is not 0.
        if match := _COUNT[source.direction].search(answers.get(PORT.format(source.port), "")):
            counts[source] = int(match["count"])
    return Counters(ports=counts)


def _mark(answers: Answers) -> str:
    if VERSION not in answers:
        return ""
    release, uptime = _RELEASE.search(answers[VERSION]), _UPTIME.search(answers[VERSION])
    if release is None or uptime is None:
        raise ParseError(f"{VERSION}: no release and uptime are found in the answer")
    return boot_mark(
        answers[CLOCK], {unit: int(uptime[unit]) for unit in ("days", "hours", "minutes")}, release["release"]
    )
