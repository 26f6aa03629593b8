"""Juniper Junos (QFX, EX with ELS): analyzers, changed in the exclusive candidate and committed at once, on trial.

Ports of an analyzer are logical units; ours are unit 0, and a port's name in our files has none. Filters are not
offered: a firewall filter with the analyzer action would take the place of the port's own input filter.

Sources: Juniper's references on analyzers (show forwarding-options analyzer) and on commit confirmed; napalm's samples.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

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
from flowcheck_net.drivers.dialects.text import ERSPAN
from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import (
    Counters,
    Direction,
    MirrorSession,
    MirrorSource,
    Remark,
    RemarkKind,
    Step,
    StepKind,
    is_candidate,
    is_owned,
)

SESSIONS = "show configuration forwarding-options analyzer | display set"
WORKING = "show forwarding-options analyzer"
LINKS = "show interfaces terse"
BOOTED = "show system uptime"
COMMITS = "show system commit"

_NO_PORT = PortName("")
_LINE = re.compile(r"(?P<verb>set|deactivate) forwarding-options analyzer (?P<name>\S+)(?: (?P<rest>.+))?")
_INPUT = re.compile(r"input (?P<way>ingress|egress) interface (?P<port>\S+)")
_OUTPUT = re.compile(r"output (?:interface (?P<port>\S+)|ip-address (?P<address>\S+))")
_WAYS = {"ingress": Direction.RX, "egress": Direction.TX}
_INPUTS = {Direction.RX: "ingress", Direction.TX: "egress"}
_LESS = {
    "input rate": RemarkKind.SAMPLING,
    "ratio": RemarkKind.SAMPLING,
    "input maximum-packet-length": RemarkKind.TRUNCATION,
}
_FACT = re.compile(r"\s*(?P<key>[A-Za-z][A-Za-z ]+?)\s*:\s*(?P<value>.*)")
_BOOT = re.compile(r"^System booted: (?P<time>[^(]+)", re.MULTILINE)
_PACKETS = re.compile(r"^\s*(?P<way>Input|Output)\s+packets\s*:\s*(?P<count>[0-9]+)", re.MULTILINE)
_TRIAL = re.compile(r"^0 .*\brollback (?:in|pending)\b.*(?:\n(?P<comment>[ \t].*))?", re.MULTILINE)


@dataclass(slots=True)
class _Found:
    session: MirrorSession
    remarks: list[Remark] = field(default_factory=list)

    def remark(self, kind: RemarkKind, text: str, port: PortName = _NO_PORT) -> None:
        self.remarks.append(Remark(kind, text, self.session.name, port))


@dataclass(frozen=True, slots=True)
class JunosPicture(Picture):
    """What ``render`` needs beside the sessions."""

    rival: bool = False
    """Somebody else's commit waits to be confirmed."""


class _Junos:
    name = "junos"
    words = Words(
        device_type="juniper_junos",
        modes=(
            Mode("config", r"[^@\s]+@{host}#"),
            Mode("exec", r"[^@\s]+@{host}>"),
            Mode("shell", r"(?:[^@\s]+@{host}(?::\S+)?|)[%$]"),
        ),
        exec_mode="exec",
        config_mode="config",
        configure=(),
        leave=(Line("rollback 0", then="config"), Line("exit configuration-mode", then="exec")),
        rise={"shell": "cli"},
        paging_off=("set cli screen-length 0", "set cli screen-width 511"),
        comment="# {}",
        errors=(
            *(r"^error:", r"^syntax error", r"^unknown command", r"^missing argument", r"^invalid ", r"^\s+\^\s*$"),
            *(r"^commit failed", r"^configuration check-out failed"),
        ),
        harmless=(r"^warning:",),
        busy=(r"database (?:is )?locked", r"database modified", r"exclusive"),
        noise=(
            *(r"^\{(?:master|backup|primary|linecard)(?::[0-9]+)?\}$", r"^\[edit[^\]]*\]$"),
            *(r"^# commit confirmed will be rolled back", r"^Message from syslogd@"),
        ),
        questions=((r"[Dd]iscard uncommitted changes\? \[yes,no\] \(yes\)$", "yes"),),
        transaction=Transaction(
            begin=(Line("configure exclusive", then="config"),),
            commit=(
                Line("commit check"),
                Line("commit confirmed {minutes} comment {name}"),
                Line("exit configuration-mode", then="exec"),
            ),
            abort=(),
            effective=1,
            diff="show | compare",
            timed=True,
            confirm=(
                Line("configure exclusive", then="config"),
                Line("commit comment {name}"),
                Line("exit configuration-mode", then="exec"),
            ),
        ),
    )

    def ask(self, purpose: Purpose, steps: Sequence[Step], answers: Answers, site: Site) -> Sequence[str]:
        """Analyzers, how they fare, links; the counters of watched ports once these are known."""
        del steps
        wanted = [SESSIONS, WORKING, LINKS, BOOTED, COMMITS]
        if purpose is Purpose.COUNT and SESSIONS in answers:
            ours = [f.session for f in _configured(answers[SESSIONS]).values()]
            ports = {s.port for one in ours if is_owned(one.name, site.job) for s in one.sources}
            wanted += [_detail(port) for port in sorted(ports)]
        return [command for command in wanted if command not in answers]

    def parse(self, answers: Answers, site: Site) -> JunosPicture:
        """What is there."""
        found = _configured(answers[SESSIONS])
        states, links = _working(answers[WORKING]), _links(answers[LINKS])
        for one in found.values():
            _health(one, states.get(one.session.name), links)
        remarks = [r for f in found.values() for r in f.remarks]
        trial = _TRIAL.search(answers[COMMITS])
        comment = (trial["comment"] or "").strip() if trial else ""
        if trial:
            remarks.append(
                Remark(RemarkKind.OTHER, "the last commit waits for its confirmation, else the switch goes back")
            )
        confirm = self.words.transaction.confirm if self.words.transaction else ()
        mine = is_candidate(comment, site.job)
        booted = _BOOT.search(answers[BOOTED])
        return JunosPicture(
            sessions=tuple(f.session for f in found.values()),
            remarks=tuple(remarks),
            restart_mark=booted["time"].strip() if booted else "",
            counters=_counters(answers, found),
            unconfirmed=tuple(Line(c.text.replace("{name}", comment), c.then) for c in confirm) if mine else (),
            rival=trial is not None and not mine,
        )

    def render(self, steps: Sequence[Step], seen: JunosPicture, site: Site) -> Sequence[Block]:
        """One block a step."""
        del site
        if seen.rival:
            # Any commit confirms the one before it: theirs would never be taken back.
            raise Unfit("the last commit, somebody else's, waits for its confirmation, and ours would confirm it")
        return [Block(place, tuple(_lines(step)), name=step.session.name) for place, step in enumerate(steps)]


