"""NVIDIA Cumulus Linux 5 (NVUE): port-mirror sessions, access lists for address pairs, one revision applied. Pure.

A port-mirror session has a number and one direction, and no name: an access list that is bound nowhere is its label
(``labels.py``), and a session of ours that watches both directions is two of them.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from flowcheck_net.drivers.dialects import cumulus_text
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
from flowcheck_net.drivers.dialects.cumulus_found import Found, compose, find, remarks_on
from flowcheck_net.drivers.dialects.cumulus_render import render
from flowcheck_net.drivers.dialects.text import ERSPAN
from flowcheck_net.intent import Counters, MirrorSession, Remark, RemarkKind, Step, is_owned

CONFIGURATION = "nv config show -r applied -o json"
WORKING = "nv show system port-mirror session -o json"
LINKS = "ip -j link show"
COUNTS = "ip -j -s link show"
START = "cat /proc/sys/kernel/random/boot_id"
ROUTE = "ip -j route get {}"
NEIGHBOURS = "ip -j neigh show"
FIRST, LAST = 0, 7
_BOOT = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

WORDS = Words(
    device_type="linux",
    modes=(Mode("shell", r"[a-z_][a-z0-9_-]*@{host}:[^ \n]*[$#]"),),
    exec_mode="shell",
    config_mode="shell",
    configure=(),
    leave=(),
    paging_off=("export PAGER=cat TERM=dumb",),
    pager=r"^:|\(END\)",
    comment="# {}",
    errors=(
        r"^(?:Error|ERROR|error)\b",
        r"^Invalid ",
        r"^Failed ",
        r"^'.*' (?:is not|does not)",
        r"^.*command not found",
        r"^Cannot ",
    ),
    harmless=(r"^Warning:",),
    busy=(r"another (?:apply|operation) is in progress|is locked",),
    transaction=Transaction(
        # A revision of its own, off what is applied: what others have pending stays theirs.
        begin=(Line("nv config attach applied -y"),),
        commit=(Line("nv config apply -y"),),
        abort=(Line("nv config detach"),),
        effective=0,
        diff="nv config diff",
    ),
    save=(Line("nv config save"),),
)


@dataclass(frozen=True, slots=True)
class Seen(Picture):
    """What ``render`` needs beside the sessions."""

    found: Found | None = None


class Cumulus:
    """See ``Dialect``."""

    name = "cumulus"
    words = WORDS

    def ask(self, purpose: Purpose, steps: Sequence[Step], answers: Answers, site: Site) -> Sequence[str]:
        """See ``Dialect.ask``: the way of encapsulated copies is asked for once their address is known."""
        del steps, site
        wanted = [CONFIGURATION]
        if purpose is Purpose.READ:
            wanted += [WORKING, LINKS, START]
            if CONFIGURATION in answers:
                far = [session.destination.removeprefix(ERSPAN) for session in _remote(_found(answers))]
                wanted += [*(ROUTE.format(address) for address in far), *([NEIGHBOURS] if far else [])]
        if purpose is Purpose.COUNT:
            wanted.append(COUNTS)
        return [command for command in wanted if command not in answers]

    def parse(self, answers: Answers, site: Site) -> Seen:
        """See ``Dialect.parse``."""
        found = _found(answers)
        sessions = tuple(compose(found))
        remarks: tuple[Remark, ...] = ()
        if WORKING in answers:
            try:
                working = cumulus_text.read_sessions(json.loads(answers[WORKING] or "{}"))
                links = cumulus_text.read_links(answers[LINKS])
                remarks = (*remarks_on(found, working, links), *_ways(found, answers))
            except (ValueError, KeyError) as error:
                raise ParseError(f"{WORKING}, {LINKS}, {NEIGHBOURS}: {error}") from error
        boot = _BOOT.search(answers.get(START, ""))
        return Seen(
            sessions, remarks, f"boot {boot[0]}" if boot else "", _counters(answers, found, site.job), found=found
        )

    def render(self, steps: Sequence[Step], seen: Seen, site: Site) -> Sequence[Block]:
        """See ``Dialect.render``."""
        if seen.found is None:
            raise ValueError("a picture of this dialect is needed")
        first, last = site.ids or (FIRST, LAST)
        return render(steps, seen.found, (max(first, FIRST), min(last, LAST)), site.origin)


CUMULUS = Cumulus()


def _found(answers: Answers) -> Found:
    try:
        return find(cumulus_text.read_configuration(answers[CONFIGURATION]))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ParseError(f"{CONFIGURATION}: {error}") from error


def _remote(found: Found) -> list[MirrorSession]:
    return [s for s in compose(found) if s.name in found.labels and s.destination.startswith(ERSPAN)]


def _ways(found: Found, answers: Answers) -> Iterator[Remark]:
    """Nothing asks for the hardware address of an encapsulated copy's next hop: without one, no copy leaves."""
    for session in _remote(found):
        address = session.destination.removeprefix(ERSPAN)
        hop = cumulus_text.next_hop(answers.get(ROUTE.format(address), ""))
        if hop is None:
            yield Remark(RemarkKind.NO_NEXT_HOP, f"there is no route to {address}", session.name)
        elif not cumulus_text.is_resolved(answers[NEIGHBOURS], hop[0]):
            text = f"the hardware address of {hop[0]} ({hop[1]}) is not known; `ping {hop[0]}` on the switch finds it"
            yield Remark(RemarkKind.NO_NEXT_HOP, text, session.name)


def _counters(answers: Answers, found: Found, job: str) -> Counters:
    if COUNTS not in answers:
        return Counters()
    try:
        counts = cumulus_text.read_counts(answers[COUNTS])
    except (ValueError, KeyError) as error:
        raise ParseError(f"{COUNTS}: {error}") from error
    ours = {source for session in compose(found) if is_owned(session.name, job) for source in session.sources}
    return Counters(ports={source: count for source, count in counts.items() if source in ours})
