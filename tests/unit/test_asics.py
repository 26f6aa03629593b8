"""Tables of chip families: each number with source and date; where they speak, and that a changed table is noticed."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from flowcheck_net.cli.main import cli
from flowcheck_net.errors import PlanError, StalePlan
from flowcheck_net.intent import Counted, Direction, SessionLimit
from flowcheck_net.model.asics import asic, asic_of, known_asics
from flowcheck_net.model.platforms import CONFIDENCE, assumed_of, capabilities, on_asic, site_digests
from flowcheck_net.plan.stale import verify_inputs, verify_tables
from flowcheck_net.spec.load import load_specs, load_yaml, spec_paths

ROOT = Path(__file__).resolve().parents[2]
TABLES = ROOT / "flowcheck_net" / "model" / "asics"
DOCUMENT = ROOT / "docs" / "asic-families.md"
DATE = r"20[0-9]{2}-[01][0-9]-[0-3][0-9]"
NOT_IN_A_TABLE = {"value", "source", "sure", "date"}


@pytest.mark.parametrize("name", known_asics())
def test_every_number_has_a_source_and_a_date(name: str):
    table = load_yaml(TABLES / f"{name}.yaml")
    assert table["asic"] == name
    for field, entry in table["capabilities"].items():
        assert set(entry) == NOT_IN_A_TABLE, field
        assert entry["sure"] in CONFIDENCE, field
        assert entry["sure"] != "assumed", f"{field}: a chip's number is known, or absent"
        assert re.fullmatch(DATE, entry["date"]), field
        assert len(entry["source"]) > 6, field
        assert hasattr(capabilities("eos"), field)
    models = table.get("models")
    assert models is None or (models["value"] and len(models["source"]) > 6 and re.fullmatch(DATE, models["date"]))


def test_the_makers_of_this_field_are_there():
    makers = {name.partition("-")[0] for name in known_asics()}
    assert {"broadcom", "nvidia", "cisco", "intel", "marvell"} <= makers
    families = {"broadcom-tomahawk5", "broadcom-trident4", "broadcom-jericho2", "nvidia-spectrum4", "intel-tofino"}
    assert families | {"cisco-cloud-scale", "cisco-silicon-one"} <= set(known_asics())


@pytest.mark.parametrize("name", known_asics())
def test_the_page_tells_what_the_tables_tell(name: str):
    """Each family has one line, with its counts and directions; a family without a number says so."""
    (line,) = [row for row in DOCUMENT.read_text().splitlines() if row.startswith(f"| `{name}` |")]
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    values = asic(name).values
    assert cells[1] == str(values.get("max_sessions", "-")), "sessions"
    assert cells[2] == str(values.get("max_sources_per_session", "-")), "sources"
    assert cells[3] == (", ".join(values["directions"]) if "directions" in values else "-")
    assert cells[4] == str(values.get("encapsulation_bytes", "-"))
    models = asic(name).models
    assert all(f"`{glob}`" in cells[5] for glob in models)
    assert models or cells[5] == "-"


def test_the_chip_speaks_where_the_platform_is_silent():
    """EOS assumes 50 bytes; Cloud Scale: 48 sources of the guide, tx for three of four sessions a slice."""
    assert {"max_sessions", "source_in_many_sessions", "encapsulation_bytes"} <= assumed_of("eos")
    assert "directions" not in assumed_of("eos")
    plain, on_chip = capabilities("sonic"), capabilities(on_asic("sonic", "nvidia-spectrum"))
    assert (plain.max_sessions, on_chip.max_sessions) == (4, 1)
    # SONiC's own directions are known from its code; the chip does not widen them.
    assert on_chip.directions == frozenset({Direction.RX})
    scale = capabilities(on_asic("eos", "cisco-cloud-scale"))
    assert SessionLimit(Counted.TX, 3, per_slice=True) in scale.session_limits
    assert scale.max_sources_per_session == 48
    assert scale.platform == "eos+cisco-cloud-scale"


def test_of_two_known_counts_the_smaller_one_holds():
    """Cumulus says four for Spectrum-2 and later; on the first Spectrum there is one."""
    assert capabilities("cumulus").max_sessions == 4
    assert capabilities(on_asic("cumulus", "nvidia-spectrum")).max_sessions == 1
    assert capabilities(on_asic("cumulus", "nvidia-spectrum3")).max_sessions == 4
    assert capabilities(on_asic("nxos", "intel-tofino")).max_sessions == 4


def test_a_chip_without_numbers_changes_nothing_and_an_unknown_one_is_refused():
    assert capabilities(on_asic("eos", "marvell-teralynx")).max_sessions == capabilities("eos").max_sessions
    with pytest.raises(PlanError, match="'broadcom-tomahawk9' is not known") as caught:
        capabilities(on_asic("eos", "broadcom-tomahawk9"))
    assert "broadcom-tomahawk5" in caught.value.hint


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("DCS-7060PX4-32", "broadcom-tomahawk3"),
        ("DCS-7060X6-64PE", "broadcom-tomahawk5"),
        ("Arista-7060DX5-64S", "broadcom-tomahawk4"),
        ("S5232F-ON", "broadcom-trident3"),
        ("ACS-MSN2700", "nvidia-spectrum"),
        ("Mellanox-SN4600C-C64", "nvidia-spectrum3"),
        ("Nexus9000 C9364C-GX", ""),
        ("vEOS", ""),
    ],
)
def test_the_chip_of_a_model(model: str, name: str):
    assert asic_of(model) == name


def test_a_chip_table_of_the_site_comes_before_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "asics").mkdir()
    (tmp_path / "asics" / "marvell-teralynx.yaml").write_text(
        "version: 1\nasic: marvell-teralynx\ncapabilities:\n"
        '  max_sessions: {value: 2, source: "tried by us", sure: measured, date: "2026-12-01"}\n'
    )
    monkeypatch.setenv("FLOWCHECK_PLATFORMS", str(tmp_path))
    assert asic("marvell-teralynx", str(tmp_path)).values == {"max_sessions": 2}
    assert capabilities(on_asic("sonic", "marvell-teralynx")).max_sessions == 2
    assert [name for name, _ in site_digests(["sonic", "sonic+marvell-teralynx"])] == ["sonic+marvell-teralynx"]


SITE = """version: 1
platform: fake
like: fake
capabilities:
  max_sessions: {value: 3, source: "tried by us", sure: measured, date: "2026-12-01"}
