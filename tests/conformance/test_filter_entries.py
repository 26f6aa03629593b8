"""What the planner counts against ``max_filter_entries`` is what the drivers write: counted here line by line."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from flowcheck_net.drivers.p4runtime_sessions import Ports, rules_for
from flowcheck_net.ids import Address, PortName, SessionName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSession, MirrorSource
from flowcheck_net.model.platforms import capabilities
from tests.conformance.bench import create, session
from tests.conformance.bench_numbered import NUMBERED
from tests.conformance.bench_ssh import SshBench, eos, nxos

PAIRS = [("10.0.0.1", "10.0.0.9"), ("10.0.0.2", "10.0.0.9"), ("10.0.0.3", "10.0.0.9")]
OPEN: dict[str, Callable[[Path], AbstractContextManager[SshBench]]] = {"eos": eos, "nxos": nxos, **NUMBERED}


def with_pair(line: str, pair: tuple[str, str]) -> bool:
    """Does a line name both addresses, or the first as the source of a rule (NVUE has a line for each field)?"""
    source, destination = (bool(re.search(rf"(?<![\d.]){re.escape(a)}(?![\d.])", line)) for a in pair)
    return source and (destination or "match ip source-ip" in line)


@pytest.mark.parametrize("platform", sorted(OPEN))
def test_a_pair_of_an_access_list_is_one_entry_however_many_sources(platform: str, tmp_path: Path) -> None:
    with OPEN[platform](tmp_path) as bench:
        bench.box.typed.clear()
        with bench.open() as driver:
            limits = driver.capabilities()
            if not limits.filters:
                pytest.skip(f"{platform} has no filters")
            driver.write(create(session(bench, 0, "0:rx", "1:rx", filters=PAIRS)))
        written = [sum(with_pair(line, pair) for _, line in bench.box.typed) for pair in PAIRS]
    assert not limits.filter_entries_by_source
    assert written == [1, 1, 1]


@pytest.mark.parametrize("platform", ["bmv2", "tofino"])
@pytest.mark.parametrize("pairs", [0, 1, 3])
def test_a_rule_of_p4_is_of_one_source_and_one_direction(platform: str, pairs: int) -> None:
    sources = [(1, "rx"), (2, "rx"), (2, "tx"), (7, "rx")]
    made = MirrorSession(
        SessionName("fcn-gpt-0"),
        tuple(MirrorSource(PortName(str(port)), Direction(way)) for port, way in sources),
        PortName("9"),
        tuple(FlowFilter(Address(a), Address(b)) for a, b in PAIRS[:pairs]),
    )
    rules = rules_for(made, 2, Ports())
    by_direction = {way: sum(rule.direction == way for rule in rules) for way in ("rx", "tx")}
    assert capabilities(platform).filter_entries_by_source
    assert by_direction == {"rx": 3 * max(1, pairs), "tx": max(1, pairs)}
