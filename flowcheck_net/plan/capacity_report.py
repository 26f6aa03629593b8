"""The form of a capacity report."""

from dataclasses import dataclass

from flowcheck_net.plan.capacity_given import Given, Ground


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of the report."""

    section: str
    where: str
    """Observation point, capture port, node or stage; empty: the whole job."""
    name: str
    value: float | None
    """None: without bound."""
    unit: str
    """Empty: a share or a count."""
    ground: Ground
    formula: str
    source: str
    """Where the formula's numbers come from."""


@dataclass(frozen=True, slots=True)
class CapacityReport:
    """The whole report."""

    job: str
    given: tuple[Given, ...]
    figures: tuple[Figure, ...]

    @property
    def exceeded(self) -> tuple[Figure, ...]:
        """Every use over 100 % and every backlog that grows: what this plan cannot do at this rate."""
        return tuple(
            figure
            for figure in self.figures
            if figure.value is not None
            and ((figure.name.endswith(" use") and figure.value > 1) or (figure.name == "growth" and figure.value > 0))
        )

    def find(self, section: str, name: str, where: str = "") -> float | None:
        """The value of one figure.

        Raises:
            KeyError: there is none of that name and place.
        """
        for figure in self.figures:
            if (figure.section, figure.name, figure.where) == (section, name, where):
                return figure.value
        raise KeyError(section, name, where)


@dataclass(frozen=True, slots=True)
class Heading:
    """Section and place of the figures that follow."""

    section: str
    where: str = ""

    def figure(self, name: str, value: float | None, unit: str, formula: str, source: str) -> Figure:
        """A computed figure; what it is computed from is in formula and source."""
        return Figure(self.section, self.where, name, value, unit, Ground.COMPUTED, formula, source)
