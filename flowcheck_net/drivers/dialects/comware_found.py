"""Mirror sessions of a Comware switch, composed of its groups, policies and labels. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flowcheck_net.drivers.dialects.comware_text import WAYS, Configuration, Group
from flowcheck_net.drivers.dialects.labels import NOWHERE, PREFIX, Label, owners, read_label
from flowcheck_net.drivers.dialects.roce_rules import read_rules
from flowcheck_net.drivers.dialects.sections import split_port
from flowcheck_net.ids import PortName, SessionName
from flowcheck_net.intent import FlowFilter, MirrorSession, MirrorSource, Remark, RemarkKind, is_owned


@dataclass(frozen=True, slots=True)
class Flow:
    """A policy that mirrors, where it is applied."""

    policy: str
    destination: PortName
    sources: tuple[MirrorSource, ...]
    filters: tuple[FlowFilter, ...]
    strange: tuple[str, ...]
    """What it does beside that, in its own words."""


def read_labels(configuration: Configuration) -> dict[SessionName, Label]:
    """The labels of all our jobs."""
    found = {}
    for name, acl in configuration.acls.items():
        text = next((line.removeprefix("description ") for line in acl.lines if line.startswith("description ")), "")
        if name.startswith(PREFIX) and (label := read_label(text)):
            found[SessionName(name)] = label
    return found


def unwritten_labels(configuration: Configuration, job: str) -> frozenset[str]:
    """Lists of the name of a session of ours, empty and used nowhere: labels whose writing was cut off."""
    used = {word for section in configuration.interfaces.values() for line in section.lines for word in line.split()}
    empty = (name for name, acl in configuration.acls.items() if not acl.lines)
    return frozenset(name for name in empty if is_owned(name, job) and name not in used)


def destination_of(group: Group) -> PortName:
    """A port, or ``erspan:ADDRESS``."""
    if address := group.tunnel.get("destination ip address"):
        return PortName(f"erspan:{address}")
    return group.monitors[0] if group.monitors else NOWHERE


def read_flows(configuration: Configuration) -> dict[str, Flow]:
    """Policies with a behaviour that mirrors, by name."""
    found = {}
    for name, policy in configuration.policies.items():
        pairs = [
            line.split()[1:4:2] for line in policy.lines if line.startswith("classifier ") and " behavior " in line
        ]
        mirrors = [(kind, target) for kind, behaviour in pairs if (target := _target(configuration, behaviour))]
        if not mirrors:
            continue
        filters: list[FlowFilter] = []
        strange = [f"{len(pairs)} classes are in its policy"] if len(pairs) > 1 else []
        for kind, _ in mirrors:
            of_class, odd = _matches(configuration, kind)
            filters += of_class
            strange += odd
        found[name] = Flow(name, mirrors[0][1], tuple(_applied(configuration, name)), tuple(filters), tuple(strange))
    return found


def _target(configuration: Configuration, behaviour: str) -> PortName | None:
    section = configuration.behaviours.get(behaviour)
    for line in section.lines if section else ():
        words = line.split()
        if words[:2] == ["mirror-to", "interface"]:
            return PortName(
                f"erspan:{words[words.index('destination-ip') + 1]}" if "destination-ip" in words else words[2]
            )
        if words[:1] == ["mirror-to"]:
            return PortName(" ".join(words[1:]))
    return None


def _matches(configuration: Configuration, classifier: str) -> tuple[list[FlowFilter], list[str]]:
    section = configuration.classifiers.get(classifier)
    if section is None:
        return [], [f"its class {classifier} is gone"]
    filters: list[FlowFilter] = []
    strange: list[str] = []
    for line in section.lines:
        acls = configuration.acls6 if line.startswith("if-match acl ipv6 name ") else configuration.acls
        if not line.startswith(("if-match acl name ", "if-match acl ipv6 name ")) or line.split()[-1] not in acls:
            strange.append(line)
            continue
        pairs, odd = read_rules(acls[line.split()[-1]].lines)
        filters += pairs
        strange += odd
    return filters, strange


def _applied(configuration: Configuration, policy: str) -> Iterator[MirrorSource]:
    for port, section in configuration.interfaces.items():
        for way in ("inbound", "outbound"):
            if f"qos apply policy {policy} {way}" in section.lines:
                yield MirrorSource(port, WAYS[way][0])


def group_owners(groups: Mapping[int, Group], labels: Mapping[SessionName, Label]) -> dict[int, SessionName]:
    """Group -> session of ours."""
    # Our lines give a group its monitor port before its sources.
    known = {n: g for n, g in groups.items() if destination_of(g) != NOWHERE or not g.sources}
    return owners(labels, {number: destination_of(group) for number, group in known.items()})


def compose(
    groups: Mapping[int, Group], flows: Mapping[str, Flow], labels: Mapping[SessionName, Label]
) -> Iterator[MirrorSession]:
    """All sessions: ours by name, groups and policies of others by number and name."""
    ours = group_owners(groups, labels)
    for number, group in groups.items():
        name = ours.get(number, SessionName(f"mirroring-group-{number}"))
        yield MirrorSession(name, group.sources, destination_of(group))
    for policy, flow in flows.items():
        if SessionName(policy) not in labels:
            yield MirrorSession(SessionName(f"qos-policy-{policy}"), flow.sources, flow.destination, flow.filters)
    for label_name, label in labels.items():
        if label_name in ours.values():
            continue
        # A label alone, or a flow session, perhaps half of one.
        own = flows.get(label_name)
        if own is None or label.ids:
            yield MirrorSession(label_name, (), label.destination)
        else:
            # Without a pair the words would say that everything is copied.
            yield MirrorSession(label_name, own.sources if own.filters else (), own.destination, own.filters)


def remarks_on(
    groups: Mapping[int, Group],
    flows: Mapping[str, Flow],
    labels: Mapping[SessionName, Label],
    configuration: Configuration,
    links: Mapping[str, str],
) -> Iterator[Remark]:
    """What makes our sessions less than whole copies."""
    ours = group_owners(groups, labels)
    for number, name in ours.items():
        group = groups[number]
        yield from _on_group(group, name, configuration)
        yield from _on_links(name, group.sources, destination_of(group), links)
    for name, label in labels.items():
        own = flows.get(name)
        if name in ours.values():
            continue
        if own is None or label.ids or not own.sources:
            yield Remark(
                RemarkKind.INACTIVE, "only its label is there, or a part of its policy: nothing is copied", name
            )
            continue
        if own.strange:
            yield Remark(RemarkKind.FILTER, f"not as we write it: {'; '.join(own.strange)}", name)
        yield from _on_links(name, own.sources, own.destination, links)


def _on_group(group: Group, name: SessionName, configuration: Configuration) -> Iterator[Remark]:
    if group.status != "active":
        yield Remark(RemarkKind.INACTIVE, f"mirroring group {group.id} is {group.status or 'of unknown status'}", name)
    if group.kind != "local":
        yield Remark(RemarkKind.OTHER, f"mirroring group {group.id} is of type {group.kind or 'unknown'}", name)
    if len(group.monitors) > 1:
        text = f"copies are sent to {', '.join(group.monitors[1:])} as well"
        yield Remark(RemarkKind.OTHER, text, name)
    for text in group.others:
        yield Remark(RemarkKind.OTHER, f"not understood: {text}", name)
    for line in configuration.globals:
        words = line.split()
        if words[:2] == ["mirroring-group", str(group.id)] and "sampler" in words:
            yield Remark(RemarkKind.SAMPLING, f"only samples are copied ({line})", name)


def _on_links(
    name: SessionName, sources: tuple[MirrorSource, ...], destination: PortName, links: Mapping[str, str]
) -> Iterator[Remark]:
    if (link := _link(destination, links)) not in ("UP", ""):
        yield Remark(RemarkKind.DESTINATION_DOWN, f"{destination} is {link}", name, destination)
    for port in sorted({source.port for source in sources}):
        if (link := _link(port, links)) not in ("UP", ""):
            yield Remark(RemarkKind.SOURCE_DOWN, f"{port} is {link}", name, port)


def _link(port: PortName, links: Mapping[str, str]) -> str:
    """Empty: not known."""
    try:
        return links.get(split_port(port)[1], "")
    except ValueError:
        return ""
