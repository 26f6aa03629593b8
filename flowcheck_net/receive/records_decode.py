"""From plain JSON values to records, each field by the type that its dataclass gives it."""

import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any

from flowcheck_net.receive.records import Capture, Flow, Records

_Decoder = Callable[[Any], Any]
_LATER: dict[str, Any] = {"loss": {}}
"""Fields of a capture that came after others, which files of before do not have."""


class Unfit(Exception):
    """A value that does not fit; the place is collected on the way out."""

    def __init__(self, message: str) -> None:
        self.message = message
        self.path: list[str] = []

    def at(self, place: str | int) -> "Unfit":
        """Found at this key or number, one level further out."""
        self.path.append(str(place))
        return self

    def __str__(self) -> str:
        place = f"{'.'.join(reversed(self.path))}: " if self.path else ""
        return f"{place}{self.message}"


def _scalar(kind: type) -> _Decoder:
    def decode(value: Any) -> Any:  # noqa: ANN401 - any JSON value
        if type(value) is not kind:  # exact: True is no int here
            raise Unfit(f"expected {kind.__name__}, found {value!r:.40}")
        return value

    return decode


def _enumeration(kind: type[StrEnum]) -> _Decoder:
    def decode(value: Any) -> Any:  # noqa: ANN401 - any JSON value
        try:
            return kind(value)
        except ValueError:
            raise Unfit(f"expected one of {', '.join(kind)}, found {value!r:.40}") from None

    return decode


def _optional(inner: _Decoder) -> _Decoder:
    return lambda value: None if value is None else inner(value)


def _sequence(inner: _Decoder, length: int | None) -> _Decoder:
    def decode(value: Any) -> tuple[Any, ...]:  # noqa: ANN401 - any JSON value
        if type(value) is not list or (length is not None and len(value) != length):
            raise Unfit(f"expected a list{'' if length is None else f' of {length}'}, found {value!r:.40}")
        decoded = []
        for number, item in enumerate(value):
            try:
                decoded.append(inner(item))
            except Unfit as error:
                raise error.at(number)  # noqa: B904 - the same error
        return tuple(decoded)

    return decode


def _counts(*, optional: bool) -> _Decoder:
    def decode(value: Any) -> dict[str, int | None]:  # noqa: ANN401 - any JSON value
        if type(value) is not dict:
            raise Unfit(f"expected counts by name, found {value!r:.40}")
        for name, count in value.items():
            if (type(count) is not int or count < 0) and not (optional and count is None):
                raise Unfit(f"expected a count, found {count!r:.40}").at(name)
        return value

    return decode


def _record(kind: type) -> _Decoder:
    hints = typing.get_type_hints(kind)
    decoders = {each.name: _decoder(hints[each.name]) for each in fields(kind)}

    def decode(value: Any) -> Any:  # noqa: ANN401 - any JSON value
        if type(value) is dict and kind is Capture:
            value = {**_LATER, **value}
        if type(value) is not dict or value.keys() != decoders.keys():
            raise Unfit(f"expected the keys {', '.join(sorted(decoders))}")
        decoded = {}
        for name, inner in decoders.items():
            try:
                decoded[name] = inner(value[name])
            except Unfit as error:
                raise error.at(name)  # noqa: B904 - the same error
        return kind(**decoded)

    return decode


def _decoder(hint: Any) -> _Decoder:  # noqa: ANN401 - any type of a records field
    """The decoder of one field, from its type, so that the dataclasses stay the only description of the format."""
    hint = getattr(hint, "__supertype__", hint)  # a NewType
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        return _optional(_decoder(next(each for each in arguments if each is not types.NoneType)))
    if origin is Sequence:
        return _sequence(_decoder(arguments[0]), None)
    if origin is tuple:
        return _sequence(_decoder(arguments[0]), None if arguments[1] is Ellipsis else len(arguments))
    if origin is dict:
        return _counts(optional=arguments[1] is not int)
    if is_dataclass(hint):
        return _record(typing.cast(type, hint))
    return _enumeration(hint) if issubclass(hint, StrEnum) else _scalar(hint)


_RECORDS = _record(Records)


def _check_capture(capture: Capture) -> None:
    if sum(capture.frames.values()) != capture.packets:
        raise Unfit("the frames do not add up to the packets").at(capture.name)


def _check_flow(flow: Flow) -> None:
    """Ranges of positions must be sorted, disjoint and maximal; repeats must lie in them."""
    edge = None
    for first, last in flow.seen:
        if last < first or (edge is not None and first <= edge + 1):
            raise Unfit(f"the ranges of seen packets are not in order at {first}").at("seen")
        edge = last
    positions = [position for position, _ in flow.repeats]
    if positions != sorted(set(positions)) or any(extra < 1 for _, extra in flow.repeats):
        raise Unfit("the repeats are not in order").at("repeats")


def decode_records(value: Any) -> Records:  # noqa: ANN401 - any JSON value
    """Records of a document without version and digest; raises Unfit with the place of the first fault."""
    records: Records = _RECORDS(value)
    for capture in records.captures:
        _check_capture(capture)
    for flow in records.flows:
        _check_flow(flow)
    return records
