"""Filters of a machine -> mirror sessions, ours as they are whatever has become of them; and remarks. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flowcheck_net.drivers.tc_filters import Filter, Link, Machine, owner_of, session_digest
from flowcheck_net.drivers.tc_match import Unknown
from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import (
    FlowFilter,
    MirrorSession,
    MirrorSource,
    Remark,
    RemarkKind,
    SessionSource,
    is_owned,
)

NOWHERE = PortName("(none)")
_UNSHAPED = {"noqueue", "mq", "pfifo_fast", "pfifo", "bfifo", "fq", "fq_codel", "fq_pie", "sfq", "clsact", "ingress"}
"""Qdiscs that set no rate."""


@dataclass(frozen=True, slots=True)
class Found:
    """One session of ours, with the filters that it is made of."""

    session: MirrorSession
    filters: tuple[Filter, ...]
    untold: tuple[str, ...]
    """What is there and does not fit into the words of a session."""

    @property
    def whole(self) -> bool:
        """Is it as we wrote it?"""
        return not self.untold and {f.cookie.digest for f in self.filters if f.cookie} == {session_digest(self.session)}

    def packets(self) -> int:
        """Copies made."""
        return sum(f.packets - f.failed for f in self.filters)

    def by_source(self) -> dict[SessionSource, int]:
        """Copies made, of each source."""
        counts = {SessionSource(self.session.name, s): 0 for s in self.session.sources}
        for each in self.filters:
            place = SessionSource(self.session.name, MirrorSource(each.port, each.direction))
            counts[place] = counts.get(place, 0) + each.packets - each.failed
        return counts


def find(machine: Machine, job: str) -> dict[SessionName, Found]:
    """Every session of flowcheck-net by name, of whatever job."""
    grouped: dict[SessionName, list[Filter]] = {}
    for each in machine.filters:
        if each.cookie is not None:
            grouped.setdefault(owner_of(each.cookie, job), []).append(each)
    return {name: _found(name, filters) for name, filters in sorted(grouped.items())}


def foreign_of(machine: Machine) -> list[MirrorSession]:
    """Everybody else's filters that copy or redirect packets, each as a session."""
    return [
        MirrorSession(
            SessionName(f"tc:{f.port}:{f.direction.value}:{f.pref}:{f.handle}"),
            (MirrorSource(f.port, f.direction),),
            f.mirrors_to,
            (f.match,) if isinstance(f.match, FlowFilter) else (),
        )
        for f in machine.filters
        if f.cookie is None and f.mirrors_to is not None
    ]


def remarks_on(machine: Machine, found: Mapping[SessionName, Found], job: str) -> list[Remark]:
    """Everything worth saying about the sessions of our job and their ports."""
    ours = [f for f in found.values() if is_owned(f.session.name, job)]
    return [r for each in ours for r in (*_session(each), *_destination(machine, each), *_sources(machine, each))]


def _found(name: SessionName, filters: list[Filter]) -> Found:
    """Every pair stands at every source; what lacks one is read without that pair."""
    untold = [f.match.text for f in filters if isinstance(f.match, Unknown)]
    untold += [f"a filter at {f.port} does not simply copy" for f in filters if not f.copies]
    told = [f for f in filters if not isinstance(f.match, Unknown) and f.copies]
    at: dict[MirrorSource, set[FlowFilter | None]] = {}
    for each in told:
        if not isinstance(each.match, Unknown):
            at.setdefault(MirrorSource(each.port, each.direction), set()).add(each.match)
    common = set.intersection(*at.values()) if at else set()
    if any(pairs != common for pairs in at.values()):
        untold.append("its sources are not filtered alike")
    places = {f.mirrors_to for f in filters if f.mirrors_to}
    if len(places) > 1:
        untold.append(f"its copies go to {', '.join(sorted(places))}")
    pairs = tuple(p for p in common if p is not None)
    if None in common and pairs:
        untold.append("it copies everything, and some packets twice")
    # Without a common match the words would say that everything is copied.
    sources = tuple(at) if common else ()
    destination = min(places) if places else NOWHERE
    return Found(MirrorSession(name, sources, destination, pairs), tuple(filters), tuple(untold))


def _session(found: Found) -> Iterable[Remark]:
    name = found.session.name
    for text in sorted(set(found.untold)):
        yield Remark(RemarkKind.OTHER, text, name)
    if not found.untold and not found.whole:
        yield Remark(
            RemarkKind.OTHER, "it is not as we wrote it any more: filters or sources are gone or changed", name
        )
    if failed := sum(f.failed for f in found.filters):
        yield Remark(RemarkKind.OTHER, f"{failed} copies could not be sent", name, found.session.destination)


def _destination(machine: Machine, found: Found) -> Iterable[Remark]:
    name, port = found.session.name, found.session.destination
    link = machine.links.get(port)
    if link is None:
        yield Remark(RemarkKind.INACTIVE, f"there is no interface {port}: nothing is copied", name)
        return
    if link.down:
        yield Remark(RemarkKind.DESTINATION_DOWN, f"{port} has no link", name, port)
    if link.addresses:
        yield Remark(
            RemarkKind.RESERVED_PORT,
            f"{port} has the address {link.addresses[0]}: not only copies leave there",
            name,
            port,
        )
    if link.bridge:
        yield Remark(
            RemarkKind.RESERVED_PORT, f"{port} belongs to {link.bridge}: not only copies leave there", name, port
        )
    if shaped := [k for k in machine.qdiscs.get(port, ()) if k not in _UNSHAPED]:
        yield Remark(RemarkKind.POLICER, f"{port} has a qdisc {shaped[0]}: copies above its rate are lost", name, port)
    watched = [machine.links[s.port] for s in found.session.sources if s.port in machine.links]
    if longer := [w for w in watched if w.mtu > link.mtu]:
        text = f"{longer[0].name} has MTU {longer[0].mtu}, {port} {link.mtu}: copies of longer packets are lost"
        yield Remark(RemarkKind.OTHER, text, name, port)


def _sources(machine: Machine, found: Found) -> Iterable[Remark]:
    name = found.session.name
    for source in found.session.sources:
        link = machine.links.get(source.port)
        if link is None or link.down:
            yield Remark(RemarkKind.SOURCE_DOWN, f"{source.port} has no link", name, source.port)
        if link is not None and link.hardware:
            yield from _in_software(link, found, source)
        own = [f.pref for f in found.filters if (f.port, f.direction) == (source.port, source.direction)]
        before = [
            f for f in machine.at(source.port, source.direction) if f.cookie is None and f.pref < max(own, default=0)
        ]
        if before:
            text = (
                f"{len(before)} filters of others stand before ours at {source.port} (preference {before[0].pref}, "
                f"{before[0].kind}): packets that they end with are not copied"
            )
            yield Remark(RemarkKind.OTHER, text, name, source.port)


def _in_software(link: Link, found: Found, source: MirrorSource) -> Iterable[Remark]:
    if any(f.port == source.port and not f.in_hardware for f in found.filters):
        text = (
            f"{link.name} is a port of a switch chip, and the filter is not in hardware: forwarded packets pass unseen"
        )
        yield Remark(RemarkKind.INACTIVE, text, found.session.name, source.port)
