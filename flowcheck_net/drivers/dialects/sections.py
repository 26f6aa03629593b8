"""Configurations in sections: ``#`` or ``!`` between them, an unindented head, indented lines below it. Pure."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_PORT = re.compile(r"(?P<kind>[A-Za-z][A-Za-z-]*|[0-9]+[A-Za-z]+)(?P<place>[0-9]+(?:/[0-9]+)*(?::[0-9]+)?)")


@dataclass(frozen=True, slots=True)
class Section:
    """One head with the lines below it, without indentation."""

    head: str
    lines: tuple[str, ...] = ()


def sections(text: str, mark: str) -> Iterator[Section]:
    """The sections of a configuration whose parts are divided by lines of ``mark`` alone.

    A part of indented lines only (Comware writes global settings so) is one section for each line. Some copies have
    lost their indentation: there the first line of a part is the head of the others.
    """
    part: list[str] = []
    for line in [*text.splitlines(), mark]:
        if line.strip() != mark:
            if line.strip():
                part.append(line.rstrip())
            continue
        yield from _of_part(part)
        part = []


def _of_part(part: list[str]) -> Iterator[Section]:
    indented = [line.startswith(" ") for line in part]
    if part and not any(indented):
        # Heads alone in a row are what a global section looks like; an interface or a session has lines of its own.
        if _opens(part[0]):
            yield Section(part[0], tuple(part[1:]))
        else:
            yield from (Section(line) for line in part)
        return
    head, lines = "", list[str]()
    for line, below in zip(part, indented, strict=True):
        if below and head:
            lines.append(line.strip())
            continue
        if head:
            yield Section(head, tuple(lines))
        head, lines = ("", []) if below else (line, [])
        if below:
            yield Section(line.strip())
    if head:
        yield Section(head, tuple(lines))


def _opens(line: str) -> bool:
    return line.startswith(("interface ", "monitor session ", "ip access-list ", "ipv6 access-list "))


def split_port(name: str) -> tuple[str, str]:
    """``("Ten-GigabitEthernet", "1/0/1")`` of a port's name; raises ValueError."""
    match = _PORT.fullmatch(name)
    if match is None:
        raise ValueError(f"{name!r} is no name of a port")
    return match["kind"], match["place"]
