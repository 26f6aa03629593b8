"""Asking a switch what it is cabled to: by its command line, and by napalm's getters where there are any.

The two are compared: napalm's readers leave out what they do not understand and say nothing, and its speeds are those
of ``bandwidth``, which an operator may set to any number.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from flowcheck_net.drivers.dialects.base import ParseError
from flowcheck_net.drivers.dialects.survey import Survey
from flowcheck_net.drivers.ssh_shell import LineRejected
from flowcheck_net.ids import PortName
from flowcheck_net.intent import DeviceFacts, Surroundings

Ask = Callable[[str], str]
"""The answer to a command that changes nothing; raises LineRejected."""
_Told = TypeVar("_Told")
_TRIES = 2
"""Times that napalm is asked: a neighbour may have come in between."""
_FACTS = {"hostname": "hostname", "model": "model", "version": "os_version", "serial": "serial_number"}


def surroundings_of(survey: Survey, ask: Ask) -> Surroundings:
    """What the command line tells.

    Raises:
        LineRejected: the question for neighbours was refused, or its answer is none.
    """
    doubts: list[str] = []
    refused: list[str] = []
    heard = ask(survey.neighbors)
    try:
        neighbors = survey.neighbors_from(heard)
    except ParseError as error:
        raise LineRejected(survey.neighbors, str(error)) from error
    told = _answers(ask, [survey.speeds, *survey.identity], refused)
    speeds = _understood(survey.speeds_from, told.get(survey.speeds, ""), survey.speeds, doubts) or {}
    shown = "\n".join(told[command] for command in survey.identity if command in told)
    facts = _understood(survey.facts_from, shown, survey.identity[0], doubts) if shown.strip() else None
    return Surroundings(neighbors, speeds, facts or DeviceFacts(), tuple(refused), tuple(doubts))


def checked_with(getters: Any, survey: Survey, ask: Ask, told: Surroundings) -> Surroundings:  # noqa: ANN401 -- napalm
    """What napalm's getters tell, where the command line does not contradict; what they cannot read is a doubt."""
    doubts = list(told.doubts)
    for left in reversed(range(_TRIES)):
        heard = _got(getters.get_lldp_neighbors_detail, doubts)
        read, shown = sum(len(rows) for rows in heard.values()), survey.count(told.neighbors)
        if read == shown:
            break
        told = replace(told, neighbors=ask(survey.neighbors))
        if not left:
            doubts.append(f"get_lldp_neighbors_detail reads {read} neighbours, {survey.neighbors!r} shows {shown}")
            heard = {}
    speeds = dict(told.speeds)
    for port, mbit in _speeds(_got(getters.get_interfaces, doubts)).items():
        if speeds.setdefault(port, mbit) != mbit:
            doubts.append(f"{port}: get_interfaces says {mbit} Mbit/s, {survey.speeds!r} says {speeds.pop(port)}")
    facts = _facts(getters, told.facts, doubts)
    neighbors = json.dumps(heard) if heard else told.neighbors
    return replace(told, neighbors=neighbors, speeds=speeds, facts=facts, doubts=tuple(doubts))


def _facts(getters: Any, told: DeviceFacts, doubts: list[str]) -> DeviceFacts:  # noqa: ANN401 -- napalm
    """By ``get_facts``; of Junos it takes a dozen requests more than ``show version``, which tells the same."""
    if getters.platform == "junos":
        return told
    got = _got(getters.get_facts, doubts)
    return DeviceFacts(**{name: str(got.get(word) or "") or getattr(told, name) for name, word in _FACTS.items()})


def _speeds(interfaces: Mapping[str, Mapping[str, Any]]) -> dict[PortName, int]:
    """Physical ports that are up; logical units of Junos and subinterfaces have the speed of their port."""
    return {
        PortName(name): int(row["speed"])
        for name, row in interfaces.items()
        if row["is_up"] and row["speed"] >= 1 and "." not in name and name[:1].lower() in "efgx"
    }


def _got(getter: Callable[[], Mapping[str, Any]], doubts: list[str]) -> Mapping[str, Any]:
    try:
        return getter()
    except Exception as error:  # noqa: BLE001 -- napalm raises whatever its reading stumbles upon
        doubts.append(f"{getter.__name__}: {type(error).__name__} {' '.join(str(error).split())[:120]}".rstrip())
        return {}


def _answers(ask: Ask, commands: Sequence[str], refused: list[str]) -> dict[str, str]:
    """What was answered; a question that is refused (an operator may ask less than an administrator) is noted."""
    told = {}
    for command in commands:
        try:
            told[command] = ask(command)
        except LineRejected as error:
            refused.append(f"{command}: {' '.join(error.answer.split())[:120]}")
    return told


def _understood(reader: Callable[[str], _Told], text: str, command: str, doubts: list[str]) -> _Told | None:
    try:
        return reader(text)
    except ParseError as error:
        doubts.append(f"{command}: {error}")
    return None
