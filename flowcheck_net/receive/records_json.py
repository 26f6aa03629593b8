"""Records as one canonical JSON document: version, digest over the rest, and every field by its name."""

import hashlib
import json
import types
import typing
from collections.abc import Callable
from dataclasses import asdict, fields, is_dataclass
from enum import StrEnum
from typing import Any

from flowcheck_net.errors import RecordsCorrupt
from flowcheck_net.receive.records import RECORDS_VERSION, Capture, Flow, Records

_HINT = "write the records again with `flowcheck-net replay`"
_Decoder = Callable[[Any], Any]


class _Unfit(Exception):
    """A value that does not fit; the place is collected on the way out."""

    def __init__(self, message: str) -> None:
        self.message = message
        self.path: list[str] = []

    def at(self, place: str | int) -> "_Unfit":
        self.path.append(str(place))
        return self


def _canonical(document: dict[str, Any]) -> str:
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _digest(document: dict[str, Any]) -> str:
    """SHA-256 (hex) of the canonical form of all but the digest."""
    rest = {key: value for key, value in document.items() if key != "digest"}
    return hashlib.sha256(_canonical(rest).encode()).hexdigest()


def records_to_json(records: Records) -> str:
    """The document, on one line. Equal records give equal text."""
    document = {"version": RECORDS_VERSION, **asdict(records)}
    return _canonical({**document, "digest": _digest(document)})


def _scalar(kind: type) -> _Decoder:
    def decode(value: Any) -> Any:  # noqa: ANN401 - any JSON value
        if type(value) is not kind:  # exact: True is no int here
            raise _Unfit(f"expected {kind.__name__}, found {value!r:.40}")
        return value

    return decode


def _enumeration(kind: type[StrEnum]) -> _Decoder:
    def decode(value: Any) -> Any:  # noqa: ANN401 - any JSON value
        try:
            return kind(value)
        except ValueError:
            raise _Unfit(f"expected one of {', '.join(kind)}, found {value!r:.40}") from None

    return decode


def _optional(inner: _Decoder) -> _Decoder:
    return lambda value: None if value is None else inner(value)


def _sequence(inner: _Decoder, length: int | None) -> _Decoder:
    def decode(value: Any) -> tuple[Any, ...]:  # noqa: ANN401 - any JSON value
        if type(value) is not list or (length is not None and len(value) != length):
            raise _Unfit(f"expected a list{'' if length is None else f' of {length}'}, found {value!r:.40}")
        decoded = []
        for number, item in enumerate(value):
            try:
                decoded.append(inner(item))
            except _Unfit as error:
                raise error.at(number)  # noqa: B904 - the same error
        return tuple(decoded)

    return decode


def _counts(value: Any) -> dict[str, int]:  # noqa: ANN401 - any JSON value
    if type(value) is not dict:
        raise _Unfit(f"expected counts by name, found {value!r:.40}")
    for name, count in value.items():
        if type(count) is not int or count < 0:
            raise _Unfit(f"expected a count, found {count!r:.40}").at(name)
    return value


def _record(kind: type) -> _Decoder:
    hints = typing.get_type_hints(kind)
    decoders = {each.name: _decoder(hints[each.name]) for each in fields(kind)}

    def decode(value: Any) -> Any:  # noqa: ANN401 - any JSON value
        if type(value) is not dict or value.keys() != decoders.keys():
            raise _Unfit(f"expected the keys {', '.join(sorted(decoders))}")
        decoded = {}
        for name, inner in decoders.items():
            try:
                decoded[name] = inner(value[name])
            except _Unfit as error:
                raise error.at(name)  # noqa: B904 - the same error
        return kind(**decoded)

    return decode


def _decoder(hint: Any) -> _Decoder:  # noqa: ANN401 - any type of a records field
    """The decoder of one field, from its type, so that the dataclasses stay the only description of the format."""
    hint = getattr(hint, "__supertype__", hint)  # a NewType
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        return _optional(_decoder(next(each for each in arguments if each is not types.NoneType)))
    if origin is tuple:
        return _sequence(_decoder(arguments[0]), None if arguments[1] is Ellipsis else len(arguments))
    if origin is dict:
        return _counts
    if is_dataclass(hint):
        return _record(typing.cast(type, hint))
    return _enumeration(hint) if issubclass(hint, StrEnum) else _scalar(hint)


_RECORDS = _record(Records)


def _check_capture(capture: Capture) -> None:
    if sum(capture.frames.values()) != capture.packets:
        raise _Unfit("the frames do not add up to the packets").at(capture.name)


def _check_flow(flow: Flow) -> None:
    """Ranges of positions must be sorted, disjoint and maximal; repeats must lie in them."""
    edge = None
    for first, last in flow.seen:
        if last < first or (edge is not None and first <= edge + 1):
            raise _Unfit(f"the ranges of seen packets are not in order at {first}").at("seen")
        edge = last
    positions = [position for position, _ in flow.repeats]
    if positions != sorted(set(positions)) or any(extra < 1 for _, extra in flow.repeats):
        raise _Unfit("the repeats are not in order").at("repeats")


def _decode(document: Any) -> Records:  # noqa: ANN401 - any JSON value
    if type(document) is not dict or "version" not in document or "digest" not in document:
        raise _Unfit("this is JSON, but not a records file")
    if type(document["version"]) is not int or document["version"] != RECORDS_VERSION:
        raise _Unfit(f"version {document['version']!r:.20}, this program reads version {RECORDS_VERSION}")
    if document["digest"] != _digest(document):
        raise _Unfit("the digest does not fit the content: the file was changed or cut")
    rest = {key: value for key, value in document.items() if key not in ("version", "digest")}
    records: Records = _RECORDS(rest)
    for capture in records.captures:
        _check_capture(capture)
    for flow in records.flows:
        _check_flow(flow)
    return records


def records_from_json(text: str, source: str) -> Records:
    """Read what ``records_to_json`` wrote.

    Args:
        text: the document.
        source: where it comes from, for messages.

    Raises:
        RecordsCorrupt: not JSON, another version, a wrong digest, or a field that cannot be.
    """
    try:
        return _decode(json.loads(text))
    except _Unfit as error:
        place = f" {'.'.join(reversed(error.path))}:" if error.path else ""
        raise RecordsCorrupt(f"{source}:{place} {error.message}", hint=_HINT) from error
    except json.JSONDecodeError as error:
        raise RecordsCorrupt(f"{source}:{error.lineno}:{error.colno}: not JSON: {error.msg}", hint=_HINT) from error
    except (ValueError, RecursionError) as error:  # numbers or nesting beyond Python's limits
        raise RecordsCorrupt(f"{source}: not readable JSON: {error}", hint=_HINT) from error
