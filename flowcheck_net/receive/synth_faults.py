"""Scripted faults: what they are and how they are written.

``kind:key=value,key=value``, such as ``loss:hop=dp0/0/1,iteration=2,packet=17-19``. All numbers count from 0.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from ipaddress import ip_address

from flowcheck_net.errors import Problem, SpecError
from flowcheck_net.ids import Address, CapturePort


class FaultKind(StrEnum):
    """What goes wrong."""

    LOSS = "loss"
    """A mirrored copy does not arrive; the network itself lost nothing."""
    DUPLICATE = "duplicate"
    """A copy arrives twice."""
    REORDER = "reorder"
    """A copy arrives after later ones."""
    RETRANSMIT = "retransmit"
    """The network loses a packet: NAK, and the sender goes back to it."""
    FOREIGN = "foreign"
    """Another tenant's flow is mirrored too."""
    CUT = "cut"
    """The capture ends in the middle of an iteration."""
    LATE = "late"
    """The capture begins in the middle of an iteration."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault. What is None was not given."""

    text: str
    """As it was written."""
    kind: FaultKind
    capture: CapturePort | None = None
    hop: str | None = None
    """``group/channel/index``"""
    iteration: int | None = None
    packet: tuple[int, int] | None = None
    """First and last data packet of the hop in an iteration, counted over all its queue pairs in sending order."""
    rate: float | None = None
    """Probability for each packet."""
    distance: int | None = None
    """Packets of the same flow and point that come first."""
    window: int = 8
    """Packets sent in vain after the lost one."""
    seen: bool = True
    """Retransmission: the lost packet was lost behind the observation point, which saw it."""
    counted: bool = False
    """Loss: the capture knows it and reports it in its interface statistics."""
    packets: int = 100
    """Packets of a foreign flow."""
    source: Address | None = None
    destination: Address | None = None
    at: float | None = None
    """Part of the iteration's time, 0 to 1."""

    def hits(self, hop: str, iteration: int, number: int) -> bool:
        """Is data packet ``number`` of this hop and iteration meant, as far as place says?"""
        return (
            self.hop == hop
            and iteration >= 0
            and self.iteration in (None, iteration)
            and (self.packet is None or self.packet[0] <= number <= self.packet[1])
        )


_KINDS: dict[str, FaultKind] = {kind.value: kind for kind in FaultKind}
_PLACE = ("capture", "hop", "iteration", "packet", "rate")
_KEYS: dict[FaultKind, tuple[str, ...]] = {
    FaultKind.LOSS: (*_PLACE, "counted"),
    FaultKind.DUPLICATE: (*_PLACE, "distance"),
    FaultKind.REORDER: (*_PLACE, "distance"),
    FaultKind.RETRANSMIT: ("hop", "iteration", "packet", "rate", "window", "seen"),
    FaultKind.FOREIGN: ("capture", "iteration", "packets", "source", "destination"),
    FaultKind.CUT: ("capture", "hop", "iteration", "packet", "at"),
    FaultKind.LATE: ("capture", "hop", "iteration", "packet", "at"),
}
FORMS = """\
loss:capture=NODE:NIC,rate=R[,counted=yes]
loss|duplicate|reorder:hop=GROUP/CHANNEL/INDEX[,iteration=I][,packet=A[-B]][,rate=R][,capture=NODE:NIC][,distance=D]
retransmit:hop=GROUP/CHANNEL/INDEX[,iteration=I][,packet=A[-B]][,rate=R][,window=W][,seen=no]
foreign:[capture=NODE:NIC][,iteration=I][,packets=N][,source=ADDRESS,destination=ADDRESS]
cut|late:[capture=NODE:NIC,]iteration=I,at=PART
cut|late:hop=GROUP/CHANNEL/INDEX,iteration=I,packet=A"""


