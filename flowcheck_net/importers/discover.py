"""Devices are asked what they hear and mirror -> a survey, judged like any other source of cables."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from flowcheck_net.drivers.base import Driver, Surveyor
from flowcheck_net.errors import FlowcheckError, SpecError
from flowcheck_net.ids import SwitchName
from flowcheck_net.importers.cables import Cable, Finding, FindingKind, Role, Source, Survey
from flowcheck_net.importers.discover_findings import Answer, findings_of, naming_problems, speed_findings
from flowcheck_net.importers.lldp import Report
from flowcheck_net.importers.lldp_read import read_lldp
from flowcheck_net.importers.names import port_key
from flowcheck_net.importers.options import Choice, Options
from flowcheck_net.importers.run import Graph
from flowcheck_net.intent import MirrorSession, SwitchAddress
from flowcheck_net.model.asics import asic_of
from flowcheck_net.model.platforms import SITE_TABLES
from flowcheck_net.spec.inventory import Inventory, InventoryDevice

AT_ONCE = 16
"""Devices that are asked at once, where nothing else is said."""
JOB = "discover"
"""A job that nobody has: every session that is there is read as somebody else's."""


Stage = Callable[[SwitchName, str], None]


def ask_all(
    inventory: Inventory,
    opened: Callable[[SwitchAddress], Driver],
    *,
    at_once: int = AT_ONCE,
    tell: Stage = lambda _, __: None,
) -> list[Answer]:
    """Ask every device, ``at_once`` of them at a time; one that does not answer is an answer too.

    Args:
        inventory: whom to ask.
        opened: the driver of an address, not connected yet.
        at_once: connections at a time, 1 or more.
        tell: is told what each device is busy with, from several threads.
    """
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda device: _told(device, opened, tell), inventory.devices))


def survey_of(answers: Sequence[Answer], folder: Path, inventory: Path) -> Survey:
    """Keep what the devices said as files of ``folder``, and read it; what cannot be read is a finding."""
    findings = findings_of(answers, inventory)
    reports = []
    for answer in answers:
        if answer.surroundings is not None:
            report = _keep(answer.device.name, answer.surroundings.neighbors, folder)
            unread = _unreadable(report)
            findings += unread
            reports += [] if unread else [report]
    heard = read_lldp(reports)
    spoken = {c.source.file for c in heard.cables} | {f.source.file for f in heard.findings}
    for report in (r for r in reports if str(r.path) not in spoken):
        text = f"{report.device} hears no neighbour"
        findings.append(
            Finding(Source(str(report.path)), FindingKind.UNREADABLE, text, "is LLDP on, and lldpd running?")
        )
    speeds = {a.device.name: _speeds(a) for a in answers}
    cables = tuple(_with_speed(cable, speeds) for cable in heard.cables)
    findings += naming_problems(answers, heard, inventory) + speed_findings(answers, cables, speeds, inventory)
    files = tuple(file for file in heard.files if file in spoken)
    if not cables:
        raise SpecError([f.problem() for f in (*findings, *heard.findings)], hint="no device told a cable: see above")
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


def with_answers(graph: Graph, answers: Sequence[Answer]) -> Graph:
    """The topology with what switches told beside their cables: mirror sessions of others, and their chip."""
    told = {a.device.name: a for a in answers}
    document = dict(graph.imported.document)
    switches = document.get("switches")
    if isinstance(switches, list):  # else there is none, and the user is to fill it in
        document["switches"] = [_with_answer(s, told[s["name"]]) if s["name"] in told else s for s in switches]
    return replace(graph, imported=replace(graph.imported, document=document))


def _with_answer(switch: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    chip = asic_of(answer.facts.model, os.environ.get(SITE_TABLES, "")) if answer.facts.model else ""
    words = list(_with_foreign(switch, answer.sessions).items())
    # Behind the platform, where one looks for it.
    return dict([*words[:2], *([("asic", chip)] if chip else []), *words[2:]])


def _told(device: InventoryDevice, opened: Callable[[SwitchAddress], Driver], tell: Stage) -> Answer:
    name = SwitchName(device.name)
    tell(name, "asking")
    answer = _ask(device, opened)
    tell(name, "silent" if answer.silent else "answered")
    return answer


def _ask(device: InventoryDevice, opened: Callable[[SwitchAddress], Driver]) -> Answer:
    try:
        with opened(SwitchAddress(SwitchName(device.name), device.platform, device.management)) as driver:
            if not isinstance(driver, Surveyor):
                kind = device.management.partition(":")[0]
                cure = "leave it out, and accept its cables with --accept-one-sided"
                return Answer(device, silent=f"a driver of kind {kind} cannot be asked for neighbours", cure=cure)
            around = driver.surroundings()
            if device.role != Role.SWITCH.value:
                return Answer(device, around)
            try:
                return Answer(device, around, driver.read().foreign)
            except FlowcheckError as error:
                return Answer(device, around, unread=error.message)
    except FlowcheckError as error:
        return Answer(device, silent=error.message, cure=error.hint or "")


def _unreadable(report: Report) -> list[Finding]:
    """A device whose answer is no report must not hide what the others told."""
    try:
        read_lldp([report])
    except SpecError as error:
        source = Source(str(report.path))
        return [
            Finding(source, FindingKind.UNREADABLE, f"{report.device}: {p.message}", p.cure) for p in error.problems
        ]
    return []


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
