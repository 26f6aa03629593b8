"""Dell SmartFabric OS10 (10.5): numbered monitor sessions that bear our names as descriptions. Pure.

Each line is in effect at once. Address pairs are matched by access lists of our name with ``capture session``.
Sessions are born shut, and a destination must not switch.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from flowcheck_net.drivers.dialects import os10_text
from flowcheck_net.drivers.dialects.base import Answers, Block, Line, Mode, ParseError, Picture, Purpose, Site, Words
from flowcheck_net.drivers.dialects.os10_found import Found, compose, find, remarks_on, watched
from flowcheck_net.drivers.dialects.os10_render import render
from flowcheck_net.intent import Counters, MirrorSource, Remark, Step

CONFIGURATION = "show running-configuration"
STATES = "show monitor session all"
LINKS = "show interface status"
START = 'system "cat /proc/sys/kernel/random/boot_id"'
CAPTURED = ("show ip access-lists in", "show ipv6 access-lists in")
PORT = "show interface {}"
FIRST, LAST = 1, 18
_BOOT = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

WORDS = Words(
    device_type="dell_os10",
    modes=(
        Mode("exec", r"{host}#"),
        Mode("config", r"{host}\(config\)#"),
        Mode("below", r"{host}\(conf-[^()]*\)#"),
    ),
    exec_mode="exec",
    config_mode="config",
    configure=(Line("configure terminal", "config"),),
    leave=(Line("end", "exec"),),
    paging_off=("terminal length 0",),
    pager=r"--\s*[Mm]ore\s*--",
    comment="! {}",
    errors=(r"^\s*%\s?(?:Error|Node|Cmd|Unrecognized|Invalid)", r"^\s*Error:"),
    harmless=(r"^\s*% ?Warning",),
    busy=(r"locked by|in use by another",),
    noise=(r"<[0-9]{1,3}>1 [0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.+-]+ \S+ ",),
    save=(Line("write memory"),),
)


@dataclass(frozen=True, slots=True)
class Seen(Picture):
    """What ``render`` needs beside the sessions."""

    found: Found | None = None


class Os10:
    """See ``Dialect``."""

    name = "dell-os10"
    words = WORDS

    def ask(self, purpose: Purpose, steps: Sequence[Step], answers: Answers, site: Site) -> Sequence[str]:
        """See ``Dialect.ask``: the counters of a port are asked for once it is known which ports are watched."""
        del steps
        wanted = [CONFIGURATION]
        if purpose is Purpose.READ:
            wanted += [STATES, LINKS, START]
        if purpose is Purpose.COUNT and CONFIGURATION in answers:
            ports = sorted({source.port for source in watched(_found(answers), site.job)})
            wanted += [*CAPTURED, *(PORT.format(port) for port in ports)]
        return [command for command in wanted if command not in answers]

    def parse(self, answers: Answers, site: Site) -> Seen:
        """See ``Dialect.parse``."""
        found = _found(answers)
        remarks: tuple[Remark, ...] = ()
        if STATES in answers:
            try:
                states = os10_text.read_states(answers[STATES])
            except ValueError as error:
                raise ParseError(f"{STATES}: {error}") from error
            if not (links := os10_text.read_links(answers[LINKS])):
                raise ParseError(f"{LINKS}: no port is found in the answer")
            remarks = tuple(remarks_on(found, states, links))
        boot = _BOOT.search(answers.get(START, ""))
        mark = f"boot {boot[0]}" if boot else ""
        return Seen(tuple(compose(found)), remarks, mark, _counters(answers, found, site.job), found=found)

    def render(self, steps: Sequence[Step], seen: Seen, site: Site) -> Sequence[Block]:
        """See ``Dialect.render``."""
        if seen.found is None:
            raise ValueError("a picture of this dialect is needed")
        first, last = site.ids or (FIRST, LAST)
        return render(steps, seen.found, (max(first, FIRST), min(last, LAST)), site.origin, site.limits.max_sessions)


OS10 = Os10()


def _found(answers: Answers) -> Found:
    try:
        return find(os10_text.read_configuration(answers[CONFIGURATION]))
    except ValueError as error:
        raise ParseError(f"{CONFIGURATION}: {error}") from error


def _counters(answers: Answers, found: Found, job: str) -> Counters:
    if CAPTURED[0] not in answers:
        return Counters()
    captured: dict[int, int] = {}
    for command in CAPTURED:
        for number, count in os10_text.read_captured(answers[command]).items():
            captured[number] = captured.get(number, 0) + count
    flow_based = {n: m.name for n, m in found.marks.items() if found.configuration.sessions[n].flow_based}
    ports = {
        MirrorSource(source.port, direction): count
        for source in watched(found, job)
        for direction, count in os10_text.read_port_counts(answers[PORT.format(source.port)])
        if MirrorSource(source.port, direction) in watched(found, job)
    }
    # Whole sessions have no counter.
    return Counters(sessions={name: captured.get(n, 0) for n, name in flow_based.items()}, ports=ports)
