"""Devices are asked what they hear and mirror -> a survey, judged like any other source of cables."""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flowcheck_net.drivers.base import Driver, Surveyor
from flowcheck_net.errors import FlowcheckError
from flowcheck_net.ids import SwitchName
from flowcheck_net.importers.cables import Cable, Finding, FindingKind, Role, Source, Survey
from flowcheck_net.importers.lldp import Report
from flowcheck_net.importers.lldp_read import read_lldp
from flowcheck_net.importers.names import port_key
from flowcheck_net.importers.options import Choice, Options
from flowcheck_net.importers.run import Graph
from flowcheck_net.intent import MirrorSession, Surroundings, SwitchAddress
from flowcheck_net.spec.inventory import Inventory, InventoryDevice

_AT_ONCE = 16
JOB = "discover"
"""A job that nobody has: every session that is there is read as somebody else's."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one device said."""

    device: InventoryDevice
    surroundings: Surroundings | None = None
    sessions: tuple[MirrorSession, ...] = ()
    silent: str = ""
    """Why it did not answer; empty: it did."""
    unread: str = ""
    """Why its mirror sessions are not known; empty: they are."""


def ask_all(inventory: Inventory, opened: Callable[[SwitchAddress], Driver]) -> list[Answer]:
    """Ask every device, several at once; one that does not answer is an answer too."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(lambda device: _ask(device, opened), inventory.devices))


def survey_of(answers: Sequence[Answer], folder: Path, inventory: Path) -> Survey:
    """Keep what the devices said as files of ``folder``, and read it.

    Raises:
        SpecError: an answer that is no LLDP report.
    """
    findings = [_silence(a, inventory) for a in answers if a.silent]
    findings += [
        Finding(
            Source(str(inventory)), FindingKind.HINT, f"{a.device.name}: its mirror sessions are not known: {a.unread}"
        )
        for a in answers
        if a.unread
    ]
    reports = []
    for answer in answers:
        if answer.surroundings is not None:
            reports.append(_keep(answer.device.name, answer.surroundings.neighbors, folder))
    heard = read_lldp(reports)
    spoken = {c.source.file for c in heard.cables} | {f.source.file for f in heard.findings}
    for report in (r for r in reports if str(r.path) not in spoken):
        text = f"{report.device} hears no neighbour"
        findings.append(
            Finding(Source(str(report.path)), FindingKind.UNREADABLE, text, "is LLDP on, and lldpd running?")
        )
    speeds = {a.device.name: _speeds(a) for a in answers}
    cables = tuple(_with_speed(cable, speeds) for cable in heard.cables)
    files = tuple(file for file in heard.files if file in spoken)
    return replace(heard, name="discovered", cables=cables, files=files, findings=(*heard.findings, *findings))


def answers_of(inventory: Inventory, given: Options) -> Options:
    """What the inventory says itself, before what the user says for the rest."""

    def named(role: Role) -> tuple[str, ...]:
        return tuple(d.name for d in inventory.devices if d.role == role.value)

    return replace(
        given,
        switch=(*named(Role.SWITCH), *given.switch),
        host=(*named(Role.HOST), *given.host),
        checkpoint=(*named(Role.CHECKPOINT), *given.checkpoint),
        platform=(*(Choice(d.name, d.platform) for d in inventory.devices), *given.platform),
        management=(*(Choice(d.name, d.management) for d in inventory.devices), *given.management),
    )


def with_sessions(graph: Graph, answers: Sequence[Answer]) -> Graph:
    """The topology with the mirror sessions of others that were found."""
    sessions = {a.device.name: a.sessions for a in answers}
    document = dict(graph.imported.document)
    switches = document.get("switches")
    if isinstance(switches, list):  # else there is none, and the user is to fill it in
        document["switches"] = [_with_foreign(s, sessions.get(s["name"], ())) for s in switches]
    return replace(graph, imported=replace(graph.imported, document=document))


def _ask(device: InventoryDevice, opened: Callable[[SwitchAddress], Driver]) -> Answer:
    try:
        with opened(SwitchAddress(SwitchName(device.name), device.platform, device.management)) as driver:
            if not isinstance(driver, Surveyor):
                kind = device.management.partition(":")[0]
                return Answer(device, silent=f"a driver of kind {kind} cannot be asked for neighbours")
            around = driver.surroundings()
            if device.role != Role.SWITCH.value:
                return Answer(device, around)
            try:
                return Answer(device, around, driver.read().foreign)
            except FlowcheckError as error:
                return Answer(device, around, unread=error.message)
    except FlowcheckError as error:
        return Answer(device, silent=error.message)


def _silence(answer: Answer, inventory: Path) -> Finding:
    text = f"{answer.device.name} did not answer: {answer.silent}"
    return Finding(
        Source(str(inventory)), FindingKind.UNREADABLE, text, "its cables are known from the other ends at most"
    )


def _keep(name: str, text: str, folder: Path) -> Report:
    is_json = text.lstrip()[:1] == "{" and text.rstrip()[-1:] == "}"
    path = folder / f"{name}.{'json' if is_json else 'txt'}"
    path.write_text(text if not is_json else json.dumps(json.loads(text), indent=1) + "\n", encoding="utf-8")
    return Report(path, name)


def _speeds(answer: Answer) -> dict[str, str]:
    """Port, by its key -> speed in the words of our files."""
    told = answer.surroundings.speeds if answer.surroundings else {}
    return {port_key(port): f"{mbit // 1000}G" for port, mbit in told.items() if mbit >= 1000}


def _with_speed(cable: Cable, speeds: Mapping[str, Mapping[str, str]]) -> Cable:
    speed = speeds.get(cable.a.device, {}).get(port_key(cable.a.port))
    return replace(cable, speed=speed) if speed is not None else cable


def _with_foreign(switch: Mapping[str, Any], sessions: Sequence[MirrorSession]) -> dict[str, Any]:
    """Sessions of any job of flowcheck-net are left out: which job this topology is for is not known here."""
    foreign = [s for s in sessions if not s.name.startswith(("fcn-", "flowcheck-net-"))]
    if not foreign:
        return dict(switch)
    rows = [
        {"name": s.name, "sources": [f"{e.port}:{e.direction.value}" for e in s.sources], "destination": s.destination}
        for s in foreign
    ]
    return {**switch, "foreign_sessions": rows}
