"""When a switch started, of its clock and its uptime: a mark that bears its own uncertainty. Pure."""

import re
from collections.abc import Mapping
from datetime import datetime, timedelta

from flowcheck_net.drivers.dialects.base import ParseError

_CLOCK = re.compile(r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})[ T](?P<time>[0-9]{2}:[0-9]{2}:[0-9]{2})")


def boot_mark(clock: str, uptime: Mapping[str, int], release: str) -> str:
    """``since 2026-11-30T21:40 within 2 min, VRP 8.180``.

    Args:
        clock: an answer that has ``2026-11-30 22:04:05`` in it.
        uptime: ``days``, ``hours``, ``minutes``; what is below a minute was cut off.
        release: of the software.
    """
    match = _CLOCK.search(clock)
    if match is None:
        raise ParseError(f"no date and time are found in {clock[:80]!r}")
    # The switch's own clock, compared with itself only.
    now = datetime.fromisoformat(f"{match['date']}T{match['time']}")
    started = now - timedelta(**uptime)
    return f"since {started:%Y-%m-%dT%H:%M} within 2 min, {release.strip()}"
