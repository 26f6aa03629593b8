"""Frozen dataclasses <-> JSON values, driven by their type hints, with every deviation of form refused.

Records that come by the thousand (ranks, hops, coverage) are arrays in field order; all others are objects.
"""

import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from typing import Any, NewType, TypeVar

T = TypeVar("T")


class FormError(Exception):
    """A JSON value has not the form that the type asks for; the message begins with its place."""


class OtherFormError(FormError):
    """A record has other fields than the type: another version of the program wrote it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a value may be beyond its type."""

    allowed: str
    """Such as ``1 to 64``; follows ``must be``."""
    holds: Callable[[Any], bool]
    secret: bool = False
    """What stands there instead may be a secret: it is not shown."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A field of a dataclass."""

    name: str
    hint: Any
    rule: Rule | None
    later: bool
    """May be absent: it is an empty list then."""


class Codec:
    """Encodes and decodes values.

    Args:
        rows: The dataclasses that are written as arrays.
        rules: What decoded values may be, by ``Class.field``, or else by the name of a ``NewType`` or a scalar type.
        later: ``Class.field`` of what older files do not have: left out where it is empty.
    """

    def __init__(
        self,
        rows: frozenset[type],
        rules: Mapping[str, Rule] = types.MappingProxyType({}),
        later: frozenset[str] = frozenset(),
    ) -> None:
        self._rows = rows
        self._rules = rules
        self._later = later
        self._columns: dict[type, tuple[_Column, ...]] = {}

    def encode(self, value: Any) -> Any:  # noqa: ANN401 - any dataclass in, any JSON value out
        """A JSON value for dataclasses, tuples, enums and scalars."""
        if is_dataclass(value) and not isinstance(value, type):
            pairs = [(f.name, self.encode(getattr(value, f.name))) for f in fields(value)]
            if type(value) in self._rows:
                return [v for _, v in pairs]
            return {n: v for n, v in pairs if v != [] or f"{type(value).__name__}.{n}" not in self._later}
        if isinstance(value, tuple):
            return [self.encode(item) for item in value]
        return value.value if isinstance(value, StrEnum) else value

    def decode(self, value: object, wanted: type[T], path: str) -> T:
        """The value as ``wanted``.

        Raises:
            FormError: A key is missing or unknown, a type is wrong, or a word is none of the known ones.
        """
        result: T = self._decode(value, wanted, path)
        return result

    def _decode(self, value: object, wanted: Any, path: str) -> Any:  # noqa: ANN401 - type hints are not types
        if isinstance(wanted, NewType):
            rule = self._rules.get(wanted.__name__)
            if rule is None:
                return self._decode(value, wanted.__supertype__, path)
            return _ruled(_scalar(value, wanted.__supertype__, path), rule, path)
        if typing.get_origin(wanted) is tuple:
            return self._tuple(value, typing.get_args(wanted), path)
        if is_dataclass(wanted):
            return self._record(value, wanted, path)
        if isinstance(wanted, type) and issubclass(wanted, StrEnum):
            return _word(value, wanted, path)
        return _ruled(_scalar(value, wanted, path), self._rules.get(wanted.__name__), path)

    def _tuple(self, value: object, items: tuple[Any, ...], path: str) -> tuple[Any, ...]:
        listed = _typed(value, list, "a list", path)
        if len(items) == 2 and items[1] is Ellipsis:
            return tuple(self._decode(v, items[0], f"{path}[{i}]") for i, v in enumerate(listed))
        if len(listed) != len(items):
            raise FormError(f"{path}: expected {len(items)} items, found {len(listed)}")
        return tuple(
            self._decode(v, item, f"{path}[{i}]") for i, (v, item) in enumerate(zip(listed, items, strict=True))
        )

    def _record(self, value: object, wanted: Any, path: str) -> Any:  # noqa: ANN401 - any dataclass
        columns = self._columns_of(wanted)
        if wanted in self._rows:
            listed = _typed(value, list, "a row", path)
            if len(listed) != len(columns):
                names = ", ".join(column.name for column in columns)
                raise OtherFormError(f"{path}: expected the {len(columns)} columns {names}, found {len(listed)}")
        else:
            listed = self._in_order(_typed(value, dict, "an object", path), columns, path)
        return wanted(*(self._field(v, column, path) for v, column in zip(listed, columns, strict=True)))

    def _columns_of(self, wanted: type) -> tuple[_Column, ...]:
        """The fields of a dataclass in order: looked up once, for there are thousands of records."""
        if wanted not in self._columns:
            hints = typing.get_type_hints(wanted)
            names = (f.name for f in fields(wanted))
            keys = ((n, f"{wanted.__name__}.{n}") for n in names)
            made = (_Column(n, hints[n], self._rules.get(key), key in self._later) for n, key in keys)
            self._columns[wanted] = tuple(made)
        return self._columns[wanted]

    def _in_order(self, given: dict[str, Any], columns: tuple[_Column, ...], path: str) -> list[Any]:
        names = [column.name for column in columns]
        missing = [c.name for c in columns if c.name not in given and not c.later]
        unknown = sorted(set(given) - set(names))
        if missing or unknown:
            words = [f"missing {n!r}" for n in missing] + [f"unknown {n!a}"[:80] for n in unknown[:3]]
            raise OtherFormError(f"{path}: {', '.join(words)}")
        return [given.get(n, []) for n in names]

    def _field(self, value: object, column: _Column, path: str) -> Any:  # noqa: ANN401 - any field
        path = f"{path}.{column.name}"
        if column.rule is None:
            return self._decode(value, column.hint, path)
        plain = column.hint.__supertype__ if isinstance(column.hint, NewType) else column.hint
        if plain in _SCALARS:
            return _ruled(_scalar(value, plain, path), column.rule, path)
        return _ruled(self._decode(value, column.hint, path), column.rule, path)


