"""Following a NetBox cable through patch panels.

A panel port has one or more positions, and a mapping joins a position of a front port with one of a rear port. A port
with many positions is a trunk: on the way into a trunk the position is remembered, and on the way out of the next trunk
the same position is taken (NetBox documentation, "Cable paths"). Until NetBox 4.4 the mapping is in the front port
itself, from 4.5 on it is an object of its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_CIRCUIT = "ends in a circuit whose other end is not in this data"


@dataclass(frozen=True, slots=True)
class Termination:
    """What a cable is plugged into: ``interface``, ``frontport``, ``rearport`` and so on, with its primary key."""

    kind: str
    key: int

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"


@dataclass(frozen=True, slots=True)
class CablePath:
    """Where a cable leads."""

    far: Termination | None
    """The interface that was reached; None where the way does not end at one."""
    reason: str = ""
    """Why it does not, for a person."""


@dataclass(frozen=True, slots=True)
class Passages:
    """How panel ports and circuit ends lead on."""

    positions: Mapping[Termination, int]
    """Number of positions of each panel port."""
    mapped: Mapping[tuple[Termination, int], tuple[Termination, int]]
    """Port and position -> the port and position on the other face, both ways."""
    circuits: Mapping[Termination, Termination]
    """Circuit end -> the other end of the circuit."""


def passages(
    front: Mapping[int, Mapping[str, Any]],
    rear: Mapping[int, Mapping[str, Any]],
    mappings: Iterable[Mapping[str, Any]],
    circuit_ends: Mapping[int, Mapping[str, Any]],
) -> Passages:
    """From the fields of front ports, rear ports, port mappings and circuit ends, by primary key."""
    positions = {Termination("frontport", key): _number(fields, "positions") for key, fields in front.items()}
    positions |= {Termination("rearport", key): _number(fields, "positions") for key, fields in rear.items()}
    inside = [{**fields, "front_port": key} for key, fields in front.items() if fields.get("rear_port")]
    mapped: dict[tuple[Termination, int], tuple[Termination, int]] = {}
    for fields in (*inside, *mappings):
        one = Termination("frontport", _number(fields, "front_port")), _number(fields, "front_port_position")
        other = Termination("rearport", _number(fields, "rear_port")), _number(fields, "rear_port_position")
        mapped[one], mapped[other] = other, one
    ends = {
        (str(fields.get("circuit")), fields.get("term_side")): Termination("circuittermination", key)
        for key, fields in circuit_ends.items()
    }
    circuits = {
        end: ends[circuit, opposite]
        for (circuit, side), end in ends.items()
        if (circuit, opposite := "Z" if side == "A" else "A") in ends
    }
    return Passages(positions, mapped, circuits)


def _number(fields: Mapping[str, Any], key: str) -> int:
    """A whole number of 1 or more; 1 where the field is not there, as NetBox's own default is."""
    value = fields.get(key, 1)
    return value if isinstance(value, int) and value > 0 else 1


class Tracer:
    """The cabling of a dump."""

    def __init__(
        self, cables: Mapping[int, tuple[Sequence[Termination], Sequence[Termination]]], onward: Passages
    ) -> None:
        """Take the two sides of every cable, and how panels lead on."""
        self._cables = cables
        self._onward = onward
        self._cable_at = {end: key for key, sides in cables.items() for side in sides for end in side}

    def follow(self, cable: int, start: Termination) -> CablePath:
        """The way from ``start`` through ``cable`` and every panel behind it."""
        seen: set[int] = set()
        stack: list[int] = []
        here = start
        while True:
            if cable in seen:
                return CablePath(None, "the cabling runs in a circle")
            seen.add(cable)
            far = self._other_side(cable, here)
            if isinstance(far, str):
                return CablePath(None, far)
            if far.kind == "interface":
                return CablePath(far)
            through = self._through(far, stack)
            if isinstance(through, str):
                return CablePath(None, through)
            if through not in self._cable_at:
                return CablePath(None, f"ends behind {far}: no cable at {through}")
            here, cable = through, self._cable_at[through]

    def _other_side(self, cable: int, here: Termination) -> Termination | str:
        a_side, b_side = self._cables[cable]
        near, far = (a_side, b_side) if here in a_side else (b_side, a_side)
        if not far:
            return "ends in nothing: the cable has no other side"
        if len(near) > 1 or len(far) > 1:
            return f"cable {cable} has {len(near)} plugs here and {len(far)} there: which belongs to which is not said"
        return far[0]

    def _through(self, end: Termination, stack: list[int]) -> Termination | str:
        """The other face of a panel port or circuit; ``stack`` holds the positions in the trunks around the way."""
        if end.kind == "circuittermination":
            return self._onward.circuits.get(end, _CIRCUIT)
        count = self._onward.positions.get(end)
        if count is None:
            return f"ends in {end}, which is not in this data"
        if count > 1 and not stack:
            return f"enters {end}, a trunk of many positions, at no certain one"
        position = stack.pop() if count > 1 else 1
        other = self._onward.mapped.get((end, position))
        if other is None:
            return f"position {position} of {end} leads to no port on the other face"
        if self._onward.positions.get(other[0], 1) > 1:
            stack.append(other[1])
        return other[0]
