"""Following a NetBox cable through patch panels.

A front port is mapped to one position of a rear port; a rear port with many positions is a trunk. On the way into a
trunk the position is remembered, and on the way out of the next trunk the same position is taken (NetBox documentation,
"Cable paths").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_CIRCUIT = "ends in a circuit whose other end is not in this data"


@dataclass(frozen=True, slots=True)
class Termination:
    """What a cable is plugged into: ``interface``, ``frontport``, ``rearport`` and so on, with its primary key."""

    kind: str
    key: int


@dataclass(frozen=True, slots=True)
class CablePath:
    """Where a cable leads."""

    far: Termination | None
    """The last thing that was reached; None where the way could not be followed."""
    cables: tuple[int, ...]
    """The cables of the way, in order."""
    reason: str
    """Why the way ends there, for a person; empty where it ends at an interface."""


class Tracer:
    """The cabling of a dump."""

    def __init__(
        self,
        cables: Mapping[int, tuple[Sequence[Termination], Sequence[Termination]]],
        front: Mapping[int, Mapping[str, Any]],
        rear: Mapping[int, Mapping[str, Any]],
        circuits: Mapping[int, Mapping[str, Any]],
    ) -> None:
        """Take the sides of every cable, and the fields of front ports, rear ports and circuit ends by primary key."""
        self._cables = cables
        self._front = front
        self._rear = rear
        self._cable_at = {end: key for key, sides in cables.items() for side in sides for end in side}
        self._circuits = circuits
        self._circuit_end = {(fields.get("circuit"), fields.get("term_side")): key for key, fields in circuits.items()}
        self._front_of = {
            (fields.get("rear_port"), fields.get("rear_port_position", 1)): key for key, fields in front.items()
        }

    def follow(self, cable: int, start: Termination) -> CablePath:
        """The way from ``start`` through ``cable`` and every panel behind it."""
        way: list[int] = []
        positions: list[int] = []
        here = start
        while True:
            if cable in way:
                return CablePath(None, tuple(way), "the cabling runs in a circle")
            way.append(cable)
            far = self._other_side(cable, here)
            if isinstance(far, str):
                return CablePath(None, tuple(way), far)
            if far.kind == "interface":
                return CablePath(far, tuple(way), "")
            through = self._through(far, positions)
            if isinstance(through, str):
                return CablePath(far, tuple(way), through)
            if through not in self._cable_at:
                return CablePath(far, tuple(way), f"ends behind {_shown(far)}: no cable at {_shown(through)}")
            here, cable = through, self._cable_at[through]

    def _other_side(self, cable: int, here: Termination) -> Termination | str:
        a_side, b_side = self._cables[cable]
        near, far = (a_side, b_side) if here in a_side else (b_side, a_side)
        if not far:
            return "ends in nothing: the cable has no other side"
        if len(near) > 1 or len(far) > 1:
            return f"cable {cable} has {len(near)} plugs here and {len(far)} there: which belongs to which is not said"
        return far[0]

    def _through(self, end: Termination, positions: list[int]) -> Termination | str:
        """The other side of a panel port or circuit; ``positions`` are those of the trunks that the way is in."""
        if end.kind == "frontport" and end.key in self._front:
            fields = self._front[end.key]
            positions.append(int(fields.get("rear_port_position") or 1))
            return Termination("rearport", int(fields.get("rear_port") or 0))
        if end.kind == "rearport" and end.key in self._rear:
            if not positions and int(self._rear[end.key].get("positions") or 1) > 1:
                return f"enters {_shown(end)}, a trunk of many positions, at no certain one"
            position = positions.pop() if positions else 1
            front = self._front_of.get((end.key, position))
            if front is None:
                return f"position {position} of {_shown(end)} has no front port"
            return Termination("frontport", front)
        if end.kind == "circuittermination":
            fields = self._circuits.get(end.key, {})
            other = self._circuit_end.get((fields.get("circuit"), "Z" if fields.get("term_side") == "A" else "A"))
            return Termination("circuittermination", other) if fields and other is not None else _CIRCUIT
        return f"ends in {_shown(end)}, which is not in this data"


def _shown(end: Termination) -> str:
    return f"{end.kind} {end.key}"
