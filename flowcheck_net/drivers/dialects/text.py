"""Small things that all dialects need: lines, ranges of ports, directions."""

import re
from collections.abc import Iterator, Sequence

from flowcheck_net.drivers.dialects.base import ParseError
from flowcheck_net.ids import PortName
from flowcheck_net.intent import Direction, MirrorSource

_PIECE = re.compile(r"([A-Za-z][A-Za-z-]*)? ?((?:[0-9]+/)*)([0-9]+)(?:-(?:[A-Za-z-]* ?(?:[0-9]+/)*)([0-9]+))?")
BOTH = (Direction.RX, Direction.TX)
ERSPAN = "erspan:"
"""What a destination begins with that is an address, and no port."""


def lines_of(text: str) -> Iterator[str]:
    """Every line that says something: without white space at its ends, without comments of a configuration (``!``)."""
    for line in text.splitlines():
        stripped = line.strip()
        if stripped and not stripped.startswith("!"):
            yield stripped


def directed(word: str, command: str, line: str) -> tuple[Direction, ...]:
    """``rx``, ``tx`` or ``both``; none means both. Raises ParseError."""
    found = {"rx": (Direction.RX,), "tx": (Direction.TX,), "both": BOTH, "": BOTH}.get(word.lower())
    if found is None:
        raise ParseError(f"{command}: direction {word!r} in {line!r}")
    return found


def sources_at(ports: Sequence[PortName], directions: Sequence[Direction]) -> tuple[MirrorSource, ...]:
    """Every port in every direction."""
    return tuple(MirrorSource(port, direction) for port in ports for direction in directions)


def by_port(sources: Sequence[MirrorSource]) -> dict[PortName, str]:
    """Port -> ``rx``, ``tx`` or ``both``, in the order of the sources."""
    found: dict[PortName, str] = {}
    for source in sources:
        found[source.port] = "both" if source.port in found else source.direction.value
    return found


def expand(text: str, command: str) -> tuple[PortName, ...]:
    """``Ethernet3, Ethernet5-7,10`` or ``Ethernet1/1/1-4``: every port by its own name, in the order given.

    A piece without a family (``10``) has that of the piece before. Raises ParseError.
    """
    ports: list[PortName] = []
    family = ""
    for piece in (p.strip() for p in text.split(",")):
        match = _PIECE.fullmatch(piece)
        if match is None or not (match[1] or family):
            # Port-channels, VLANs, the CPU: one name that stands for itself.
            if not re.fullmatch(r"[A-Za-z][A-Za-z0-9/.:_-]*", piece):
                raise ParseError(f"{command}: {piece!r} is no port")
            ports.append(PortName(piece))
            continue
        family = match[1] or family
        first, last = int(match[3]), int(match[4] or match[3])
        if not first <= last <= first + 4096:
            raise ParseError(f"{command}: {piece!r} is no range of ports")
        ports += [PortName(f"{family}{match[2]}{number}") for number in range(first, last + 1)]
    return tuple(ports)
