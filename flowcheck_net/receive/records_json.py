"""Records as one canonical JSON document: version, digest over the rest, and every field by its name."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, fields
from operator import attrgetter
from typing import Any

from flowcheck_net.errors import RecordsCorrupt
from flowcheck_net.receive.records import RECORDS_VERSION, Flow, Message, Records
from flowcheck_net.receive.records_decode import Unfit, decode_records
from flowcheck_net.receive.records_rows import MessageRows

HINT = "write the records again with `flowcheck-net replay`"
_ROW = (
    *("position", "bytes", "packets", "expected_packets", "immediate", "ll_flag", "icrc_sum"),
    *("first_time", "last_time", "first_psn", "opcode"),
)
"""The fields of a message in the order of ``records_rows.ROW``."""
_OPTIONAL = frozenset({"bytes", "expected_packets", "immediate", "ll_flag", "icrc_sum"})
_MESSAGE = "{" + ",".join(f'"{name}":%s' for name in sorted(_ROW)) + "}"
"""The canonical text of a message, for there may be millions of them."""
_PLACES = tuple((_ROW.index(name), name in _OPTIONAL) for name in sorted(_ROW))
_of_message = attrgetter(*_ROW)


def _canonical(value: Any) -> str:  # noqa: ANN401 - any JSON value
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _digest(text: str) -> str:
    """SHA-256 (hex)."""
    return hashlib.sha256(text.encode()).hexdigest()


def _joined(texts: dict[str, str]) -> str:
    """The canonical object whose values have these texts."""
    return "{" + ",".join(f'"{key}":{texts[key]}' for key in sorted(texts)) + "}"


def records_to_json(records: Records) -> str:
    """The document, on one line. Equal records give equal text."""
    texts = {
        "version": _canonical(RECORDS_VERSION),
        "sources": _canonical(records.sources),
        "warnings": _canonical(records.warnings),
        "captures": _canonical([asdict(capture) for capture in records.captures]),
        "flows": f"[{','.join(map(_flow, records.flows))}]",
    }
    return _joined({**texts, "digest": _canonical(_digest(_joined(texts)))})


def _flow(flow: Flow) -> str:
    plain: dict[str, Any] = {each.name: getattr(flow, each.name) for each in fields(flow)}
    plain["missing"] = [asdict(each) for each in flow.missing]
    plain["gaps"] = [asdict(each) for each in flow.gaps]
    texts = {name: _canonical(value) for name, value in plain.items() if name != "messages"}
    return _joined({**texts, "messages": f"[{','.join(map(_message, _rows(flow.messages)))}]"})


def _rows(messages: Iterable[Message]) -> Iterator[Sequence[int | None]]:
    """In the order of ``_ROW``; what is not known is None, or -1."""
    return iter(messages.tuples()) if isinstance(messages, MessageRows) else map(_of_message, messages)


def _message(row: Sequence[int | None]) -> str:
    return _MESSAGE % tuple(
        "null" if (value := row[place]) is None or (optional and value == -1) else value for place, optional in _PLACES
    )


def _decode(document: Any) -> Records:  # noqa: ANN401 - any JSON value
    if type(document) is not dict or not document.keys() >= {"version", "digest", "captures"}:
        raise Unfit("this is JSON, but not a records file")
    if type(document["version"]) is not int or document["version"] != RECORDS_VERSION:
        raise Unfit(f"version {document['version']!r:.20}, this program reads version {RECORDS_VERSION}")
    without = {key: value for key, value in document.items() if key != "digest"}
    if document["digest"] != _digest(_canonical(without)):
        raise Unfit("the digest does not fit the content: the file was changed or cut")
    return decode_records({key: value for key, value in without.items() if key != "version"})


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
    except Unfit as error:
        raise RecordsCorrupt(f"{source}: {error}", hint=HINT) from error
    except json.JSONDecodeError as error:
        raise RecordsCorrupt(f"{source}:{error.lineno}:{error.colno}: not JSON: {error.msg}", hint=HINT) from error
    except (ValueError, RecursionError) as error:  # numbers or nesting beyond Python's limits
        raise RecordsCorrupt(f"{source}: not readable JSON: {error}", hint=HINT) from error
