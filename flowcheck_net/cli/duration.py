"""Spans of time on the command line: ``90s``, ``5m``, ``1h30m``."""

import re

import click

_SPAN = re.compile(r"(?:(?P<h>[0-9]+)h)?(?:(?P<m>[0-9]+)m)?(?:(?P<s>[0-9]+)s)?")
_SECONDS = {"h": 3600, "m": 60, "s": 1}


class Duration(click.ParamType[float]):
    """Seconds, written with their units."""

    name = "duration"

    def __init__(self, least: float, most: float) -> None:
        """Between ``least`` and ``most`` seconds, both included."""
        self._least, self._most = least, most

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The seconds of a text; a number is a default of ours."""
        if isinstance(value, int | float):
            return float(value)
        match = _SPAN.fullmatch(str(value))
        if match is None or not value:
            self.fail(f"{value!r} is no span of time such as 90s, 5m or 1h30m", param, ctx)
        seconds = sum(int(count) * _SECONDS[unit] for unit, count in match.groupdict().items() if count)
        if not self._least <= seconds <= self._most:
            self.fail(f"{value}: from {self._least:g} to {self._most:g} seconds are possible", param, ctx)
        return float(seconds)
