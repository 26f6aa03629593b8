"""Frozen dataclasses <-> JSON values, driven by their type hints, with every deviation of form refused.

Records that come by the thousand (ranks, hops, coverage) are arrays in field order; all others are objects.
"""

import types
import typing
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any, NewType, TypeVar

T = TypeVar("T")


class FormError(Exception):
    """A JSON value has not the form that the type asks for; the message begins with its place."""


class Codec:
    """Encodes and decodes values; ``rows`` are the dataclasses that are written as arrays."""

    def __init__(self, rows: frozenset[type]) -> None:
        self._rows = rows

    def encode(self, value: Any) -> Any:  # noqa: ANN401 - any dataclass in, any JSON value out
        """A JSON value for dataclasses, tuples, enums and scalars."""
        if is_dataclass(value) and not isinstance(value, type):
            pairs = [(f.name, self.encode(getattr(value, f.name))) for f in fields(value)]
            return [v for _, v in pairs] if type(value) in self._rows else dict(pairs)
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
            return self._decode(value, wanted.__supertype__, path)
        if typing.get_origin(wanted) is tuple:
            return self._tuple(value, typing.get_args(wanted), path)
        if is_dataclass(wanted):
            return self._record(value, wanted, path)
        if isinstance(wanted, type) and issubclass(wanted, StrEnum):
            return _word(value, wanted, path)
        return _scalar(value, wanted, path)

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
        hints = typing.get_type_hints(wanted)
        names = [f.name for f in fields(wanted)]
        if wanted in self._rows:
            listed = _typed(value, list, "a row", path)
            if len(listed) != len(names):
                raise FormError(f"{path}: expected the {len(names)} columns {', '.join(names)}, found {len(listed)}")
            given = dict(zip(names, listed, strict=True))
        else:
            given = _typed(value, dict, "an object", path)
        missing = [n for n in names if n not in given]
        unknown = sorted(set(given) - set(names))
        if missing or unknown:
            words = [f"missing {n!r}" for n in missing] + [f"unknown {n!r}" for n in unknown]
            raise FormError(f"{path}: {', '.join(words)}")
        return wanted(**{n: self._decode(given[n], hints[n], f"{path}.{n}") for n in names})


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


def _scalar(value: object, wanted: type, path: str) -> object:
    words, fits = _SCALARS[wanted]
    if not fits(value):
        raise FormError(f"{path}: expected {words}, found {type(value).__name__}")
    return value
