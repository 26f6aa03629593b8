"""Faults of a lab on command: what they are, how they are written, and what they may name."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from flowcheck_net.errors import Problem, SpecError
from flowcheck_net.lab.blueprint import Blueprint, End


class FaultKind(StrEnum):
    """What goes wrong."""

    LOSS = "loss"
    """The mirror link loses copies at random, all the time."""
    CONGESTION = "congestion"
    """The monitor port lets so many copies a second through."""
    CUT = "cut"
    """The mirror link is cut, and stays cut."""
    FLAP = "flap"
    """The mirror link is down for a while."""
    RESTART = "restart"
    """A switch is dead for a while: it forwards and mirrors nothing."""
    KILL = "kill"
    """The receiver of a node gets SIGKILL, and is started again after a while."""
    TENANT = "tenant"
    """Another tenant's machine on the first host of the job sends to one on the last, across watched ports."""
    ORDER = "order"
    """The job runs with ranks 1 and 2 on each other's places, and the plan does not know."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault."""

    text: str
    """As it was written."""
    kind: FaultKind
    capture: End | None = None
    """Its mirror link; None: all."""
    switch: str = ""
    node: str = ""
    rate: float = 0.01
    """Loss: of the copies."""
    pps: int = 1000
    """Congestion: copies a second."""
    at: float = 0.4
    """When it begins: part of the time that the job takes."""
    lasting: float = 0.3
    """Seconds."""


_PLACES: dict[FaultKind, tuple[str, ...]] = {
    FaultKind.LOSS: ("capture", "rate"),
    FaultKind.CONGESTION: ("capture", "pps"),
    FaultKind.CUT: ("capture", "at"),
    FaultKind.FLAP: ("capture", "at", "for"),
    FaultKind.RESTART: ("switch", "at", "for"),
    FaultKind.KILL: ("node", "at", "for"),
    FaultKind.TENANT: (),
    FaultKind.ORDER: (),
}
_NEEDED = {FaultKind.RESTART: "switch", FaultKind.KILL: "node"}
FORMS = """\
loss:[capture=NODE:NIC,]rate=R      the mirror link loses that part of the copies (0.01)
congestion:[capture=NODE:NIC,]pps=N the monitor port lets N copies a second through (1000)
cut:[capture=NODE:NIC][,at=PART]    the mirror link is cut, after that part of the job's time (0.4)
flap:[capture=NODE:NIC][,at=PART][,for=SECONDS]    the mirror link is down for a while (0.3)
restart:switch=NAME[,at=PART][,for=SECONDS]        the switch is dead for a while
kill:node=NAME[,at=PART][,for=SECONDS]             SIGKILL for the node's receiver; it comes again
tenant                              another tenant's flow crosses watched ports
order                               ranks 1 and 2 have changed places, and the plan does not know"""


def parse_faults(texts: Sequence[str], drawn: Blueprint) -> tuple[Fault, ...]:
    """The faults that a lab is to have; raises SpecError with everything that is wrong with them."""
    problems: list[Problem] = []
    found: list[Fault] = []
    for text in texts:
        try:
            found.append(_fault(text, drawn))
        except ValueError as error:
            key, message, cure = error.args
            problems.append(Problem("--fault", 0, 0, key, f"{message} in {text!r}", cure))
    if problems:
        raise SpecError(problems, hint="flowcheck-net lab run --help shows the forms")
    return tuple(found)


def _fault(text: str, drawn: Blueprint) -> Fault:
    """ValueError(key, message, cure) where it cannot be."""
    word, _, rest = text.partition(":")
    if word not in list(FaultKind):
        close = get_close_matches(word, list(FaultKind), 1)
        raise ValueError(
            "", f"no fault {word!r}", f"did you mean {str(close[0])!r}?" if close else ", ".join(FaultKind)
        )
    kind = FaultKind(word)
    given = dict(_pairs(rest, _PLACES[kind]))
    if _NEEDED.get(kind, "") not in given and kind in _NEEDED:
        raise ValueError(_NEEDED[kind], "which one is not told", f"{kind}:{_NEEDED[kind]}=NAME")
    captures = {f"{node}:{nic}": End(node, nic) for node in drawn.nodes for nic in drawn.captures(node)}
    plain = Fault(text, kind)
    return Fault(
        text=text,
        kind=kind,
        capture=captures[_one_of("capture", given["capture"], captures)] if "capture" in given else None,
        switch=_one_of("switch", given["switch"], drawn.switches) if "switch" in given else "",
        node=_one_of("node", given["node"], drawn.nodes) if "node" in given else "",
        rate=_number("rate", given, plain.rate, lambda n: 0 < n <= 1),
        pps=round(_number("pps", given, plain.pps, lambda n: 1 <= n <= 1e9)),
        at=_number("at", given, plain.at, lambda n: 0 <= n < 1),
        lasting=_number("for", given, plain.lasting, lambda n: 0 < n <= 600),
    )


def _pairs(text: str, known: Sequence[str]) -> Iterator[tuple[str, str]]:
    for pair in filter(None, text.split(",")):
        key, sign, value = pair.partition("=")
        if key not in known or not sign:
            raise ValueError(key, f"{pair!r} is nothing that it takes", f"it takes {', '.join(known) or 'nothing'}")
        yield key, value


def _one_of(key: str, value: str, known: Sequence[str] | dict[str, End]) -> str:
    if value not in known:
        raise ValueError(key, f"the lab has no {key} {value!r}", f"one of {', '.join(known)}")
    return value


def _number(key: str, given: dict[str, str], otherwise: float, fits: Callable[[float], bool]) -> float:
    try:
        value = float(given.get(key, otherwise))
    except ValueError:
        value = float("nan")
    if not fits(value):
        raise ValueError(key, f"{given[key]!r} is no number that fits", "")
    return value
