"""Cisco Nexus 9000, NX-OS: numbered monitor sessions; each line is in effect at once, and a new session is shut.

Ours is what bears our name as its description. Behind the name stands what was done to the destination port for it, so
that its removal can undo that: ``+smu1/31`` made Ethernet1/31 a switchport (s), a monitor port (m), brought it up (u).

Sources: Cisco's Nexus 9000 guides on SPAN, ERSPAN and IP access lists; batfish's and genie's samples.
"""

from collections.abc import Iterator, Sequence

from flowcheck_net.drivers.dialects.access_lists import entries_for, family_of, list_name, refuse_strays
from flowcheck_net.drivers.dialects.base import Answers, Block, Line, Mode, Purpose, Site, Unfit, Words
from flowcheck_net.drivers.dialects.nxos_read import (
    CONFIG,
    COUNTERS,
    LISTS,
    REBOOT,
    STATUS,
    WORKING,
    NxosPicture,
    interface_question,
    picture_of,
)
from flowcheck_net.drivers.dialects.text import ERSPAN, by_port
from flowcheck_net.ids import PortName
from flowcheck_net.intent import MirrorSession, Step, StepKind, is_owned

_LONGEST = 32
"""Letters of a description."""
_IDS = (1, 32)
"""Numbers that a session may have."""
_UNDO = {"u": "shutdown", "m": "no switchport monitor", "s": "no switchport"}
_ROOT = "config"


class _Nxos:
    name = "nxos"
    words = Words(
        device_type="cisco_nxos",
        modes=(
            Mode("session", r"{host}\(config-(?:monitor|erspan-src)\)#"),
            Mode("list", r"{host}\(config-(?:ipv6-)?acl\)#"),
            Mode("port", r"{host}\(config-if\)#"),
            Mode("config", r"{host}\(config\)#"),
            Mode("user", r"{host}>"),
            Mode("exec", r"{host}#"),
        ),
        exec_mode="exec",
        config_mode=_ROOT,
        configure=(Line("configure terminal", then=_ROOT),),
        leave=(Line("end"),),
        rise={"user": "enable"},
        paging_off=("terminal length 0", "terminal width 511"),
        errors=(r"^\s*% ", r"^ERROR:", r"^Error:", r"^Syntax error"),
        harmless=(r"^Warning", r"^\s*% Warning"),
        busy=(r"[Cc]onfiguration is locked|another (?:session|user)",),
        noise=(r"^[0-9]{4} [A-Z][a-z]{2} +[0-9]+ [0-9:.]+ \S+ %[A-Z0-9_$-]+-[0-7]-[A-Z0-9_]+:",),
        save=(Line("copy running-config startup-config"),),
    )

    def ask(self, purpose: Purpose, steps: Sequence[Step], answers: Answers, site: Site) -> Sequence[str]:
        """Sessions, lists, links; of the destinations of the steps their configuration."""
        del site
        wanted = [CONFIG, LISTS, WORKING, STATUS, REBOOT]
        if purpose is Purpose.WRITE:
            ports = {s.session.destination for s in steps if s.session.destination and ":" not in s.session.destination}
            wanted += [interface_question(port) for port in sorted(ports)]
        if purpose is Purpose.COUNT:
            wanted.append(COUNTERS)
        return [command for command in wanted if command not in answers]

    def parse(self, answers: Answers, site: Site) -> NxosPicture:
        """What is there; see ``nxos_read``."""
        return picture_of(answers, site)

    def render(self, steps: Sequence[Step], seen: NxosPicture, site: Site) -> Sequence[Block]:
        """Several blocks a step: the name comes first and goes last, so that what is half done is known as ours."""
        refuse_strays(steps, seen.lists)
        taken = set(seen.numbers.values()) | set(seen.others)
        ports = {port: list(lines) for port, lines in seen.ports.items()}
        blocks: list[Block] = []
        for place, step in enumerate(steps):
            if step.kind is StepKind.DELETE:
                flags = seen.flags.get(step.session.name, "")
                blocks += _delete(place, step.session, seen.numbers[step.session.name], flags, seen)
                if not _heirs(step.session, seen):
                    _forget(ports, seen.prepared.get(step.session.name, step.session.destination), flags)
            else:
                number = _free(site, taken, step.session)
                taken.add(number)
                blocks += _create(place, step.session, number, ports, seen)
        return blocks


