"""Slurm's ``topology.conf`` (tree plugin): which nodes a switch of the scheduler has. Hints, and never a cable.

The lines are ``SwitchName=s1 Nodes=node[1-8]`` or ``SwitchName=s2 Switches=s[0-1]``. An administrator writes them by
hand: they say what should share a switch, not which port has which cable.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from flowcheck_net.errors import Problem, SpecError
from flowcheck_net.importers.cables import Source
from flowcheck_net.spec.yamlpos import read_text

MAX_NODES = 1_000_000
"""What one host list may stand for; more is a slip of the pen."""
_WORD = re.compile(r"(\w+)=(\S+)")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")


@dataclass(frozen=True, slots=True)
class SlurmSwitch:
    """One switch of the scheduler's tree."""

    name: str
    nodes: tuple[str, ...]
    """Nodes that hang on it; empty for a switch of switches."""
    switches: tuple[str, ...]
    source: Source


def read_slurm(paths: tuple[Path, ...]) -> tuple[SlurmSwitch, ...]:
    """Read the switches of all files.

    Raises:
        SpecError: a line that is none of a tree, a host list that cannot be read, a switch named twice, no switch at
            all; every problem.
    """
    problems: list[Problem] = []
    found: dict[str, SlurmSwitch] = {}
    for path in paths:
        for number, line in _logical_lines(read_text(path)):
            source = Source(str(path), number)
            try:
                switch = _switch(line, source)
            except ValueError as error:
                problems.append(Problem(str(path), number, 1, "", str(error)))
                continue
            first = found.setdefault(switch.name, switch)
            if first is not switch:
                problems.append(Problem(str(path), number, 1, "", f"switch {switch.name} is in {first.source} already"))
    if not found and not problems:
        problems.append(Problem(str(paths[0]), 0, 0, "", "no SwitchName line: this is no Slurm topology.conf"))
    if problems:
        raise SpecError(problems)
    return tuple(found.values())


def expand_hostlist(text: str) -> tuple[str, ...]:
    """``n[1-3,07],login`` -> every name, in order; leading zeros are kept.

    Raises:
        ValueError: not a host list, or one of more than ``MAX_NODES`` names.
    """
    names: list[str] = []
    for part in _split_outside(text):
        names += _expand(part, MAX_NODES - len(names))
    return tuple(names)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments; a backslash at the end continues a line."""
    start, kept = 0, ""
    for number, line in enumerate(text.splitlines(), start=1):
        kept += line.partition("#")[0].strip()
        start = start or number
        if kept.endswith("\\"):
            kept = kept[:-1] + " "
            continue
        if kept.strip():
            yield start, kept.strip()
        start, kept = 0, ""
    if kept.strip():
        yield start, kept.strip()


def _switch(line: str, source: Source) -> SlurmSwitch:
    words = {key.casefold(): value for key, value in _WORD.findall(line)}
    if "switchname" not in words or not ({"nodes", "switches"} & words.keys()):
        raise ValueError(f"not a line of a tree topology: {line[:60]}")
    return SlurmSwitch(
        words["switchname"],
        expand_hostlist(words["nodes"]) if "nodes" in words else (),
        expand_hostlist(words["switches"]) if "switches" in words else (),
        source,
    )


def _split_outside(text: str) -> list[str]:
    """Split at the commas that are in no brackets."""
    parts, depth, begun = [], 0, 0
    for i, char in enumerate(text):
        depth += (char == "[") - (char == "]")
        if depth not in (0, 1):
            raise ValueError(f"brackets do not match in host list {text[:60]}")
        if char == "," and depth == 0:
            parts.append(text[begun:i])
            begun = i + 1
    if depth:
        raise ValueError(f"brackets do not match in host list {text[:60]}")
    return [*parts, text[begun:]]


def _expand(part: str, room: int) -> list[str]:
    head, bracket, rest = part.partition("[")
    if not part:
        raise ValueError("an empty name in a host list")
    if not bracket:
        return [part]
    inside, _, tail = rest.partition("]")
    numbers = [number for span in inside.split(",") for number in _numbers(span, room)]
    tails = _expand(tail, room) if tail else [""]
    if len(numbers) * len(tails) > room:
        raise ValueError(f"host list {part[:60]} stands for more than {MAX_NODES} names")
    return [f"{head}{number}{end}" for number in numbers for end in tails]


def _numbers(span: str, room: int) -> list[str]:
    match = _RANGE.fullmatch(span)
    if match is None:
        raise ValueError(f"'{span[:40]}' is no range of a host list")
    low, high = match[1], match[2] or match[1]
    if int(high) < int(low):
        raise ValueError(f"the range {span} runs backwards")
    if int(high) - int(low) >= room:
        raise ValueError(f"the range {span} stands for more than {MAX_NODES} names")
    return [str(number).zfill(len(low)) for number in range(int(low), int(high) + 1)]
