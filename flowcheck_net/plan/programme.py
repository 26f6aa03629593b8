"""A mixed-integer programme under construction: columns, rows, and which of them mean what. No solver here."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

Terms = dict[int, int]
"""Column -> coefficient."""

TIES = "canonical order"
"""The last stage: among equally good choices the one that comes first. It is no cost and stands in no proof."""


@dataclass(frozen=True, slots=True)
class Row:
    """``lower <= sum(coefficient * column) <= upper``."""

    terms: tuple[tuple[int, int], ...]
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Component:
    """Rings that share no switch with the rings outside of it."""

    rings: tuple[int, ...]
    switches: tuple[str, ...]


@dataclass(slots=True)
class Programme:
    """A mixed-integer programme under construction."""

    upper: list[float] = field(default_factory=list)
    integer: list[bool] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    choose: dict[tuple[int, int], int] = field(default_factory=dict)
    """(tap, capture) -> column of x."""
    count: dict[tuple[int, int], int] = field(default_factory=dict)
    """(hop, tap) -> column of y."""
    need: dict[int, int] = field(default_factory=dict)
    """Ring -> its coverage row."""
    carry: dict[int, int] = field(default_factory=dict)
    """Capture -> its bandwidth row."""
    hold: dict[int, int] = field(default_factory=dict)
    """Capture -> the row of its session's sources."""
    slots: dict[str, int] = field(default_factory=dict)
    """Switch -> the row of its sessions."""
    session: dict[int, int] = field(default_factory=dict)
    """Capture -> column of s."""
    single: dict[int, int] = field(default_factory=dict)
    """Tap -> the row that gives it one session at most."""
    rooms: dict[str, int] = field(default_factory=dict)
    """Name of a limit on sessions by slice and direction -> its row."""
    entries: dict[str, list[int]] = field(default_factory=dict)
    """Switch -> the rows of its filter entries."""
    budgets: dict[int, int] = field(default_factory=dict)
    """Budget -> its row."""
    survive: dict[tuple[int, str], int] = field(default_factory=dict)
    """(ring, what is lost) -> the row of what is left of the ring."""
    stages: tuple[tuple[str, Terms], ...] = ()
    """(name, terms to minimise), first things first."""

    def column(self, *, upper: float = 1, integer: bool = True) -> int:
        """A new column from 0 to ``upper``."""
        self.upper.append(upper)
        self.integer.append(integer)
        return len(self.upper) - 1

    def row(self, terms: Iterable[tuple[int, int]], *, lower: float = -inf, upper: float = inf) -> int:
        """A new row."""
        self.rows.append(Row(tuple(terms), lower, upper))
        return len(self.rows) - 1

    def either(self, columns: Iterable[int]) -> int:
        """A new binary column that is 1 where one of ``columns`` is."""
        found = self.column()
        for column in columns:
            self.row([(column, 1), (found, -1)], upper=0)
        return found

    def loosen(self, row: int, column: int, coefficient: int) -> None:
        """Add ``coefficient * column`` to a row: a slack that an objective can price."""
        old = self.rows[row]
        self.rows[row] = Row((*old.terms, (column, coefficient)), old.lower, old.upper)
