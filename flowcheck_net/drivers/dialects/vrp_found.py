"""Mirror sessions of a CloudEngine, composed of its observing ports, policies and labels. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flowcheck_net.drivers.dialects.labels import PREFIX, Label, owners, read_label
from flowcheck_net.drivers.dialects.roce_rules import read_rules
from flowcheck_net.drivers.dialects.vrp_text import WAYS, Configuration, InEffect, Observer
from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import FlowFilter, MirrorSession, MirrorSource, Remark, RemarkKind


@dataclass(frozen=True, slots=True)
class Flow:
    """A policy that mirrors, where it is applied."""

    observer: int
    behaviour: str
    sources: tuple[MirrorSource, ...]
    filters: tuple[FlowFilter, ...]
    strange: tuple[str, ...]
    """What it does beside that, in its own words."""


@dataclass(frozen=True, slots=True)
class Found:
    """All that mirrors on a switch."""

    configuration: Configuration
    labels: Mapping[SessionName, Label]
    direct: Mapping[int, tuple[MirrorSource, ...]]
    """Observing port -> ports that are mirrored to it whole."""
    flows: Mapping[str, Flow]
    """By policy."""

    @property
    def ours(self) -> dict[int, SessionName]:
        """Observing port -> session of ours."""
        return owners(self.labels, {n: o.port for n, o in self.configuration.observers.items()})

    def flow_of(self, name: SessionName) -> Flow | None:
        """The flow policy of a session of ours."""
        flow = self.flows.get(name)
        return flow if flow and self.ours.get(flow.observer) == name else None


def find(configuration: Configuration) -> Found:
    """All that mirrors."""
    labels = {}
    for name, acl in configuration.acls.items():
        text = next((line.removeprefix("description ") for line in acl.lines if line.startswith("description ")), "")
        if name.startswith(PREFIX) and (label := read_label(text)):
            labels[SessionName(name)] = label
    direct: dict[int, tuple[MirrorSource, ...]] = {}
    for port, section in configuration.interfaces.items():
        for line in section.lines:
            words = line.split()
            if words[:2] == ["port-mirroring", "observe-port"] and words[2].isdigit():
                directions = WAYS.values() if words[3] == "both" else [WAYS[words[3]]]
                more = tuple(MirrorSource(port, direction) for direction in directions)
                direct[int(words[2])] = (*direct.get(int(words[2]), ()), *more)
    return Found(configuration, labels, direct, dict(_flows(configuration)))


def _flows(configuration: Configuration) -> Iterator[tuple[str, Flow]]:
    for name, policy in configuration.policies.items():
        pairs = [
            line.split()[1:4:2] for line in policy.lines if line.startswith("classifier ") and " behavior " in line
        ]
        for kind, behaviour in pairs:
            observer = _observer_of(configuration, behaviour)
            if observer is None:
                continue
            filters, strange = _matches(configuration, kind)
            if len(pairs) > 1:
                strange.append(f"{len(pairs)} classes are in its policy")
            yield name, Flow(observer, behaviour, tuple(_applied(configuration, name)), tuple(filters), tuple(strange))


def _observer_of(configuration: Configuration, behaviour: str) -> int | None:
    section = configuration.behaviours.get(behaviour)
    for line in section.lines if section else ():
        words = line.split()
        if words[:2] == ["mirroring", "observe-port"] and words[2].isdigit():
            return int(words[2])
    return None


def _matches(configuration: Configuration, classifier: str) -> tuple[list[FlowFilter], list[str]]:
    section = configuration.classifiers.get(classifier)
    if section is None:
        return [], [f"its class {classifier} is gone"]
    filters: list[FlowFilter] = []
    strange: list[str] = []
    for line in section.lines:
        acls = configuration.acls6 if line.startswith("if-match ipv6 acl ") else configuration.acls
        if not line.startswith(("if-match acl ", "if-match ipv6 acl ")) or line.split()[-1] not in acls:
            strange.append(line)
            continue
        pairs, odd = read_rules(acls[line.split()[-1]].lines)
        filters += pairs
        strange += odd
    return filters, strange


def _applied(configuration: Configuration, policy: str) -> Iterator[MirrorSource]:
    for port, section in configuration.interfaces.items():
        for word, direction in WAYS.items():
            if f"traffic-policy {policy} {word}" in section.lines:
                yield MirrorSource(port, direction)


def compose(found: Found) -> Iterator[MirrorSession]:
    """All sessions: ours by name, observing ports and groups of others by number."""
    ours = found.ours
    for number, observer in found.configuration.observers.items():
        name = ours.get(number)
        direct = found.direct.get(number, ())
        flows = [flow for flow in found.flows.values() if flow.observer == number]
        through = tuple(source for flow in flows for source in flow.sources)
        pairs = tuple(pair for flow in flows for pair in flow.filters)
        if name is None:
            filters = () if direct else pairs
            yield MirrorSession(SessionName(f"observe-port-{number}"), direct + through, observer.port, filters)
        elif direct or not flows:
            yield MirrorSession(name, direct, observer.port)
        else:
            # Without a pair the words would say that everything is copied.
            yield MirrorSession(name, through if pairs else (), observer.port, pairs)
    for number, members in found.configuration.groups.items():
        to = members[0] if members else PortName("(none)")
        yield MirrorSession(SessionName(f"observe-port-group-{number}"), tuple(_of_group(found, number)), to)
    for name, label in found.labels.items():
        if name not in ours.values():
            yield MirrorSession(name, (), label.destination)


def _of_group(found: Found, number: int) -> Iterator[MirrorSource]:
    for port, section in found.configuration.interfaces.items():
        for line in section.lines:
            words = line.split()
            if words[:4] == ["port-mirroring", "observe-port", "group", str(number)]:
                for direction in WAYS.values() if words[4] == "both" else [WAYS[words[4]]]:
                    yield MirrorSource(port, direction)


def remarks_on(found: Found, in_effect: InEffect, links: Mapping[PortName, str]) -> Iterator[Remark]:
    """What makes our sessions less than whole copies."""
    ours = found.ours
    for name in found.labels:
        if name not in ours.values():
            yield Remark(RemarkKind.INACTIVE, "only its label is there: nothing is copied", name)
    for number, name in ours.items():
        observer, direct, flow = (
            found.configuration.observers[number],
            found.direct.get(number, ()),
            found.flow_of(name),
        )
        yield from _on_observer(observer, name, found.configuration.truncation)
        others = sorted(p for p, f in found.flows.items() if f.observer == number and p != name)
        if others or (flow and direct):
            yield Remark(
                RemarkKind.OTHER, f"its observing port is used by {', '.join(others) or 'whole ports'} as well", name
            )
        if flow and flow.strange:
            yield Remark(RemarkKind.FILTER, f"not as we write it: {'; '.join(flow.strange)}", name)
        dead = [s for s in direct if (s, number) not in in_effect.ports]
        for source in dead:
            text = f"{source.port} {source.direction} is configured, and `display port-mirroring` does not have it"
            yield Remark(RemarkKind.INACTIVE, text, name, source.port)
        if flow and (flow.behaviour, number) not in in_effect.behaviours:
            yield Remark(RemarkKind.INACTIVE, f"behaviour {flow.behaviour} is not in `display port-mirroring`", name)
        if not direct and not (flow and flow.sources):
            yield Remark(RemarkKind.INACTIVE, f"nothing is mirrored to observing port {number}", name)
        yield from _on_links(name, direct or (flow.sources if flow else ()), observer.port, links)


def _on_observer(observer: Observer, name: SessionName, truncation: str) -> Iterator[Remark]:
    if "cir" in observer.rest.split():
        yield Remark(RemarkKind.POLICER, f"observing port {observer.id} has {observer.rest}", name)
    if "truncate" in observer.rest.split() or truncation:
        yield Remark(RemarkKind.TRUNCATION, f"copies are cut short ({truncation or observer.rest})", name)
    if observer.rest and not {"cir", "truncate"} & set(observer.rest.split()):
        yield Remark(RemarkKind.OTHER, f"observing port {observer.id}: {observer.rest}", name)


def _on_links(
    name: SessionName, sources: tuple[MirrorSource, ...], destination: PortName, links: Mapping[PortName, str]
) -> Iterator[Remark]:
    if (link := links.get(destination, "up")) != "up":
        yield Remark(RemarkKind.DESTINATION_DOWN, f"{destination} is {link}", name, destination)
    for port in sorted({source.port for source in sources}):
        if (link := links.get(port, "up")) != "up":
            yield Remark(RemarkKind.SOURCE_DOWN, f"{port} is {link}", name, port)
