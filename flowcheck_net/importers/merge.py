"""The one judge of all importers: statements about cables -> cables that are proven, and findings about the rest.

A cable is proven when a source states it whole, or when both of its devices report it, and when neither of its ports
is in another cable. Nothing else becomes a link, unless the caller accepts what only one side reports.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from flowcheck_net.importers.cables import Cable, Device, Finding, FindingKind, Link, PortRef, Survey
from flowcheck_net.importers.devices import DeviceNames
from flowcheck_net.importers.names import longest_spelling, natural, port_key
from flowcheck_net.importers.resolve import Resolver

Pair = tuple[PortRef, PortRef]
"""Both ends of a cable by device name and port key, in order."""


@dataclass(frozen=True, slots=True)
class Merged:
    """What can be trusted, and everything that cannot."""

    devices: tuple[Device, ...]
    """Every device once, under the fullest name that is known of it."""
    links: tuple[Link, ...]
    """The proven cables in the devices' own spelling of their ports, in natural order."""
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class _Statement:
    """One statement about a cable, after its names are known."""

    pair: Pair
    cable: Cable
    reporter: str
    """Device that reports the cable; empty where the source states it whole."""


def merge(survey: Survey, *, accept_one_sided: bool = False) -> Merged:
    """Judge the cables of a survey.

    Args:
        survey: what a reader got.
        accept_one_sided: let a cable pass that only one device reports, where the other device gave no report at all. A
            report that is silent about a cable still refutes it.
    """
    findings: list[Finding] = []
    names = DeviceNames(survey.devices, findings)
    resolver = Resolver(survey.cables, names, findings)
    statements = [
        _Statement(_pair(*ends), cable, ends[0].device if cable.reported_by_a else "")
        for cable in survey.cables
        if (ends := resolver.ends(cable)) is not None
    ]
    by_pair = _by_pair(statements)
    clashing = _clashes(by_pair, findings)
    spelling = _spellings(survey.cables, names)
    links = []
    for pair, said in by_pair.items():
        if pair in clashing or not _is_proven(pair, said, names, accept_one_sided, findings):
            continue
        links.append(_link(pair, said, spelling, findings))
    links.sort(key=lambda link: [(natural(end.device), natural(end.port)) for end in link.ends])
    return Merged(names.devices(), tuple(links), tuple(sorted({*survey.findings, *findings})))


def _pair(one: PortRef, other: PortRef) -> Pair:
    return (one, other) if one <= other else (other, one)


def _by_pair(statements: Iterable[_Statement]) -> dict[Pair, list[_Statement]]:
    grouped: dict[Pair, list[_Statement]] = {}
    for statement in statements:
        grouped.setdefault(statement.pair, []).append(statement)
    return grouped


def _clashes(by_pair: Mapping[Pair, Sequence[_Statement]], findings: list[Finding]) -> set[Pair]:
    """Cables that share a port with another cable, or that lead from a device to itself: none of them is believed."""
    cables_of: dict[PortRef, list[Pair]] = {}
    clashing: set[Pair] = set()
    for pair, said in by_pair.items():
        if pair[0].device == pair[1].device:
            message = f"{said[0].cable} connects a device with itself"
            findings.append(
                Finding(said[0].cable.source, FindingKind.CONFLICT, message, "remove the loop, or --exclude it")
            )
            clashing.add(pair)
        for end in pair:
            cables_of.setdefault(end, []).append(pair)
    for end, pairs in cables_of.items():
        distinct = list(dict.fromkeys(pairs))
        if len(distinct) > 1:
            cables = sorted((by_pair[pair][0].cable for pair in distinct), key=lambda cable: cable.source)
            listed = " and ".join(f"{cable} ({cable.source})" for cable in cables)
            message = f"port {end} has {len(distinct)} cables: {listed}"
            findings.append(
                Finding(cables[0].source, FindingKind.CONFLICT, message, "correct the source that is wrong")
            )
            clashing.update(distinct)
    return clashing


def _is_proven(
    pair: Pair, said: Sequence[_Statement], names: DeviceNames, accept_one_sided: bool, findings: list[Finding]
) -> bool:
    reporters = {statement.reporter for statement in said}
    if "" in reporters or len(reporters) > 1:
        return True
    reporter = next(iter(reporters))
    silent = next(end for end in pair if end.device != reporter)
    first = said[0].cable
    if names.reports(silent.device):
        message = f"{reporter} reports {first}, but the report of {silent.device} does not have it"
        findings.append(Finding(first.source, FindingKind.ONE_SIDED, message, "collect both reports anew"))
        return False
    if accept_one_sided:
        message = f"{first} is reported by {reporter} only"
        findings.append(Finding(first.source, FindingKind.ASSUMED, message))
        return True
    message = f"{reporter} reports {first}; there is no report of {silent.device}"
    cure = f"add the report of {silent.device}, or accept it with --accept-one-sided"
    findings.append(Finding(first.source, FindingKind.ONE_SIDED, message, cure))
    return False


def _spellings(cables: Iterable[Cable], names: DeviceNames) -> dict[PortRef, str]:
    """The fullest spelling of every port that any statement has."""
    found: dict[PortRef, set[str]] = {}
    for cable in cables:
        for end in (cable.a, cable.b):
            for word in (end.port, end.description):
                found.setdefault(PortRef(names.name(end.device), port_key(word)), set()).add(word)
    return {port: longest_spelling(words) for port, words in found.items()}


def _link(pair: Pair, said: Sequence[_Statement], spelling: Mapping[PortRef, str], findings: list[Finding]) -> Link:
    first = min(said, key=lambda statement: statement.cable.source).cable
    speeds = sorted({statement.cable.speed for statement in said if statement.cable.speed is not None}, key=natural)
    if len(speeds) > 1:
        message = f"{first} runs at {' and at '.join(speeds)}, depending on which end is asked"
        findings.append(Finding(first.source, FindingKind.CONFLICT, message, "both ends run at one speed"))
    one, other = (PortRef(end.device, spelling.get(end, end.port)) for end in pair)
    return Link(one, other, speeds[0] if len(speeds) == 1 else None, first.source)
