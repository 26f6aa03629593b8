"""What each platform can mirror: capability tables as data, every number with its source and how sure it is."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from flowcheck_net.errors import PlanError
from flowcheck_net.intent import Capabilities, Counted, Direction, SessionLimit
from flowcheck_net.spec.load import load_yaml
from flowcheck_net.spec.topology import Limits

_TABLES = Path(__file__).parent
_NEEDED = ("max_sessions", "max_sources_per_session", "directions", "filters")
"""What a switch without a table must say for itself."""
CONFIDENCE = ("measured", "code", "document", "second-hand", "assumed", "chosen")
"""``sure`` of a number: measured by us, read in source code, in the maker's document, told by others, assumed on
the safe side because nothing was found, or chosen by us (a fake switch)."""


def known_platforms() -> tuple[str, ...]:
    """Names of all platforms that have a table, sorted."""
    return tuple(sorted(path.stem for path in _TABLES.glob("*.yaml")))


@lru_cache(maxsize=64)
def capabilities(platform: str) -> Capabilities:
    """The table of ``platform``.

    Raises:
        PlanError: there is none; the known ones are listed, and what to write where none fits.
    """
    if platform not in known_platforms():
        block = "limits: {max_sessions: N, max_sources_per_session: N, directions: [rx, tx], filters: false}"
        raise PlanError(
            f"platform '{platform}' is not known: what it can mirror is not guessed",
            hint=f"known platforms: {', '.join(known_platforms())}; or say under switches in topology.yaml {block}",
        )
    table = load_yaml(_TABLES / f"{platform}.yaml")
    return _build(platform, {name: entry["value"] for name, entry in table["capabilities"].items()})


def with_limits(platform: str, table: Capabilities | None, limits: Limits) -> Capabilities:
    """The platform's table with what the site says of one switch in its place.

    Args:
        platform: its name.
        table: the platform's; None where there is none: then ``limits`` must say all that matters.
        limits: the switch's own.
    """
    stated: dict[str, Any] = {name: value for name, value in limits.model_dump().items() if value is not None}
    if table is None:
        return _build(platform, {"source_in_many_sessions": False, **stated})
    return replace(table, **_typed(stated)) if stated else table


def says_all(limits: Limits) -> bool:
    """Can a switch be planned by its own limits alone?"""
    return all(getattr(limits, name) is not None for name in _NEEDED)


def _build(platform: str, value: Mapping[str, Any]) -> Capabilities:
    return Capabilities(platform=platform, **_typed(value))


def _typed(value: Mapping[str, Any]) -> dict[str, Any]:
    typed = dict(value)
    for name in ("directions", "filter_directions"):
        if name in typed:
            typed[name] = frozenset(Direction(d) for d in typed[name])
    if "filter_families" in typed:
        typed["filter_families"] = frozenset(typed["filter_families"])
    if "session_limits" in typed:
        typed["session_limits"] = tuple(
            SessionLimit(Counted(row["counts"]), row["most"], row.get("per_slice", False))
            for row in typed["session_limits"]
        )
    return typed
