"""Short digests of the fields of the input files, so that a stale plan can say which field changed."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from flowcheck_net.spec.load import Specs

_DIGITS = 12
"""Hexadecimal digits of a digest: enough to tell one content from another by accident, not by an enemy."""
_MOST = 256
"""A longer list has one digest for all of it."""


def field_digests(specs: Specs) -> tuple[tuple[str, str], ...]:
    """(``file.field``, digest), sorted. Devices, groups and buckets have one each, found by their names."""
    kinds = (("topology", specs.topology), ("job", specs.job), ("policy", specs.policy))
    return tuple(
        sorted(
            (f"{kind}.{path}", _digest(value))
            for kind, spec in kinds
            for name, field in spec.model_dump(mode="json").items()
            for path, value in _fields(name, field)
        )
    )


def changed_fields(before: tuple[tuple[str, str], ...], now: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Fields that differ, are new or are gone, sorted."""
    old, new = dict(before), dict(now)
    return tuple(sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name)))


def _fields(path: str, value: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - any JSON value
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield f"{path}.{name}", inner
    elif isinstance(value, list) and 0 < len(value) <= _MOST and all(_is_named(item) for item in value):
        for item in value:
            yield f"{path}[{item['name']}]", item
    else:
        yield path, value


def _is_named(item: Any) -> bool:  # noqa: ANN401 - any JSON value
    return isinstance(item, Mapping) and "name" in item


def _digest(value: Any) -> str:  # noqa: ANN401 - any JSON value
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
