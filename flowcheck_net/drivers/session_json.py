"""A mirror session as JSON, read strictly: used by the fake switch's file and by the journal."""

from collections.abc import Iterable, Mapping

from flowcheck_net.ids import Address, PortName, Qpn, SessionName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSession, MirrorSource, WindowRule

Json = Mapping[str, object]


def session_to_json(session: MirrorSession) -> dict[str, object]:
    """Plain JSON values, keys as in ``MirrorSession``; ``windows`` only where there are any."""
    windows = [
        {"destination": w.destination, "qpn": w.qpn, "period": w.period, "low": w.low, "high": w.high}
        for w in session.windows
    ]
    return {
        "name": session.name,
        "sources": [{"port": s.port, "direction": s.direction.value} for s in session.sources],
        "destination": session.destination,
        "filters": [{"source": f.source, "destination": f.destination} for f in session.filters],
        **({"windows": windows} if windows else {}),
    }


def session_from_json(value: object) -> MirrorSession:
    """The inverse of ``session_to_json``.

    Raises:
        ValueError: what is wrong, and where.
    """
    raw = mapping(value, "session", required={"name", "sources", "destination"}, optional={"filters", "windows"})
    name = text(raw["name"], "session name")
    sources = (
        mapping(s, f"source of {name}", required={"port", "direction"})
        for s in items(raw["sources"], f"{name}.sources")
    )
    filters = (
        mapping(f, f"filter of {name}", required={"source", "destination"})
        for f in items(raw.get("filters", []), f"{name}.filters")
    )
    return MirrorSession(
        name=SessionName(name),
        sources=tuple(
            MirrorSource(PortName(text(s["port"], f"port of {name}")), Direction(text(s["direction"], "direction")))
            for s in sources
        ),
        destination=PortName(text(raw["destination"], f"destination of {name}")),
        filters=tuple(
            FlowFilter(Address(text(f["source"], "source")), Address(text(f["destination"], "destination")))
            for f in filters
        ),
        windows=tuple(_window(w, name) for w in items(raw.get("windows", []), f"{name}.windows")),
    )


def _window(value: object, name: str) -> WindowRule:
    keys = ("qpn", "period", "low", "high")
    raw = mapping(value, f"window of {name}", required={"destination", *keys})
    qpn, period, low, high = (number(raw[key], f"{key} of a window of {name}") for key in keys)
    return WindowRule(
        Address(text(raw["destination"], f"destination of a window of {name}")), Qpn(qpn), period, low, high
    )


def mapping(value: object, what: str, *, required: Iterable[str] = (), optional: Iterable[str] = ()) -> Json:
    """``value`` as a JSON object with exactly these keys, or ValueError."""
    if not isinstance(value, dict):
        raise ValueError(f"{what}: an object is needed, found {value!r}")
    need, may = set(required), set(optional)
    if missing := sorted(need - value.keys()):
        raise ValueError(f"{what}: {', '.join(missing)} is missing")
    if unknown := sorted(value.keys() - need - may):
        raise ValueError(f"{what}: unknown key {', '.join(unknown)}")
    return value


def items(value: object, what: str) -> list[object]:
    """``value`` as a JSON array, or ValueError."""
    if not isinstance(value, list):
        raise ValueError(f"{what}: a list is needed, found {value!r}")
    return value


def text(value: object, what: str) -> str:
    """``value`` as a JSON string that is not empty and that a file can hold, or ValueError."""
    if not isinstance(value, str) or not value or any("\ud800" <= c <= "\udfff" for c in value):
        raise ValueError(f"{what}: a text is needed, found {value!a}")
    return value


def number(value: object, what: str) -> int:
    """``value`` as a whole number of 0 or more, or ValueError."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{what}: a whole number of 0 or more is needed, found {value!r}")
    return value