def _number(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("must be a whole number, 0 or more")
    return int(text)


def _part(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ValueError("must be a number from 0 to 1")
    return value


def _range(text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    ends = _number(first), _number(last if dash else first)
    if ends[1] < ends[0]:
        raise ValueError("must not end before it begins")
    return ends


def _yes(text: str) -> bool:
    if text not in ("yes", "no"):
        raise ValueError("must be yes or no")
    return text == "yes"


def _hop(text: str) -> str:
    parts = text.rsplit("/", 2)
    if len(parts) != 3 or not parts[0] or not parts[1].isdecimal() or not parts[2].isdecimal():
        raise ValueError("must be GROUP/CHANNEL/INDEX, such as dp0/0/1")
    return f"{parts[0]}/{int(parts[1])}/{int(parts[2])}"


def _capture(text: str) -> CapturePort:
    if text.count(":") != 1:
        raise ValueError("must be NODE:NIC, such as ckpt1:cap0")
    return CapturePort(text)


def _address(text: str) -> Address:
    try:
        return Address(str(ip_address(text)))
    except ValueError:
        raise ValueError("must be an IPv4 or IPv6 address") from None


_READERS: dict[str, Callable[[str], object]] = {
    "capture": _capture,
    "hop": _hop,
    "iteration": _number,
    "packet": _range,
    "rate": _part,
    "distance": _number,
    "window": _number,
    "seen": _yes,
    "counted": _yes,
    "packets": _number,
    "source": _address,
    "destination": _address,
    "at": _part,
}


def parse_fault(text: str) -> Fault:
    """Read one fault.

    Raises:
        SpecError: Everything that is wrong with it.
    """
    name, colon, rest = text.partition(":")
    kind = _KINDS.get(name)
    if kind is None:
        near = get_close_matches(name, _KINDS, 1)
        cure = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(_KINDS)}"
        raise _wrong(text, [("", f"unknown fault {name!r}", cure)])
    problems: list[tuple[str, str, str]] = []
    values: dict[str, object] = {}
    for item in rest.split(",") if colon and rest else []:
        key, _, value = item.partition("=")
        if key not in _KEYS[kind]:
            problems.append((key, f"{name} does not know {key!r}", f"it takes {', '.join(_KEYS[kind])}"))
        elif key in values:
            problems.append((key, "is given twice", ""))
        else:
            try:
                values[key] = _READERS[key](value)
            except ValueError as error:
                problems.append((key, f"{error}, found {value!r}", ""))
                values[key] = None
    if not problems:
        problems = _missing(kind, values)
    if problems:
        raise _wrong(text, problems)
    return Fault(text=text, kind=kind, **values)  # type: ignore[arg-type]  # the readers give each key its type


def parse_faults(texts: Sequence[str]) -> tuple[Fault, ...]:
    """Read many faults.

    Raises:
        SpecError: Everything that is wrong with all of them.
    """
    faults: list[Fault] = []
    problems: list[Problem] = []
    hint = ""
    for text in texts:
        try:
            faults.append(parse_fault(text))
        except SpecError as error:
            problems.extend(error.problems)
            hint = error.hint
    if problems:
        raise SpecError(problems, hint=hint)
    return tuple(faults)


def _missing(kind: FaultKind, values: Mapping[str, object]) -> list[tuple[str, str, str]]:
    """Keys that must be there, and keys that must be there together."""
    if kind in (FaultKind.CUT, FaultKind.LATE):
        by_time, by_packet = "at" in values, "packet" in values
        if by_time == by_packet or "iteration" not in values or by_packet != ("hop" in values):
            return [("", "needs iteration, and either at or hop and packet", "")]
        return []
    if kind is FaultKind.FOREIGN:
        ends = [ip_address(str(values[key])).version for key in ("source", "destination") if key in values]
        if len(ends) == 1:
            return [("", "needs source and destination, or neither", "")]
        return [("", "needs two addresses of one family", "")] if len(set(ends)) == 2 else []
    if kind is FaultKind.RETRANSMIT and "hop" not in values:
        return [("hop", "is missing", "name the connection, such as hop=dp0/0/1")]
    if "packet" not in values and "rate" not in values:
        return [("", "says neither packet nor rate", "add packet=17, packet=17-19 or rate=0.01")]
    if "hop" not in values and ("packet" in values or "iteration" in values):
        return [("hop", "is missing", "packet and iteration count on one hop: add hop=GROUP/CHANNEL/INDEX")]
    return []


def _wrong(text: str, problems: Sequence[tuple[str, str, str]]) -> SpecError:
    listed = [Problem("--fault", 0, 0, key, f"{message} in {text!r}", cure) for key, message, cure in problems]
    return SpecError(listed, hint=f"the forms of a fault are:\n{FORMS}")


def resent_packets(faults: Sequence[Fault], hop: str, iteration: int, packets: int, seed: int) -> dict[int, Fault]:
    """Which data packets of a hop's iteration the network loses, and the fault that says so.

    The same arguments give the same answer, so that every observer of the hop sees the same retransmissions.
    """
    found: dict[int, Fault] = {}
    for place, fault in enumerate(faults):
        if fault.kind is not FaultKind.RETRANSMIT or fault.hop != hop:
            continue
        draw = random.Random(f"{seed}/{place}/{hop}/{iteration}").random  # noqa: S311 - scripted faults
        for number in range(packets):
            if fault.hits(hop, iteration, number) and (fault.rate is None or draw() < fault.rate):
                found.setdefault(number, fault)
    return found
