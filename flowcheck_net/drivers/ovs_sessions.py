"""Rows and rules of a bridge -> mirror sessions: ours as they are, whatever has become of them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from flowcheck_net.drivers.ovs_bridge import NOWHERE, Bridge, Mirror
from flowcheck_net.drivers.ovs_flows import Rule, session_of
from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import Direction, MirrorSession, MirrorSource


@dataclass(frozen=True, slots=True)
class Found:
    """One session of ours, with all that it is made of."""

    session: MirrorSession
    mirrors: tuple[Mirror, ...]
    rules: tuple[Rule, ...]
    untold: str = ""
    """What is there and does not fit into the words of a session; empty: nothing."""

    def packets(self) -> int | None:
        """Copies made; None: the switch has not counted yet."""
        if self.rules:
            return sum(r.packets for r in self.rules)
        counts = [m.packets for m in self.mirrors if not m.by_flows]
        return None if not counts or None in counts else sum(c for c in counts if c is not None)

    def packets_by_source(self, bridge: Bridge) -> dict[MirrorSource, int]:
        """Copies by source: rules count each apart, a mirror row counts all of its sources together."""
        counts: dict[MirrorSource, int] = {}
        for rule in self.rules:
            source = MirrorSource(port_named(bridge, rule.port), Direction.RX)
            counts[source] = counts.get(source, 0) + rule.packets
        return counts


def find_owned(bridge: Bridge, rules: Sequence[Rule], job: str) -> dict[SessionName, Found]:
    """Our job's sessions by name. Rules whose row is gone are a session too, so that they can be removed."""
    by_session: dict[SessionName, tuple[Rule, ...]] = {}
    for rule in rules:
        if (name := session_of(rule.cookie, job)) is not None:
            by_session[name] = (*by_session.get(name, ()), rule)
    rows = bridge.sessions_of(job)
    return {
        name: _found(name, bridge, rows.get(name, ()), by_session.get(name, ()))
        for name in sorted(rows.keys() | by_session.keys())
    }


def port_named(bridge: Bridge, number: int) -> PortName:
    """The port with an OpenFlow number."""
    port = next((p for p in bridge.ports.values() if p.number == number), None)
    return port.name if port else PortName(f"port-number-{number}")


def _found(name: SessionName, bridge: Bridge, mirrors: tuple[Mirror, ...], rules: tuple[Rule, ...]) -> Found:
    if rules or any(m.by_flows for m in mirrors):
        return _of_rules(name, bridge, mirrors, rules)
    parts = [bridge.as_session(m) for m in mirrors]
    one = replace(parts[0], name=name, filters=tuple(f for p in parts for f in p.filters))
    alike = all((p.sources, p.destination, bool(p.filters)) == (one.sources, one.destination, bool(one.filters))
                for p in parts)  # fmt: skip
    if alike and (one.filters or len(parts) == 1):
        return Found(one, mirrors, ())
    # Several rows of one session that do not agree: no session that we write looks like that.
    return Found(replace(one, sources=(), filters=()), mirrors, (), f"its {len(parts)} mirror rows differ")


def _of_rules(name: SessionName, bridge: Bridge, mirrors: tuple[Mirror, ...], rules: tuple[Rule, ...]) -> Found:
    """A session of rules has every address pair at every source; what lacks one is read without that pair or source."""
    at: dict[PortName, set[object]] = {}
    for rule in rules:
        at.setdefault(port_named(bridge, rule.port), set()).add(rule.pair)
    pairs = tuple(sorted({r.pair for r in rules if all(r.pair in there for there in at.values())}))
    outputs = {r.output for r in rules}
    if len(outputs) == 1 and mirrors:
        row = bridge.as_session(mirrors[0])
        given = bridge.ports.get(mirrors[0].output)
        right = given is not None and given.number in outputs
        destination = row.destination if right else port_named(bridge, outputs.pop())
    elif mirrors and not rules:
        destination = bridge.as_session(mirrors[0]).destination
    else:
        destination = port_named(bridge, outputs.pop()) if len(outputs) == 1 else NOWHERE
    session = MirrorSession(
        name,
        # Without a pair the words would say that everything is copied.
        tuple(MirrorSource(port, Direction.RX) for port in sorted(at)) if pairs else (),
        destination,
        pairs or (mirrors[0].by_flows if mirrors else ()),
    )
    return Found(session, mirrors, rules, _untold(session, mirrors, rules))


def _untold(session: MirrorSession, mirrors: tuple[Mirror, ...], rules: tuple[Rule, ...]) -> str:
    if not mirrors:
        return f"{len(rules)} rules are there without their mirror row"
    if len(rules) > len(session.sources) * len(session.filters):
        return f"{len(rules)} rules are there, some of them not at every source"
    if len(mirrors) > 1 or mirrors[0].row["select_all"] or _selects(mirrors[0]):
        return "its mirror row selects ports as well"
    return ""


def _selects(mirror: Mirror) -> bool:
    return any(mirror.row[column] != ["set", []] for column in ("select_src_port", "select_dst_port"))