JUNOS = _Junos()


def _lines(step: Step) -> Iterator[Line]:
    session = step.session
    if session.filters:
        raise Unfit(f"{session.name}: filters are not offered on Junos")
    path = f"forwarding-options analyzer {session.name}"
    if step.kind is StepKind.DELETE:
        yield Line(f"delete {path}")
        return
    for source in session.sources:
        yield Line(f"set {path} input {_INPUTS[source.direction]} interface {source.port}.0")
    if session.destination.startswith(ERSPAN):
        yield Line(f"set {path} output ip-address {session.destination.removeprefix(ERSPAN)}")
    else:
        yield Line(f"set {path} output interface {session.destination}.0")


def _configured(text: str) -> dict[str, _Found]:
    found: dict[str, _Found] = {}
    for line in (stripped for raw in text.splitlines() if (stripped := raw.strip())):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ParseError(f"{SESSIONS}: {line!r}")
        name = SessionName(match["name"])
        one = found.setdefault(name, _Found(MirrorSession(name, (), _NO_PORT)))
        if match["verb"] == "deactivate":
            one.remark(RemarkKind.INACTIVE, f"deactivated: {match['rest'] or 'all of it'}")
        elif match["rest"]:
            _add(one, match["rest"])
    return found


def _add(found: _Found, rest: str) -> None:
    session = found.session
    if source := _INPUT.fullmatch(rest):
        one = MirrorSource(_port(source["port"]), _WAYS[source["way"]])
        found.session = replace(session, sources=(*session.sources, one))
    elif output := _OUTPUT.fullmatch(rest):
        place = _port(output["port"]) if output["port"] else PortName(f"{ERSPAN}{output['address']}")
        if session.destination:
            found.remark(RemarkKind.OTHER, f"it has a second output, {place}")
        else:
            found.session = replace(session, destination=place)
    else:
        kind = next((k for words, k in _LESS.items() if rest.startswith(words)), RemarkKind.OTHER)
        found.remark(kind, rest)


def _working(text: str) -> dict[str, dict[str, str]]:
    """Analyzer -> what the switch says of it, keys in lower case."""
    found: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    for line in text.splitlines():
        match = _FACT.fullmatch(line)
        if match is None:
            continue
        if match["key"].lower() == "analyzer name":
            current = found.setdefault(match["value"].strip(), {})
        else:
            current[match["key"].lower()] = match["value"].strip()
    if text.strip() and not found:
        raise ParseError(f"{WORKING}: no analyzer in {text[:60]!r}")
    return found


def _links(text: str) -> dict[PortName, str]:
    """Port -> ``up`` or ``down``; raises ParseError where there is none."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 3 and words[1] in ("up", "down") and words[2] in ("up", "down"):
            found[PortName(words[0])] = "up" if words[1:3] == ["up", "up"] else "down"
    if not found:
        raise ParseError(f"{LINKS}: no interface in {text[:60]!r}")
    return found


def _health(found: _Found, state: Mapping[str, str] | None, links: Mapping[PortName, str]) -> None:
    session = found.session
    if not session.sources or not session.destination:
        found.remark(RemarkKind.INACTIVE, "it has no " + ("input" if session.destination else "output"))
    if state is None:
        found.remark(RemarkKind.INACTIVE, "it is configured, and the switch does not run it")
    elif state.get("state", "up") != "up":
        found.remark(RemarkKind.INACTIVE, f"its state is {state['state']}")
    if links.get(session.destination) == "down":
        found.remark(RemarkKind.DESTINATION_DOWN, f"{session.destination} is down", session.destination)
    for port in sorted({s.port for s in session.sources}):
        if links.get(port) == "down":
            found.remark(RemarkKind.SOURCE_DOWN, f"{port} is down", port)


def _detail(port: PortName) -> str:
    return f"show interfaces {port} detail"


def _counters(answers: Answers, found: Mapping[str, _Found]) -> Counters:
    """Packets of the ports that were asked for. Junos does not count by analyzer."""
    counts: dict[MirrorSource, int] = {}
    for source in {s for f in found.values() for s in f.session.sources}:
        text = answers.get(_detail(source.port))
        if text is None:
            continue
        way = "Input" if source.direction is Direction.RX else "Output"
        # The first is of the port, those below are of its units.
        count = next((m["count"] for m in _PACKETS.finditer(text) if m["way"] == way), None)
        if count is None:
            raise ParseError(f"{_detail(source.port)}: no packets in {text[:60]!r}")
        counts[source] = int(count)
    return Counters(ports=counts)


def _port(name: str) -> PortName:
    """``xe-0/0/1.0`` -> ``xe-0/0/1``; other units keep theirs."""
    return PortName(name.removesuffix(".0"))
