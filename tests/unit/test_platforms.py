"""The capability tables: every number has a source and says how sure it is; a site may overrule them."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from flowcheck_net.errors import PlanError
from flowcheck_net.intent import Counted, Direction, SessionLimit
from flowcheck_net.model.platforms import CONFIDENCE, capabilities, known_platforms, says_all, with_limits
from flowcheck_net.spec.load import load_yaml
from flowcheck_net.spec.topology import Limits

TABLES = Path(__file__).resolve().parents[2] / "flowcheck_net" / "model" / "platforms"


@pytest.mark.parametrize("name", known_platforms())
def test_every_number_has_a_source_and_says_how_sure(name: str) -> None:
    table = load_yaml(TABLES / f"{name}.yaml")["capabilities"]
    for field, entry in table.items():
        assert set(entry) == {"value", "source", "sure", "date"}, field
        assert re.fullmatch(r"20[0-9]{2}-[01][0-9]-[0-3][0-9]", entry["date"]), field
        assert entry["sure"] in CONFIDENCE, field
        assert len(entry["source"]) > 6, field
        assert entry["sure"] != "assumed" or "ssumed" in entry["source"] or "taken" in entry["source"], field


def test_the_platforms_of_this_field_are_there() -> None:
    wanted = {"fake", "ovs", "eos", "nxos", "junos-qfx", "comware", "vrp", "sonic", "cumulus", "dell-os10", "tofino"}
    assert wanted <= set(known_platforms())


def test_numbers_of_the_vendors_documents() -> None:
    """Dell OS10: four sessions, or two of both directions. QFX: two in, two out. Nexus 9000: the fourth is rx only."""
    assert capabilities("dell-os10").session_limits == (SessionLimit(Counted.DIRECTIONS, 4),)
    assert capabilities("junos-qfx").session_limits == (SessionLimit(Counted.RX, 2), SessionLimit(Counted.TX, 2))
    assert SessionLimit(Counted.TX, 3, per_slice=True) in capabilities("nxos").session_limits
    assert capabilities("ovs").one_copy_per_output
    assert not capabilities("eos").one_copy_per_output
    assert capabilities("sonic").directions == frozenset({Direction.RX})
    assert capabilities("tofino").message_window
    assert not capabilities("ovs").message_window


def test_an_unknown_platform_is_refused_with_what_to_write() -> None:
    with pytest.raises(PlanError) as caught:
        capabilities("catos")
    assert "limits: {max_sessions: N" in caught.value.hint


def test_what_the_site_says_of_a_switch_counts() -> None:
    stated = Limits(max_sessions=2, session_limits=({"counts": "rx", "most": 1, "per_slice": True},))  # type: ignore[arg-type]
    table = with_limits("nxos", capabilities("nxos"), stated)
    assert (table.max_sessions, table.max_sources_per_session) == (2, 48)
    assert table.session_limits == (SessionLimit(Counted.RX, 1, per_slice=True),)
    assert with_limits("nxos", capabilities("nxos"), Limits()) == capabilities("nxos")


def test_a_switch_without_a_table_may_speak_for_itself() -> None:
    stated = Limits(max_sessions=1, max_sources_per_session=2, directions=("rx",), filters=False)
    assert says_all(stated)
    assert not says_all(Limits(max_sessions=1))
    table = with_limits("catos", None, stated)
    assert table.directions == frozenset({Direction.RX})
    assert (table.platform, table.source_in_many_sessions) == ("catos", False)


SITE = """version: 1
platform: eos-7060x6
like: eos
capabilities:
  max_sessions: {value: 2, source: "show monitor session, measured by us on 2026-11-30", sure: measured}
"""


def test_a_table_of_the_site_is_like_another_one_with_its_own_numbers(tmp_path, monkeypatch):
    (tmp_path / "eos-7060x6.yaml").write_text(SITE)
    monkeypatch.setenv("FLOWCHECK_PLATFORMS", str(tmp_path))
    ours = capabilities("eos-7060x6")
    assert ours == replace(capabilities("eos"), platform="eos-7060x6", max_sessions=2)
    assert "eos-7060x6" in known_platforms()
    monkeypatch.delenv("FLOWCHECK_PLATFORMS")
    with pytest.raises(PlanError, match="not known"):
        capabilities("eos-7060x6")


def test_a_table_of_the_site_comes_before_ours(tmp_path, monkeypatch):
    (tmp_path / "eos.yaml").write_text(SITE)
    monkeypatch.setenv("FLOWCHECK_PLATFORMS", str(tmp_path))
    assert capabilities("eos").max_sessions == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SITE.replace("max_sessions:", "most_sessions:"), "most_sessions is not known"),
        (SITE.replace("like: eos", "like: nothing"), "none of our platforms"),
        (SITE.replace("like: eos\n", ""), "must say max_sessions, max_sources_per_session, directions, filters"),
        (SITE.replace("sure: measured", "sure: certain"), "needs value, source and sure"),
        ("[]\n", "must say"),
    ],
)
def test_a_table_of_the_site_that_is_none_is_refused(tmp_path, monkeypatch, text: str, why: str):
    (tmp_path / "mine.yaml").write_text(text)
    monkeypatch.setenv("FLOWCHECK_PLATFORMS", str(tmp_path))
    with pytest.raises(PlanError, match=why):
        capabilities("mine")


def test_a_folder_of_tables_that_is_not_there_is_said(monkeypatch):
    monkeypatch.setenv("FLOWCHECK_PLATFORMS", "/nonexistent/tables")
    with pytest.raises(PlanError, match="there is no such folder"):
        capabilities("eos")
