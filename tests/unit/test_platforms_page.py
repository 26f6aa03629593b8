"""docs/platforms.md is true: each cell is held against the benches, doubles, transcripts and tables that there are."""

import re
from pathlib import Path
from typing import Any

import pytest

from flowcheck_net.drivers.dialects.catalogue import DIALECTS, dialect_of
from flowcheck_net.drivers.dialects.survey import SURVEYS
from flowcheck_net.intent import RemarkKind
from flowcheck_net.model.platforms import capabilities
from tests.conformance import bench_eapi, bench_netconf, bench_numbered, bench_nxapi, bench_ovs, bench_sonic, bench_tc
from tests.conformance.bench import create, session
from tests.conformance.bench_ssh import EosBench, JunosBench, NxosBench, SshBench, boxed
from tests.conformance.conftest import BENCHES

TOP = Path(__file__).parents[2]
GOLDEN = TOP / "tests" / "golden"
NUMBERED = [
    bench_numbered.ComwareBench,
    bench_numbered.VrpBench,
    bench_numbered.CumulusBench,
    bench_numbered.Os10Bench,
]
BENCH: dict[str, type[SshBench]] = {
    "eos": EosBench,
    "nxos": NxosBench,
    "junos": JunosBench,
    **{made.PLATFORM: made for made in NUMBERED},
}
PLATFORM = {"junos": "junos-qfx", "tc": "linux"}
"""Where the table of a platform has another name than its page."""
REAL = {"tc": bench_tc.real, "ovs": bench_ovs.real}
"""Benches that run the maker's own software."""
LEVELS = r"\*\*real\*\*|double|documented|not needed|-"


def table() -> dict[str, dict[str, str]]:
    """Name of the driver's page -> heading -> cell."""
    lines = [line.strip("| ") for line in (TOP / "docs/platforms.md").read_text().splitlines() if line.startswith("|")]
    cut = re.compile(r"(?<!\\)\|")
    head = ["platform", *(cell.strip() for cell in cut.split(lines[0]))]
    rows = [dict(zip(head, map(str.strip, cut.split(line)), strict=True)) for line in lines[2:]]
    return {re.findall(r"drivers/([\w-]+)\.md", row["driver"])[0]: row for row in rows}


ROWS = table()
DOUBLES = sorted(set(ROWS) & set(DIALECTS))


def level(page: str, column: str) -> str:
    """First word of a cell."""
    found = re.match(LEVELS, ROWS[page][column])
    assert found is not None, f"{page}, {column}: {ROWS[page][column]!r}"
    return found[0].strip("*")


def transcript(page: str, *cases: str) -> str:
    """The golden transcript of a case, by either of its names."""
    return "".join(
        (GOLDEN / page / f"{case}.txt").read_text() for case in cases if (GOLDEN / page / f"{case}.txt").is_file()
    )


def test_every_platform_with_a_dialect_or_a_bench_has_a_row_and_no_other():
    assert set(ROWS) == {*DIALECTS, "sonic", "tc", "ovs"}


@pytest.mark.parametrize("page", sorted(ROWS))
def test_the_drivers_of_a_row_are_those_of_the_conformance_suite(page: str):
    named = re.findall(r"\w+", ROWS[page]["driver"].split("]")[0])
    with_word = {f"{page}-{word}" for word in named}
    tried = {name for name in BENCHES if name == page or name.startswith(f"{page}-")}
    assert tried == with_word or (tried == {page} and named in ([page], ["ssh"]))


@pytest.mark.parametrize("page", sorted(ROWS))
def test_real_is_said_where_the_makers_own_software_runs_and_nowhere_else(page: str):
    said = [column for column in ROWS[page] if "real" in ROWS[page][column]]
    assert bool(said) == (page in REAL)
    if page in REAL:
        assert BENCHES[page] is REAL[page]
        assert "double" not in " ".join(ROWS[page].values())


@pytest.mark.parametrize("page", sorted(ROWS))
def test_each_feature_has_a_level(page: str):
    for column in list(ROWS[page])[2:-2]:
        level(page, column)
    assert (level(page, list(ROWS[page])[-1]) == "-") == (page == "ovs")


