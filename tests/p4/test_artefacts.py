"""p4/artefacts belongs to the present sources, and to nothing else."""

import hashlib
import json
import re

import pytest

from tests.p4 import artefacts
from tests.p4.artefacts import ARTEFACTS, BMV2, HOME, MANIFEST, P4INFO


@pytest.fixture
def recorded() -> dict[str, object]:
    found: dict[str, object] = json.loads((ARTEFACTS / MANIFEST).read_text())
    return found


def test_the_sources_are_the_recorded_ones(recorded: dict[str, object]) -> None:
    assert recorded["sources"] == artefacts.source_hash(), "p4/ changed since it was compiled: make p4"


def test_the_files_are_the_recorded_ones(recorded: dict[str, object]) -> None:
    files = {name: hashlib.sha256((ARTEFACTS / name).read_bytes()).hexdigest() for name in (P4INFO, BMV2)}
    assert recorded["files"] == files


def test_p4c_gives_the_same(recorded: dict[str, object]) -> None:
    p4c = artefacts.find_p4c()
    if p4c is None:
        pytest.skip("no p4c (FLOWCHECK_P4C=/path/to/p4c-bm2-ss)")
    if artefacts.version(p4c) != recorded["p4c"]:
        pytest.skip(f"another p4c: {artefacts.version(p4c)}, recorded {recorded['p4c']}")
    compiled = artefacts.compile_program(p4c)
    assert compiled == {name: (ARTEFACTS / name).read_text() for name in (P4INFO, BMV2)}


def test_readme_names_what_the_p4info_has() -> None:
    """Tables, match fields, actions, parameters, counters and registers of the README are those of the P4Info."""
    info = (ARTEFACTS / P4INFO).read_text()
    named = set(re.findall(r'^    name: "(fc\.[a-z_0-9]+)"', info, re.MULTILINE))
    readme = (HOME / "README.md").read_text()
    documented = set(re.findall(r"`(fc\.[a-z_0-9]+)", readme))
    assert documented == named