"""


@pytest.fixture
def example() -> Path:
    return ROOT / "topologies" / "two-host"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]\n", "capabilities must be there"),
        ("capabilities:\n  most: {value: 1, source: s, sure: measured, date: '2026-12-01'}\n", "most is not known"),
        ("capabilities:\n  max_sessions: {value: 1, source: s}\n", "needs value, source, sure and date"),
    ],
)
def test_a_chip_table_that_is_none_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, why: str):
    (tmp_path / "asics").mkdir()
    (tmp_path / "asics" / "mine.yaml").write_text(text)
    monkeypatch.setenv("FLOWCHECK_PLATFORMS", str(tmp_path))
    with pytest.raises(PlanError, match=why):
        capabilities(on_asic("eos", "mine"))


def test_a_changed_table_of_the_site_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: Path):
    from flowcheck_net.plan.plan import plan_from_json

    folder, output = tmp_path / "tables", tmp_path / "plan.json"
    folder.mkdir()
    (folder / "fake.yaml").write_text(SITE)
    monkeypatch.setenv("FLOWCHECK_PLATFORMS", str(folder))
    done = CliRunner().invoke(cli, ["plan", str(example), "-o", str(output)])
    assert done.exit_code == 0, done.output
    plan = plan_from_json(output.read_text(), "plan.json")
    assert [name for name, _ in plan.fingerprint.tables] == ["fake"]
    verify_tables(plan)
    # Another comment and another source are the same table.
    (folder / "fake.yaml").write_text("# ours\n" + SITE.replace("tried by us", "tried again"))
    verify_tables(plan)
    (folder / "fake.yaml").write_text(SITE.replace("value: 3", "value: 2"))
    with pytest.raises(StalePlan, match="platform tables changed since the plan was made: fake"):
        verify_tables(plan)
    with pytest.raises(StalePlan):
        verify_inputs(plan, load_specs(*spec_paths(example)))
    refused = CliRunner().invoke(cli, ["apply", str(output), "--dry-run", "--state-dir", str(tmp_path / "state")])
    assert isinstance(refused.exception, StalePlan), refused.output
    monkeypatch.delenv("FLOWCHECK_PLATFORMS")
    with pytest.raises(StalePlan, match="fake"):
        verify_tables(plan)


def test_a_plan_without_site_tables_is_the_same_bytes_as_before_and_notices_one_that_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: Path
):
    from flowcheck_net.plan.plan import plan_from_json

    output = tmp_path / "plan.json"
    done = CliRunner().invoke(cli, ["plan", str(example), "-o", str(output)])
    assert done.exit_code == 0, done.output
    assert '"tables"' not in output.read_text()
    plan = plan_from_json(output.read_text(), "plan.json")
    verify_tables(plan)
    (tmp_path / "fake.yaml").write_text(SITE)
    monkeypatch.setenv("FLOWCHECK_PLATFORMS", str(tmp_path))
    with pytest.raises(StalePlan, match="fake"):
        verify_tables(plan)


def test_the_drivers_see_the_chip_too():
    from flowcheck_net.drivers.checks import limits_of
    from flowcheck_net.drivers.dialects.catalogue import dialect_of
    from flowcheck_net.ids import SwitchName
    from flowcheck_net.intent import SwitchAddress

    address = SwitchAddress(SwitchName("leaf1"), on_asic("cumulus", "nvidia-spectrum"), "ssh:leaf1")
    assert limits_of(address).max_sessions == 1
    assert dialect_of(address.platform).name == "cumulus"


def _forget() -> None:
    """Another process reads the tables anew."""
    from flowcheck_net.model import asics, platforms

    platforms._read.cache_clear()
    asics._read.cache_clear()


@pytest.fixture(autouse=True)
def fresh():
    _forget()
    yield SimpleNamespace()
    _forget()