def _ruled(value: Any, rule: Rule | None, path: str) -> Any:  # noqa: ANN401 - passed through
    if rule is not None and not rule.holds(value):
        found = "" if rule.secret else f" (found {_shown(value)})"
        raise FormError(f"{path}: must be {rule.allowed}{found}")
    return value


def _shown(value: object) -> str:
    """A value in a message: short, and harmless to a terminal."""
    if isinstance(value, tuple):
        return ".".join(_shown(item) for item in value)
    if isinstance(value, int) and value.bit_length() > 80:
        return "a number of more than 24 digits"
    return ascii(value)[:40]


def _typed(value: object, wanted: type, words: str, path: str) -> Any:  # noqa: ANN401 - narrowed by the caller
    if not isinstance(value, wanted):
        raise FormError(f"{path}: expected {words}, found {type(value).__name__}")
    return value


def _word(value: object, wanted: type[StrEnum], path: str) -> StrEnum:
    known = [item.value for item in wanted]
    if value not in known:
        raise FormError(f"{path}: expected one of {', '.join(known)}")
    return wanted(value)


def _is_text(value: object) -> bool:
    """Text without lone surrogates, which no terminal or file could show."""
    return isinstance(value, str) and not any("\ud800" <= c <= "\udfff" for c in value)


_SCALARS: types.MappingProxyType[type, tuple[str, Callable[[object], bool]]] = types.MappingProxyType(
    {
        bool: ("true or false", lambda v: isinstance(v, bool)),
        int: ("a whole number", lambda v: isinstance(v, int) and not isinstance(v, bool)),
        float: ("a number", lambda v: isinstance(v, (int, float)) and not isinstance(v, bool)),
        str: ("text", _is_text),
    }
)


def _scalar(value: object, wanted: Any, path: str) -> object:  # noqa: ANN401 - a scalar type
    words, fits = _SCALARS[wanted]
    if not fits(value):
        raise FormError(f"{path}: expected {words}, found {type(value).__name__}")
    return value
