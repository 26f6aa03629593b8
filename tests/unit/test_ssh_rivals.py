"""Other operators and other jobs on the same switch: what is theirs stays, whatever it looks like. The boxes play."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from flowcheck_net.errors import Rejected
from flowcheck_net.intent import is_candidate, is_owned
from tests.conformance.bench import create, session
from tests.conformance.bench_ssh import EosBench, JunosBench, NxosBench, SshBench, boxed
from tests.doubles.eos_box import EosBox
from tests.doubles.junos_box import JunosBox


@pytest.fixture
def eos(tmp_path: Path) -> Iterator[SshBench]:
    with boxed(EosBench, tmp_path) as bench:
        yield bench


@pytest.fixture
def nxos(tmp_path: Path) -> Iterator[SshBench]:
    with boxed(NxosBench, tmp_path) as bench:
        yield bench


@pytest.fixture
def junos(tmp_path: Path) -> Iterator[SshBench]:
    with boxed(JunosBench, tmp_path) as bench:
        yield bench


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        *(("fcn-gpt-0", True), ("fcn-gpt-10", True)),
        *(("fcn-gpt-01", False), ("fcn-gpt-0-1", False), ("fcn-gp-0", False), ("fcn-gpt-0 ", False)),
        *(
            ("FCN-gpt-0", False),
            ("fcn-GPT-0", False),
            ("fcn-gpt-", False),
            ("fcn-gpt-0\n", False),
            ("fcn-gpt-٣", False),
        ),
    ],
)
def test_only_names_that_we_give_are_ours(name: str, ours: bool):
    assert is_owned(name, "gpt") is ours


def test_a_pending_change_of_a_job_whose_name_begins_alike_is_not_ours():
    assert is_candidate("fcn-gpt-0123abcd", "gpt")
    assert not is_candidate("fcn-gpt-0-0123abcd", "gpt")
    assert is_candidate("fcn-gpt-0-0123abcd", "gpt-0")
    assert not is_candidate("fcn-gpt-0123abcd and-quit", "gpt")


def test_eos_leaves_the_candidate_and_the_trial_of_a_job_whose_name_begins_alike(eos: SshBench):
    box = eos.box.platform
    assert isinstance(box, EosBox)
    box.pending["fcn-gpt-2-00000001"] = box.running
    with eos.open() as driver:
        driver.write(create(session(eos, 0, "0:rx")))
    assert list(box.pending) == ["fcn-gpt-2-00000001"]
    box.timed = "fcn-gpt-2-00000001"
    with eos.open() as driver:
        driver.write(())
        with pytest.raises(Rejected, match="waits for its confirmation"):
            driver.write(create(session(eos, 1, "1:rx", to=1)))
    assert box.timed == "fcn-gpt-2-00000001"


@pytest.mark.parametrize("comment", ["made by hand", "fcn-gpt-2-00000001", "fcn-bert-00000001"])
def test_junos_never_confirms_the_trial_of_somebody_else(junos: SshBench, comment: str):
    box = junos.box.platform
    assert isinstance(box, JunosBox)
    box.commits.insert(
        0, f"2026-11-30 22:00:00 UTC by netops via cli commit confirmed, rollback in 10mins\n    {comment}"
    )
    before = list(box.commits)
    with junos.open() as driver:
        driver.write(())
        with pytest.raises(Rejected, match="ours would confirm it"):
            driver.write(create(session(junos, 0, "0:rx")))
    assert box.commits == before
