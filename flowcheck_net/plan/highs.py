"""HiGHS on one programme: minimise, pin, minimise again, exact in whole numbers. The only file that imports highspy."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import ceil, gcd, inf

import highspy
import numpy as np

from flowcheck_net.errors import PlanError
from flowcheck_net.plan.programme import Programme, Terms

NAME = f"HiGHS {highspy.HIGHS_VERSION_MAJOR}.{highspy.HIGHS_VERSION_MINOR}.{highspy.HIGHS_VERSION_PATCH}"
_SEED = 20250330
"""Fixed for ever: with one thread it makes the same problem take the same path."""
_BASE = 65536
"""Of the digits in which large sums are minimised: small enough for the solver's tolerance of 1e-9 to be nothing."""


@dataclass(frozen=True, slots=True)
class Optimum:
    """One proven minimum."""

    columns: tuple[float, ...]
    value: int
    """Exact, from the rounded integer columns."""
    bound: int
    """No solution is smaller."""


class _Quiet(highspy.Highs):
    """HiGHS without Python callbacks: registering them prints a banner on standard output, where our JSON goes."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def enableCallbacks(self) -> None:
        """Nothing here uses them."""


class Solver:
    """HiGHS on one programme: minimise, pin, minimise again."""

    def __init__(self, programme: Programme) -> None:
        self._highs = _Quiet()
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("random_seed", _SEED),
            ("mip_rel_gap", 0.0),
            ("mip_abs_gap", 0.0),
            ("mip_feasibility_tolerance", 1e-9),
            ("primal_feasibility_tolerance", 1e-9),
        ):
            if self._highs.setOptionValue(option, value) != highspy.HighsStatus.kOk:
                raise PlanError(f"this version of HiGHS does not take the option {option}")
        self._columns = 0
        for upper, integer in zip(programme.upper, programme.integer, strict=True):
            self._column(upper, integer=integer)
        if not self._columns:  # HiGHS would call it empty, whatever its rows want.
            self._column(0.0, integer=False)
        for row in programme.rows:
            self._row(dict(row.terms), row.lower, row.upper)

    def _column(self, upper: float, *, integer: bool) -> int:
        self._highs.addVar(0.0, upper)
        if integer:
            self._highs.changeColIntegrality(self._columns, highspy.HighsVarType.kInteger)
        self._columns += 1
        return self._columns - 1

    def _row(self, terms: Mapping[int, int], lower: float, upper: float) -> None:
        columns = np.fromiter(terms.keys(), dtype=np.int32, count=len(terms))
        values = np.fromiter(terms.values(), dtype=np.float64, count=len(terms))
        self._highs.addRow(lower, upper, len(terms), columns, values)

    def settle(self, terms: Terms) -> Optimum | None:
        """Minimise ``terms`` and hold them there from now on; ``None`` when no solution exists.

        A solver works in floating point and would take 2 000 000 064 for 2 000 000 000. So large coefficients are
        written in digits to the base 65536, as in long addition: the sum of each digit gives a remainder below the base
        and an integer carry. The highest digit is minimised and held, then the next, each with small numbers only; the
        order of digit strings is the order of the sums.
        """
        unit = reduce(gcd, terms.values(), 0) or 1
        value = bound = 0
        columns: tuple[float, ...] = ()
        for digit in self._digits({column: coefficient // unit for column, coefficient in terms.items()}):
            found = self.minimise(digit)
            if found is None:
                return None
            self._row(digit, -inf, found.value + 0.5)
            value = value * _BASE + found.value
            bound = bound * _BASE + found.bound
            columns = found.columns
        return Optimum(columns, value * unit, bound * unit)

    def _digits(self, terms: Terms) -> Iterator[Terms]:
        """The digits of the sum of ``terms``, highest first, each as terms of its own."""
        digits: list[Terms] = []
        carry: Terms = {}
        while max(terms.values(), default=0) >= _BASE:
            low = {column: c % _BASE for column, c in terms.items() if c % _BASE} | carry
            terms = {column: c // _BASE for column, c in terms.items() if c >= _BASE}
            rest, over = self._column(_BASE - 1, integer=False), self._column(inf, integer=True)
            self._row({**low, rest: -1, over: -_BASE}, 0, 0)
            digits.append({rest: 1})
            carry = {over: 1}
        digits.append(terms | carry)
        return reversed(digits)

    def minimise(self, terms: Terms) -> Optimum | None:
        """The proven minimum of ``terms`` (coefficients below a million); ``None`` when no solution exists."""
        costs = np.zeros(self._columns)
        for column, coefficient in terms.items():
            costs[column] = coefficient
        self._highs.changeColsCost(self._columns, np.arange(self._columns, dtype=np.int32), costs)
        self._highs.run()
        status = self._highs.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return None
        if status != highspy.HighsModelStatus.kOptimal:
            raise PlanError(f"the solver stopped without a proof: {self._highs.modelStatusToString(status)}")
        columns = tuple(self._highs.getSolution().col_value)
        value = exact(terms, columns)
        # The objective is whole: a bound of 41.2 proves 42. The 1e-6 is the solver's own tolerance on whole numbers.
        bound = min(value, ceil(self._highs.getInfo().mip_dual_bound - 1e-6))
        return Optimum(columns, value, bound)


def exact(terms: Terms, columns: Sequence[float]) -> int:
    """The sum in whole numbers."""
    return sum(coefficient * round(columns[column]) for column, coefficient in terms.items())
