"""What each platform can mirror: capability tables as data, every number with its source and how sure it is."""

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from flowcheck_net.errors import PlanError
from flowcheck_net.intent import Capabilities, Counted, Direction, SessionLimit
from flowcheck_net.model.asics import asic, forget_tables
from flowcheck_net.spec.load import load_yaml
from flowcheck_net.spec.topology import Limits

_TABLES = Path(__file__).parent
_FIELDS = dataclass_fields(Capabilities)
SITE_TABLES = "FLOWCHECK_PLATFORMS"
"""Environment: a folder with the site's own tables, which come before ours."""
_NEEDED = ("max_sessions", "max_sources_per_session", "directions", "filters")
"""What a switch without a table must say for itself."""
_ON = "+"
"""Between a platform and the chip below it: ``sonic+nvidia-spectrum3``. No name of a user has it."""
_COUNTS = ("max_sessions", "max_sources_per_session", "max_filter_entries")
"""Where platform and chip both tell a number, the smaller one holds."""
CONFIDENCE = ("measured", "code", "document", "second-hand", "assumed", "chosen")
"""``sure`` of a number: measured by us, read in source code, in the maker's document, told by others, assumed on
the safe side because nothing was found, or chosen by us (a fake switch)."""


def known_platforms() -> tuple[str, ...]:
    """Names of all platforms that have a table, ours or the site's, sorted."""
    return tuple(sorted(_tables(os.environ.get(SITE_TABLES, ""))))


def on_asic(platform: str, chip: str | None) -> str:
    """The platform on a chip, as one word that ``capabilities`` understands."""
    return f"{platform}{_ON}{chip}" if chip else platform


def system_of(platform: str) -> str:
    """The platform without its chip: what decides how a switch is spoken to."""
    return platform.partition(_ON)[0]


def capabilities(platform: str) -> Capabilities:
    """The table of ``platform``, perhaps on a chip (``on_asic``).

    The chip's table speaks where the platform's is silent, which is also where it only assumes; of two counts that are
    both known the smaller one holds.

    Raises:
        PlanError: there is none; the known ones are listed, and what to write where none fits. Or the site's folder
            of tables, or its table, is none.
    """
    return _read(platform, os.environ.get(SITE_TABLES, ""))


def site_digests(platforms: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """(platform, SHA-256 of what it can mirror) of those that the site's own tables have a say in, sorted.

    Layout, comments and sources of a table do not count.
    """
    site = os.environ.get(SITE_TABLES, "")
    if not site:
        return ()
    # `watch` lives for days: what a table says now counts, not what it said when it was first read.
    _read.cache_clear()
    forget_tables()
    found = {}
    for platform in set(platforms):
        system, _, chip = platform.partition(_ON)
        table = _tables(site).get(system)
        if (table is not None and table.parent != _TABLES) or (Path(site) / "asics" / f"{chip}.yaml").is_file():
            text = repr(sorted((f.name, _plain(getattr(_read(platform, site), f.name))) for f in _FIELDS))
            found[platform] = hashlib.sha256(text.encode()).hexdigest()
    return tuple(sorted(found.items()))


def _plain(value: object) -> object:
    return sorted(map(str, value)) if isinstance(value, frozenset) else value


@lru_cache(maxsize=64)
def _read(platform: str, site: str) -> Capabilities:
    system, _, chip = platform.partition(_ON)
    if chip:
        return _with_chip(platform, _read(system, site), assumed_of(system, site), asic(chip, site).values)
    tables = _tables(site)
    if platform not in tables:
        block = "limits: {max_sessions: N, max_sources_per_session: N, directions: [rx, tx], filters: false}"
        raise PlanError(
            f"platform '{platform}' is not known: what it can mirror is not guessed",
            hint=f"known platforms: {', '.join(sorted(tables))}; or say under switches in topology.yaml {block}; "
            f"or write {platform}.yaml into a folder that {SITE_TABLES} names",
        )
    path = tables[platform]
    if path.parent == _TABLES:
        return _build(platform, {name: entry["value"] for name, entry in load_yaml(path)["capabilities"].items()})
    return _of_site(platform, path)


def assumed_of(platform: str, site: str = "") -> frozenset[str]:
    """Fields that the platform's table does not tell, or only assumes."""
    path = _tables(site)[platform]
    table = load_yaml(path)
    rows = table["capabilities"]
    like = table.get("like")
    rest = assumed_of(str(like)) if like is not None and path.parent != _TABLES else {f.name for f in _FIELDS}
    known = {name for name, row in rows.items() if row["sure"] != "assumed"}
    return frozenset((rest | {n for n, row in rows.items() if row["sure"] == "assumed"}) - known - {"platform"})


def _with_chip(platform: str, table: Capabilities, silent: frozenset[str], chip: Mapping[str, Any]) -> Capabilities:
    said = _typed(chip)
    told = {name: value for name, value in said.items() if name in silent}
    for name in _COUNTS:
        now = getattr(table, name)
        if name in said and name not in silent and now is not None:
            told[name] = min(now, said[name])
    return replace(table, platform=platform, **told)


def _tables(site: str) -> dict[str, Path]:
    """Platform -> its table; those of the site come before ours."""
    found = {path.stem: path for path in _TABLES.glob("*.yaml")}
    if site and not Path(site).is_dir():
        raise PlanError(f"{SITE_TABLES}={site}: there is no such folder")
    return found | ({path.stem: path for path in Path(site).glob("*.yaml")} if site else {})


def _of_site(platform: str, path: Path) -> Capabilities:
    """A table of the site: ``like`` another one, with the numbers that are other ones here; each with its source."""
    table = load_yaml(path)
    fields = {f.name for f in _FIELDS} - {"platform"}
    entries = table.get("capabilities") if isinstance(table, dict) else None
    rows = entries if isinstance(entries, dict) else {}
    faults = [f"capabilities.{n} is not known" for n in rows if n not in fields]
    faults += [f"capabilities.{n} needs value, source and sure" for n, e in rows.items() if not _is_entry(e)]
    like = table.get("like") if isinstance(table, dict) else None
    if not rows or (like is None and not set(_NEEDED) <= rows.keys()):
        faults.append(f"without `like: PLATFORM` it must say {', '.join(_NEEDED)}")
    if like is not None and not (_TABLES / f"{like}.yaml").is_file():
        faults.append(f"like: {like!r} is none of our platforms")
    if faults:
        raise PlanError(f"{path}: {'; '.join(faults)}", hint="the form is that of docs/platform-tables.md")
    stated = {name: entry["value"] for name, entry in rows.items()}
    if like is None:
        return _build(platform, {"source_in_many_sessions": False, **stated})
    return replace(_read(str(like), ""), platform=platform, **_typed(stated))


def _is_entry(entry: object) -> bool:
    needed = {"value", "source", "sure"}
    return isinstance(entry, dict) and set(entry) - {"date"} == needed and entry["sure"] in CONFIDENCE


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