NXOS = _Nxos()


def _title(name: str, flags: str, port: str) -> str:
    return f"{name} +{flags}{port.removeprefix('Ethernet')}" if flags else name


def _free(site: Site, taken: set[int], session: MirrorSession) -> int:
    first, last = site.ids or _IDS
    number = next((n for n in range(first, last + 1) if n not in taken), None)
    if number is None:
        raise Unfit(f"{session.name}: no session number from {first} to {last} is free")
    return number


def _create(
    place: int, session: MirrorSession, number: int, ports: dict[PortName, list[str]], seen: NxosPicture
) -> Iterator[Block]:
    remote = session.destination.startswith(ERSPAN)
    if remote and not seen.origin:
        raise Unfit(
            f"{session.name}: the switch has no address for its copies: `monitor erspan origin ip-address A global`"
        )
    flags = "" if remote else _needs(session, ports)
    title = _title(session.name, flags, session.destination)
    if len(title) > _LONGEST:
        raise Unfit(f"{session.name}: {title!r} is longer than the {_LONGEST} letters of a description")
    enter = f"monitor session {number}" + (" type erspan-source" if remote else "")
    away = (Line(f"no monitor session {number}", may_fail=True),)
    # Two commands on one line: cut off between them, a session would be left that nobody knows.
    begin = (Line(f"{enter} ; description {title}", then="session"), Line("exit", then=_ROOT))
    yield Block(place, begin, away, f"monitor session {number}")
    if session.filters:
        yield _list_block(place, session)
    if flags:
        yield _port_block(place, session.destination, flags)
    yield Block(place, tuple(_body(session, number, enter)), away, f"monitor session {number}")


def _body(session: MirrorSession, number: int, enter: str) -> Iterator[Line]:
    yield Line(enter, then="session")
    for port, way in by_port(session.sources).items():
        yield Line(f"source interface {port} {way}")
    if session.filters:
        yield Line(f"filter access-group {list_name(session.name)}")
    if session.destination.startswith(ERSPAN):
        yield Line(f"erspan-id {number}")
        yield Line("vrf default")
        yield Line(f"destination ip {session.destination.removeprefix(ERSPAN)}")
    else:
        yield Line(f"destination interface {session.destination}")
    yield Line("no shut")
    yield Line("exit", then=_ROOT)


def _list_block(place: int, session: MirrorSession) -> Block:
    word, name = ("ipv6" if family_of(session) == 6 else "ip"), list_name(session.name)
    entries = (Line(entry) for entry in entries_for(session.filters))
    lines = (Line(f"{word} access-list {name}", then="list"), *entries, Line("exit", then=_ROOT))
    return Block(place, lines, (Line(f"no {word} access-list {name}", may_fail=True),), f"access list {name}")


def _needs(session: MirrorSession, ports: dict[PortName, list[str]]) -> str:
    """What must be done to the destination port; notes it as done. Raises Unfit where it is in use."""
    lines = ports.get(session.destination, [])
    used = [line for line in lines if line.startswith(("ip address", "ipv6 address", "channel-group", "vrf member"))]
    if used:
        raise Unfit(f"{session.name}: destination {session.destination} is in use: {used[0]}")
    flags = "s" * ("no switchport" in lines) + "m" * ("switchport monitor" not in lines) + "u" * ("shutdown" in lines)
    ports[session.destination] = [line for line in lines if line not in ("no switchport", "shutdown")]
    ports[session.destination].append("switchport monitor")
    return flags


