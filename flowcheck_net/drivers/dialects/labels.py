"""Labels: how our sessions bear our names on switches whose sessions have numbers only. Pure.

Such a switch keeps a named access list for each session of ours, bound to nothing where the session has no filter (it
takes nothing from the hardware). Its name is the session's, its description says which number is meant and where the
copies go::

    flowcheck-net 5 to 100GE1/0/31, stp was on

A numbered session is ours if exactly one label names its number and it sends where the label says. One that sends
nowhere is ours only while it is empty, as our own first line leaves it: with sources somebody has taken the number.
Everything else is somebody else's, whatever number it has. The label is written first and removed last.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from flowcheck_net.ids import PortName, SessionName

PREFIX = "fcn-"
NOWHERE = PortName("(none)")
"""Where a session sends that has no destination."""
_TEXT = re.compile(r"flowcheck-net (?P<ids>[0-9]+(?:\+[0-9]+)*|flow) to (?P<to>\S+?)(?P<stp>, stp was on)?")


@dataclass(frozen=True, slots=True)
class Label:
    """What is remembered of one session of ours."""

    ids: tuple[int, ...]
    """Numbers of the sessions that it stands for; empty: its copies are made by a flow policy, which has our name."""
    destination: PortName
    stp_was_on: bool = False
    """We switched the spanning tree off at the destination, and are to switch it on again."""

    def __str__(self) -> str:
        ids = "+".join(str(number) for number in self.ids) or "flow"
        return f"flowcheck-net {ids} to {self.destination}{', stp was on' if self.stp_was_on else ''}"


def read_label(description: str) -> Label | None:
    """None: not a label of ours."""
    match = _TEXT.fullmatch(description.strip().strip('"'))
    if match is None:
        return None
    ids = () if match["ids"] == "flow" else tuple(int(number) for number in match["ids"].split("+"))
    return Label(ids, PortName(match["to"]), match["stp"] is not None)


def owners(labels: Mapping[SessionName, Label], destinations: Mapping[int, PortName]) -> dict[int, SessionName]:
    """Number -> name of the session of ours that it is.

    Args:
        labels: all labels on the switch.
        destinations: all numbered sessions with where they send, ``NOWHERE`` for empty ones that send nowhere yet.
    """
    claims = Counter(number for label in labels.values() for number in label.ids)
    return {
        number: name
        for name, label in labels.items()
        for number in label.ids
        if claims[number] == 1 and destinations.get(number) in (label.destination, NOWHERE)
    }


def free_id(first: int, last: int, taken: Iterable[int]) -> int | None:
    """The lowest number that nobody has; None: none is left."""
    used = set(taken)
    return next((number for number in range(first, last + 1) if number not in used), None)
