"""What each family of switch chips can mirror: tables in the form of the platforms', and which models have which chip.

A platform's table is of an operating system, and many of its numbers are assumed because they depend on the chip. Where
the topology says which chip it is (``asic:``), that chip's table speaks where the platform's is silent.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from flowcheck_net.errors import PlanError
from flowcheck_net.intent import Capabilities
from flowcheck_net.spec.load import load_yaml

_TABLES = Path(__file__).parent
_FOLDER = "asics"
"""Folder with the site's own tables of chips, below the one of its platforms."""


@dataclass(frozen=True, slots=True)
class Asic:
    """One family."""

    name: str
    values: Mapping[str, Any]
    """Field of ``Capabilities`` -> value, as the table writes it; a field that is absent is unknown."""
    models: tuple[str, ...]
    """Globs of the models that have it."""


def known_asics(site: str = "") -> tuple[str, ...]:
    """Names of all families that have a table, ours or the site's, sorted."""
    return tuple(sorted(_files(site)))


def asic(name: str, site: str = "") -> Asic:
    """The table of ``name``; ``site`` is the folder of the site's tables. Raises PlanError: there is none."""
    found = _read(site).get(name)
    if found is None:
        raise PlanError(
            f"asic '{name}' is not known: what it can mirror is not guessed",
            hint=f"known families: {', '.join(sorted(_read(site)))}; or leave asic out and say limits",
        )
    return found


def asic_of(model: str, site: str = "") -> str:
    """The family that a model's name tells; empty where none of the tables, or more than one, names it."""
    fitting = [a.name for a in _read(site).values() if any(fnmatchcase(model, glob) for glob in a.models)]
    return fitting[0] if len(fitting) == 1 else ""


def forget_tables() -> None:
    """Read every table anew when it is next asked for."""
    _read.cache_clear()


def _files(site: str) -> dict[str, Path]:
    found = {path.stem: path for path in _TABLES.glob("*.yaml")}
    return found | ({path.stem: path for path in (Path(site) / _FOLDER).glob("*.yaml")} if site else {})


@lru_cache(maxsize=8)
def _read(site: str) -> dict[str, Asic]:
    return {name: _table(name, path) for name, path in _files(site).items()}


def _table(name: str, path: Path) -> Asic:
    table = load_yaml(path)
    rows = table.get("capabilities") if isinstance(table, dict) else None
    entries = rows if isinstance(rows, dict) else {}
    fields = {f.name for f in dataclass_fields(Capabilities)} - {"platform"}
    faults = ["capabilities must be there"] if not isinstance(rows, dict) else []
    faults += [f"capabilities.{field} is not known" for field in entries if field not in fields]
    faults += [
        f"capabilities.{field} needs value, source, sure and date"
        for field, entry in entries.items()
        if not isinstance(entry, dict) or set(entry) != {"value", "source", "sure", "date"}
    ]
    if faults:
        raise PlanError(f"{path}: {'; '.join(faults)}", hint="the form is that of docs/asic-families.md")
    models = table.get("models", {})
    return Asic(name, {field: entry["value"] for field, entry in entries.items()}, tuple(models.get("value", ())))