@pytest.mark.parametrize("page", DOUBLES)
def test_what_a_double_was_asked_stands_in_the_transcripts(page: str):
    limits = capabilities(PLATFORM.get(page, page))
    asked = {
        "local, both directions": (True, transcript(page, "local", "local-both")),
        "ERSPAN": (limits.encapsulation_bytes is not None, transcript(page, "remote", "erspan")),
        "filter": (limits.filters, transcript(page, "filter", "filtered")),
    }
    for column, (offered, typed) in asked.items():
        assert level(page, column) == ("double" if offered else "-"), column
        assert offered == (bool(typed) and "refused:" not in typed), column


@pytest.mark.parametrize("page", DOUBLES)
def test_a_destination_that_is_prepared_is_touched_and_one_that_is_not_is_not(page: str):
    line = rf"[#\]] ?interface {re.escape(BENCH[page].destinations[0])}$"
    touched = re.search(line, transcript(page, "local", "local-both"), re.MULTILINE)
    assert level(page, "destination prepared and undone") in (("double",) if touched else ("not needed", "-"))


@pytest.mark.parametrize("page", DOUBLES)
def test_candidate_and_timed_commit_are_those_of_the_dialect(page: str):
    words: Any = dialect_of(page).words
    assert level(page, "candidate, commit") == ("double" if words.transaction else "-")
    assert level(page, "timed commit") == ("double" if words.transaction and words.transaction.timed else "-")


@pytest.mark.parametrize("page", sorted(ROWS))
def test_a_lock_is_said_where_a_bench_has_one(page: str):
    kinds: dict[str, list[type[Any]]] = {
        "eos": [EosBench, bench_eapi.EapiBench],
        "nxos": [NxosBench, bench_nxapi.NxapiBench],
        "junos": [JunosBench, bench_netconf.NetconfBench],
        "sonic": [bench_sonic.SonicBench],
        "tc": [bench_tc.TcBench],
        "ovs": [bench_ovs.OvsBench],
    }
    assert (level(page, "lock") != "-") == any(kind.lock for kind in kinds.get(page) or [BENCH[page]])


@pytest.mark.parametrize("page", DOUBLES)
def test_port_counters_are_counted_by_the_double(page: str):
    assert level(page, "port counters") == "double"
    assert BENCH[page].traffic is not SshBench.traffic


@pytest.mark.parametrize("page", DOUBLES)
def test_the_makers_switch_is_asked_for_its_neighbours(page: str):
    assert level(page, "[discover](discover.md)") == "double"
    assert page in SURVEYS


def _stop(bench: Any) -> None:
    """Somebody takes the effect of the session away, and leaves its name."""
    switch = bench.switch
    if bench.PLATFORM == "eos":
        lines = switch.running.sessions["fcn-gpt-0"]
        lines[:] = [line for line in lines if "destination" not in line]
    elif bench.PLATFORM == "junos-qfx":
        lines = switch.running["fcn-gpt-0"]
        lines[:] = [line for line in lines if "output" not in line]
    elif bench.PLATFORM == "nxos":
        switch.monitors[1].shut = True
    elif bench.PLATFORM == "dell-os10":
        switch.monitors[2].up = False
    elif bench.PLATFORM == "comware":
        switch.configure("undo mirroring-group 2")
    elif bench.PLATFORM == "vrp":
        switch.configure(f"interface {bench.sources[0]}", "undo port-mirroring observe-port 2 inbound", "quit")
    else:
        switch.configure("nv set system port-mirror session 0 span enable off")


@pytest.mark.parametrize("page", DOUBLES)
def test_a_session_that_was_stopped_is_told(page: str, tmp_path: Path):
    assert level(page, "session state") == "double"
    with boxed(BENCH[page], tmp_path) as bench, bench.open() as driver:
        driver.write(create(session(bench, 0, "0:rx")))
        assert RemarkKind.INACTIVE not in {r.kind for r in driver.read().remarks if r.session == "fcn-gpt-0"}
        _stop(bench)
        assert RemarkKind.INACTIVE in {r.kind for r in driver.read().remarks if r.session == "fcn-gpt-0"}
