"""Arista EOS: named monitor sessions, changed in a configuration session that is committed at once.

Sources: the AVD configuration in the samples, Arista's manual (ports, monitor sessions) and its notes on mirroring to
GRE tunnels and on filtered mirroring.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from flowcheck_net.drivers.dialects.access_lists import AccessList, entries_for, family_of, list_name, lists_in
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
    Unfit,
    Words,
)
from flowcheck_net.drivers.dialects.text import ERSPAN, by_port, directed, expand, lines_of, sources_at
from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import MirrorSession, Remark, RemarkKind, Step, StepKind

SESSIONS = "show running-config section monitor session"
LISTS = "show running-config section access-list"
PENDING = "show configuration sessions detail"
REBOOT = "show reload cause"

_SHOWN = re.compile(r"monitor session (?P<name>\S+) (?P<rest>.+)")
_SOURCE = re.compile(r"source (?P<ports>.+?)(?: (?P<way>rx|tx|both))?(?P<acl> (?:ip|ipv6|mac) access-group \S+.*)?")
_GROUP = re.compile(r"(?P<family>ip|ipv6) access-group (?P<name>\S+)")
_LESS = {
    "truncate": RemarkKind.TRUNCATION,
    "sample": RemarkKind.SAMPLING,
    "rate-limit": RemarkKind.POLICER,
    "header remove": RemarkKind.TRUNCATION,
    "mac access-group": RemarkKind.FILTER,
}
"""What a line of a session begins with that makes it less than a whole copy."""
_WORD = {4: "ip", 6: "ipv6"}
_TUNNEL = re.compile(r"tunnel mode gre source (?P<near>\S+) destination (?P<far>\S+)(?P<more>.*)")


@dataclass(frozen=True, slots=True)
class EosPicture(Picture):
    """What ``render`` needs beside the sessions."""

    lists: tuple[tuple[int, str], ...] = ()
    """(family, name) of access lists that bear the name of a session."""


class _Eos:
    name = "eos"
    words = Words(
        device_type="arista_eos",
        modes=(
            Mode("user", "{host}>"),
            Mode("list", r"{host}\(config-s-[^()]*-acl-[^()]*\)#"),
            Mode("session", r"{host}\(config-s-[^()]*\)#"),
            Mode("exec", "{host}#"),
        ),
        exec_mode="exec",
        config_mode="session",
        configure=(),
        leave=(Line("end"),),
        rise={"user": "enable"},
        paging_off=("terminal length 0", "terminal width 511"),
        errors=(r"^% ", r"^! Access-list .* not configured"),
        harmless=(r"^% Warning",),
        noise=(r"^[A-Z][a-z]{2} +[0-9]+ [0-9:]{8} \S+ \S+: %[A-Z0-9_]+-[0-7]-[A-Z0-9_]+:",),
        transaction=Transaction(
            begin=(Line("configure session {name}", then="session"),),
            commit=(Line("commit timer 00:{minutes}:00", then="exec"),),
            abort=(Line("configure session {name}", then="session"), Line("abort", then="exec")),
            diff="show session-config diffs",
            timed=True,
            confirm=(Line("configure session {name} commit"),),
        ),
        save=(Line("write memory"),),
    )

    def ask(self, purpose: Purpose, steps: Sequence[Step], answers: Answers, site: Site) -> Sequence[str]:
        """Sessions, and what our own earlier writes left."""
        del steps, site, purpose
        return [command for command in (SESSIONS, LISTS, PENDING, REBOOT) if command not in answers]

    def parse(self, answers: Answers, site: Site) -> EosPicture:
        """What is there."""
        del site
        lists = lists_in(answers[LISTS])
        found = _found(answers[SESSIONS])
        for one in found.values():
            _filter(one, lists)
        mark = hashlib.sha256(answers[REBOOT].encode()).hexdigest()[:16]
        return EosPicture(
            tuple(f.session for f in found.values()),
            tuple(r for f in found.values() for r in f.remarks),
            mark,
            lists=tuple(sorted(key for key in lists if key[1] in found)),
        )

    def render(self, steps: Sequence[Step], seen: EosPicture, site: Site) -> Sequence[Block]:
        """One block a step."""
        return [
            Block(place, tuple(_lines(step, seen, site)), name=step.session.name) for place, step in enumerate(steps)
        ]


EOS = _Eos()


@dataclass(slots=True)
class _Found:
    session: MirrorSession
    remarks: list[Remark]
    lists: list[tuple[int, str]]
    """Access lists of the whole session."""

    def remark(self, kind: RemarkKind, text: str) -> None:
        self.remarks.append(Remark(kind, text, self.session.name))


def _found(text: str) -> dict[str, _Found]:
    found: dict[str, _Found] = {}
    for line in lines_of(text):
        match = _SHOWN.fullmatch(line)
        if match is None:
            raise ParseError(f"{SESSIONS}: {line!r}")
        name = SessionName(match["name"])
        # Defaults of all sessions stand here under a name of their own.
        if name == "default":
            continue
        _add(found.setdefault(name, _Found(MirrorSession(name, (), PortName("")), [], [])), match["rest"], line)
    return found


def _add(found: _Found, rest: str, line: str) -> None:
    session = found.session
    if source := _SOURCE.fullmatch(rest):
        ports = expand(source["ports"], SESSIONS)
        ways = directed(source["way"] or "", SESSIONS, line)
        found.session = replace(session, sources=(*session.sources, *sources_at(ports, ways)))
        if source["acl"]:
            found.remark(RemarkKind.FILTER, f"of {source['ports']} only what {source['acl'].strip()} permits is copied")
    elif acl := _GROUP.fullmatch(rest):
        found.lists.append((6 if acl["family"] == "ipv6" else 4, acl["name"]))
    elif rest.startswith("destination "):
        _add_destination(found, rest.removeprefix("destination "))
    else:
        kind = next((k for word, k in _LESS.items() if rest.startswith(word)), RemarkKind.OTHER)
        found.remark(kind, rest)


def _add_destination(found: _Found, rest: str) -> None:
    tunnel = _TUNNEL.fullmatch(rest)
    destination = PortName(f"{ERSPAN}{tunnel['far']}" if tunnel else rest)
    if found.session.destination:
        found.remark(RemarkKind.OTHER, f"it has a second destination, {destination}")
        return
    found.session = replace(found.session, destination=destination)


def _filter(found: _Found, lists: Mapping[tuple[int, str], AccessList]) -> None:
    for key in found.lists:
        pairs = lists[key].pairs() if key in lists else None
        if pairs is None or len(found.lists) > 1:
            found.remark(RemarkKind.FILTER, f"only what access list {key[1]} permits is copied")
        elif not pairs:
            found.remark(RemarkKind.FILTER, f"access list {key[1]} is empty")
        else:
            found.session = replace(found.session, filters=pairs)


def _lines(step: Step, seen: EosPicture, site: Site) -> Iterator[Line]:
    session = step.session
    start = f"monitor session {session.name}"
    name = list_name(session.name)
    if step.kind is StepKind.DELETE:
        yield Line(f"no {start}")
        for family, there in seen.lists:
            if there == name:
                yield Line(f"no {_WORD[family]} access-list {name}")
        return
    if session.filters:
        word = _WORD[family_of(session)]
        yield Line(f"{word} access-list {name}", then="list")
        for entry in entries_for(session.filters):
            yield Line(entry)
        yield Line("exit", then="session")
        yield Line(f"{start} {word} access-group {name}")
    for port, way in by_port(session.sources).items():
        yield Line(f"{start} source {port} {way}")
    yield Line(f"{start} destination {_destination(session, site)}")


def _destination(session: MirrorSession, site: Site) -> str:
    if not session.destination.startswith(ERSPAN):
        return session.destination
    if not site.origin:
        raise Unfit(f"{session.name}: the address that its copies come from is not known: add &origin=ADDRESS")
    vrf = f" vrf {site.vrf}" if site.vrf else ""
    return f"tunnel mode gre source {site.origin} destination {session.destination.removeprefix(ERSPAN)}{vrf}"
