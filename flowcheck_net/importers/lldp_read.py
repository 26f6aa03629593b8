"""LLDP reports of many devices, JSON and CLI text mixed -> one survey."""

from collections.abc import Sequence

from flowcheck_net.errors import Problem, SpecError
from flowcheck_net.importers.cables import Cable, Device, Finding, Role, Source, Survey
from flowcheck_net.importers.lldp import Neighbor, Report, hear
from flowcheck_net.importers.lldp_json import read_napalm
from flowcheck_net.importers.lldp_text import is_cli_answer, read_cli
from flowcheck_net.spec.yamlpos import read_text


def read_lldp(reports: Sequence[Report]) -> Survey:
    """Read reports, each of one device, or NAPALM's JSON of many.

    Raises:
        SpecError: files that are no LLDP reports, or two reports of one device; every problem of all files.
    """
    problems: list[Problem] = []
    findings: list[Finding] = []
    heard: dict[str, list[tuple[Neighbor, Source]]] = {}
    places: dict[str, Source] = {}
    for report in reports:
        try:
            found = _read(report, findings)
        except SpecError as error:
            problems += error.problems
            continue
        for device, neighbors in found.items():
            if device in heard:
                message = f"{device} has a report in {places[device].file} already"
                problems.append(Problem(str(report.path), 0, 0, "", message, "write NAME=FILE to name the device"))
                continue
            heard[device] = neighbors
            places[device] = Source(str(report.path))
    if problems:
        raise SpecError(problems)
    return _survey(heard, places, findings)


def _read(report: Report, findings: list[Finding]) -> dict[str, list[tuple[Neighbor, Source]]]:
    text = read_text(report.path)
    # Junos begins an answer with "{master:0}": JSON is only what no vendor's command line says
    if text.lstrip()[:1] in ("{", "[") and not is_cli_answer(text):
        return read_napalm(report)
    return {report.device: read_cli(report, findings)}


def _survey(
    heard: dict[str, list[tuple[Neighbor, Source]]], places: dict[str, Source], findings: list[Finding]
) -> Survey:
    devices = [Device(name, places[name], Role.SWITCH, basis="it reports LLDP", reports=True) for name in heard]
    cables: list[Cable] = []
    for device, neighbors in heard.items():
        for neighbor, source in neighbors:
            result = hear(device, neighbor, source)
            if isinstance(result, Finding):
                findings.append(result)
                continue
            cables.append(result[0])
            if result[1] is not None:
                devices.append(result[1])
    files = tuple(dict.fromkeys(source.file for source in places.values()))
    return Survey("lldp", "lldp", tuple(devices), tuple(cables), files, tuple(findings))
