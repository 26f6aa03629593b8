"""Arista EOS: named monitor sessions, changed in a configuration session that is committed at once.

Sources: the AVD configuration in the samples, Arista's manual (ports, monitor sessions, configuration sessions) and its
notes on mirroring to GRE tunnels and on filtered mirroring; `show configuration sessions detail` as EOS 4.35 prints it.
"""

from collections.abc import Iterator, Sequence

from flowcheck_net.drivers.dialects.access_lists import entries_for, family_of, list_name, refuse_strays
from flowcheck_net.drivers.dialects.base import Answers, Block, Line, Mode, Purpose, Site, Transaction, Unfit, Words
from flowcheck_net.drivers.dialects.eos_read import (
    COUNTERS,
    LISTS,
    PENDING,
    REBOOT,
    SESSIONS,
    STATUS,
    WORKING,
    EosPicture,
    picture_of,
)
from flowcheck_net.drivers.dialects.text import ERSPAN, by_port
from flowcheck_net.intent import MirrorSession, Step, StepKind

_WORD = {4: "ip", 6: "ipv6"}


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
            commit=(Line("commit timer 00:{mm}:00", then="exec"),),
            abort=(Line("configure session {name}", then="session"), Line("abort", then="exec")),
            diff="show session-config diffs",
            timed=True,
            confirm=(Line("configure session {name} commit"),),
        ),
        save=(Line("write memory"),),
    )

    def ask(self, purpose: Purpose, steps: Sequence[Step], answers: Answers, site: Site) -> Sequence[str]:
        """Sessions with their access lists, what our own earlier writes left, how links and sessions fare."""
        del steps, site
        counting = [COUNTERS] if purpose is Purpose.COUNT else []
        wanted = [SESSIONS, LISTS, PENDING, REBOOT, WORKING, STATUS, *counting]
        return [command for command in wanted if command not in answers]

    def parse(self, answers: Answers, site: Site) -> EosPicture:
        """What is there; see ``eos_read``."""
        return picture_of(answers, site)

    def render(self, steps: Sequence[Step], seen: EosPicture, site: Site) -> Sequence[Block]:
        """One block a step."""
        if seen.rival:
            raise Unfit(f"the commit of somebody else's configuration session {seen.rival} waits for its confirmation")
        refuse_strays(steps, {name for _, name in seen.lists})
        return [
            Block(place, tuple(_lines(step, seen, site)), name=step.session.name) for place, step in enumerate(steps)
        ]


EOS = _Eos()


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
        raise Unfit(f"{session.name}: the address that its copies come from is not known: add origin=ADDRESS")
    vrf = f" vrf {site.vrf}" if site.vrf else ""
    return f"tunnel mode gre source {site.origin} destination {session.destination.removeprefix(ERSPAN)}{vrf}"
