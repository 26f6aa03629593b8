"""Values of the OVSDB protocol (RFC 7047, 5.1) as Python values, and back."""

from collections.abc import Iterable, Mapping

Row = Mapping[str, object]
Atom = str | int | float | bool
"""A UUID is a ``str`` here; ``uuid`` and ``named`` mark it on the wire."""


def atoms(value: object) -> tuple[Atom, ...]:
    """A set, sorted; a set of one comes as its bare element. Raises ValueError."""
    if isinstance(value, list) and len(value) == 2 and value[0] == "set" and isinstance(value[1], list):
        return tuple(sorted((_atom(v) for v in value[1]), key=str))
    return (_atom(value),)


def texts(value: object) -> tuple[str, ...]:
    """A set of texts or UUIDs, sorted."""
    return tuple(str(v) for v in atoms(value))


def first(value: object) -> str:
    """The element of a set of none or one as text; none: an empty text."""
    return next(iter(texts(value)), "")


def number(value: object) -> int | None:
    """The element of a set of none or one as a whole number."""
    found = next(iter(atoms(value)), None)
    return int(found) if isinstance(found, int | float) else None


def mapping(value: object) -> dict[str, str]:
    """A map, its values as text. Raises ValueError."""
    if isinstance(value, list) and len(value) == 2 and value[0] == "map" and isinstance(value[1], list):
        return {str(_atom(k)): str(_atom(v)) for k, v in value[1]}
    raise ValueError(f"a map is needed, found {value!r}")


def plain(name: object) -> str:
    """A name of the database as it can be shown: what moves a terminal's cursor or breaks its line is written out."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(name))


def uuid(text: str) -> list[str]:
    """A row that is there."""
    return ["uuid", text]


def named(text: str) -> list[str]:
    """A row that the same transaction inserts."""
    return ["named-uuid", text]


def set_of(values: Iterable[object]) -> list[object]:
    """A set on the wire."""
    return ["set", list(values)]


def map_of(values: Mapping[str, str]) -> list[object]:
    """A map on the wire."""
    return ["map", [[k, v] for k, v in sorted(values.items())]]


def _atom(value: object) -> Atom:
    if isinstance(value, list) and len(value) == 2 and value[0] in ("uuid", "named-uuid"):
        return str(value[1])
    if isinstance(value, str | int | float | bool):
        return value
    raise ValueError(f"an atom is needed, found {value!r}")