def _forget(ports: dict[PortName, list[str]], port: PortName, flags: str) -> None:
    """The configuration of a port after its session is gone."""
    lines = ports.get(port, [])
    if "m" in flags:
        lines = [line for line in lines if line != "switchport monitor"]
    ports[port] = lines + ["no switchport"] * ("s" in flags) + ["shutdown"] * ("u" in flags)


def _port_block(place: int, port: PortName, flags: str) -> Block:
    words = {"s": "switchport", "m": "switchport monitor", "u": "no shutdown"}
    doing = [Line(words[flag]) for flag in "smu" if flag in flags]
    enter, leave = Line(f"interface {port}", then="port"), Line("exit", then=_ROOT)
    undoing = [Line(_UNDO[flag], may_fail=True) for flag in "ums" if flag in flags]
    return Block(place, (enter, *doing, leave), (enter, *undoing, leave), f"port {port}")


def _heirs(session: MirrorSession, seen: NxosPicture) -> list[MirrorSession]:
    """Other sessions whose copies leave by the port that was prepared for this one; those of its job first."""
    port = seen.prepared.get(session.name, session.destination)
    heirs = [s for s in seen.sessions if s.destination == port and s.name != session.name]
    return sorted(heirs, key=lambda s: not is_owned(s.name, _job(session)))


def _job(session: MirrorSession) -> str:
    return session.name.rpartition("-")[0].removeprefix("fcn-")


def _bequeath(place: int, heir: MirrorSession, flags: str, port: PortName, seen: NxosPicture) -> Iterator[Block]:
    """Write into the description of another session of ours what was done to the port; nothing where it cannot be."""
    number, title = seen.numbers[heir.name], _title(heir.name, flags, port)
    if seen.flags.get(heir.name) or len(title) > _LONGEST:
        return
    enter = f"monitor session {number}" + (" type erspan-source" if number in seen.erspan else "")
    leave = Line("exit", then=_ROOT)
    back = (Line(f"{enter} ; description {heir.name}", then="session"), leave)
    yield Block(
        place, (Line(f"{enter} ; description {title}", then="session"), leave), back, f"monitor session {number}"
    )


def _delete(place: int, session: MirrorSession, number: int, flags: str, seen: NxosPicture) -> Iterator[Block]:
    enter = f"monitor session {number}" + (" type erspan-source" if number in seen.erspan else "")
    again = tuple(_body(session, number, enter)) if session.sources and session.destination else ()
    port = seen.prepared.get(session.name, session.destination)
    if flags or session.filters:
        loosen = [Line(enter, then="session"), Line("shut")]
        loosen += [Line(f"no destination interface {session.destination}")] if flags and session.destination else []
        loosen += [Line(f"no filter access-group {list_name(session.name)}")] if session.filters else []
        yield Block(place, (*loosen, Line("exit", then=_ROOT)), again, f"monitor session {number}")
    # What other copies leave by now stays as it is; of ours, the other session remembers how the port was.
    heirs = _heirs(session, seen)
    if flags and heirs and is_owned(heirs[0].name, _job(session)):
        yield from _bequeath(place, heirs[0], flags, port, seen)
    if flags and not heirs:
        block = _port_block(place, port, flags)
        yield Block(place, block.undo, block.lines, block.name)
    for family in seen.lists.get(session.name, ()):
        made = _list_block(place, session).lines if session.filters else ()
        word = "ipv6" if family == 6 else "ip"
        lines = (Line(f"no {word} access-list {list_name(session.name)}"),)
        yield Block(place, lines, made, f"access list {session.name}")
    title = _title(session.name, flags, port)
    back = (Line(f"{enter} ; description {title}", then="session"), Line("exit", then=_ROOT), *again)
    yield Block(place, (Line(f"no monitor session {number}"),), back, f"monitor session {number}")
