"""Twins with entries, for tests."""

from tests.doubles.p4_twin import Twin
from tests.doubles.p4_twin_tables import Entry, exact
from tests.p4.frames import mapped

IN, OUT, MONITOR = 1, 2, 3


def forwarding() -> Twin:
    """What enters at IN leaves at OUT and the other way; clone session 5 goes to MONITOR."""
    twin = Twin()
    for a, b in ((IN, OUT), (OUT, IN)):
        twin.tables["fc.forward"].entries.append(Entry(exact(port=a), "fc.to_port", {"port": b}, priority=1))
    twin.clone_sessions[5] = [(MONITOR, 1)]
    return twin


def rule(port: int, *, session: int = 5, point: int = 0, windowed: int = 0, priority: int = 1, **match: int) -> Entry:
    """An ACL entry on a port, and whole fields beside it."""
    parameters = {"session": session, "point": point, "windowed": windowed}
    return Entry(exact(port=port, **match), "mirror", parameters, priority)


def follow(
    *,
    period: int,
    low: int,
    high: int,
    index: int = 0,
    epoch: int = 1,
    anchor: int | None = 0,
    destination: str = "10.0.0.2",
    qp: int = 0x11,
) -> Entry:
    """A flow entry; ``anchor`` is the PSN of message 0, None: the first packet that is seen."""
    parameters = {
        "index": index,
        "epoch": epoch,
        "anchored": int(anchor is not None),
        "anchor": (anchor or 0) << 8,
        "period": period,
        "low": low,
        "high": high,
    }
    return Entry(exact(dst=mapped(destination), qp=qp), "fc.follow", parameters)
