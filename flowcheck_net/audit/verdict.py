"""Verdicts and findings: the words of the audit. Only this file defines them."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What is proven of one ring in one iteration, or of the whole run."""

    COVERED = "COVERED"
    """Every expected packet of every planned hop was seen, and the counts are equal."""
    RECOVERED = "RECOVERED"
    """Every fully reduced byte was seen, although a planned hop has gaps."""
    GAP = "GAP"
    """Fully reduced bytes were never seen; they are named."""
    DUPLICATE = "DUPLICATE"
    """Complete, but packets arrived more often than planned."""
    UNPLANNED = "UNPLANNED"
    """Traffic that the job does not know."""
    UNKNOWN = "UNKNOWN"
    """Cannot be proven either way."""
    STALE = "STALE"
    """The traffic is not what the plan or the job says: one of them changed."""

    @property
    def publishable(self) -> bool:
        """May the update be used?"""
        return self in (Verdict.COVERED, Verdict.RECOVERED)


_BADNESS = (
    Verdict.COVERED,
    Verdict.RECOVERED,
    Verdict.UNKNOWN,
    Verdict.DUPLICATE,
    Verdict.UNPLANNED,
    Verdict.STALE,
    Verdict.GAP,
)


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict that decides for all of them; UNKNOWN when there is none (nothing was proven).

    The order is that of the exit codes: a gap (4), then drift (6), then unknown (10).
    """
    return max(verdicts, key=_BADNESS.index, default=Verdict.UNKNOWN)


class FindingKind(StrEnum):
    """What a finding is about."""

    FOREIGN = "foreign"
    """RDMA between addresses of which none belongs to the job: a security matter."""
    STALE = "stale"
    """The expected message pattern is not there, another one is."""
    LENGTH = "length"
    """A message's RETH length or start is not the expected one."""
    IMMEDIATE = "immediate"
    """Immediate data is not the length of the message."""
    LL_FLAG = "ll-flag"
    """LL flags do not count on from message to message."""
    WINDOW_SHIFTED = "window-shifted"
    """A switch that mirrors a window of each loop counts messages wrongly: it mirrors others than it was asked for."""
    BEYOND_WINDOW = "beyond-window"
    """Packets outside a message window were copied, since the switch could not place them."""
    COPIES_DIFFER = "copies-differ"
    """Two capture ports saw one complete message with other ICRCs: a copy was changed, or it is another packet."""
    DROPS = "drops"
    """A capture reports more drops than the gaps explain."""
    UNPLACED = "unplaced"
    """Packets of a ring's queue pair that fit no iteration and no known message."""
    UNRECOGNISED = "unrecognised"
    """Messages on a ring's queue pair that are neither an all-reduce nor a declared broadcast."""
    AMBIGUOUS = "ambiguous"
    """Several assignments of queue pairs or iterations fit equally well."""
    OTHER_CAPTURE = "other-capture"
    """Data of a planned hop that arrived at another capture port than the plan says, or where that cannot be told."""
    EXTRA_HOP = "extra-hop"
    """Data of a hop of the job that the plan does not watch."""
    OTHER = "other-rdma"
    """Other RDMA of the job's hosts, such as point-to-point; not counted."""
    UNOBSERVED = "unobserved"
    """A ring of the job of which nothing was seen."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a person should know, with numbers."""

    kind: FindingKind
    verdict: Verdict | None
    """What it makes of the run; None: a note."""
    subject: str
    """Whom it concerns: a flow, a hop, a capture."""
    text: str
