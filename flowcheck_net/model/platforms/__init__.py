"""What each platform can mirror: capability tables as data, every number with its source."""

from functools import lru_cache
from pathlib import Path

from flowcheck_net.errors import PlanError
from flowcheck_net.intent import Capabilities, Direction
from flowcheck_net.spec.load import load_yaml

_TABLES = Path(__file__).parent


def known_platforms() -> tuple[str, ...]:
    """Names of all platforms that have a table, sorted."""
    return tuple(sorted(path.stem for path in _TABLES.glob("*.yaml")))


@lru_cache(maxsize=64)
def capabilities(platform: str) -> Capabilities:
    """The table of ``platform``.

    Raises:
        PlanError: there is none; the known ones are listed.
    """
    if platform not in known_platforms():
        raise PlanError(f"platform '{platform}' is not known", hint=f"known platforms: {', '.join(known_platforms())}")
    table = load_yaml(_TABLES / f"{platform}.yaml")
    value = {name: entry["value"] for name, entry in table["capabilities"].items()}
    return Capabilities(
        platform=platform,
        max_sessions=value["max_sessions"],
        max_sources_per_session=value["max_sources_per_session"],
        directions=frozenset(Direction(d) for d in value["directions"]),
        filters=value["filters"],
        source_in_many_sessions=value["source_in_many_sessions"],
    )
