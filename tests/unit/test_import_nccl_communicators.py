"""Versions and communicators of NCCL logs: told apart by name, or refused."""

import dataclasses

import pytest

from flowcheck_net.errors import SpecError
from flowcheck_net.importers.nccl_communicators import gather
from flowcheck_net.importers.nccl_lines import parse_lines
from tests.doubles.nccl_reading import document, job, log_of, refusal, without


def test_without_a_version_nothing_is_read():
    text = without(job().text(), "NCCL version")
    with pytest.raises(SpecError, match="version-missing"):
        log_of(text)
    assert gather(parse_lines(text.splitlines(), "x"), ["x"], (2, 19, 3)).version == (2, 19, 3)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("NCCL version 2.99.1+cuda13.0", "version-unknown"),
        ("NCCL version 2.3.7+cuda9.0", "version-unknown"),
        ("RCCL version 2.18.6+hip6.0", "not-nccl"),
        ("NCCL version 2.18.3+cuda12.1", "version-differs"),
    ],
)
def test_other_versions_and_libraries_are_refused(line, name):
    text = job().text() + line + "\n"
    if name == "version-unknown":
        text = line + "\n" + without(text, "NCCL version 2.19")
    with pytest.raises(SpecError, match=name):
        log_of(text)


def test_a_version_before_the_wire_model_gives_no_job():
    made = job(version=(2, 10, 3), comm_id="")
    log = gather(parse_lines(made.text().splitlines(), "x"), ["x"])
    assert document(log).tree["nccl"]["version"] == "2.10.3"
    old = dataclasses.replace(log, version=(2, 7, 8))
    assert "version-too-old: NCCL 2.7.8" in refusal(old)


def test_the_plain_version_line_is_read():
    assert log_of(job(plain_prefix=True).text()).version == (2, 19, 3)


def test_data_parallel_groups_take_their_ranks_from_the_world():
    """TP 2 x DP 3: ranks 0 2 4 and 1 3 5 reduce together; numbered by the communicator of all six."""
    world = job(comm_id="0xaa")
    even = job(comm_id="0xb0", ranks=[0, 2, 4], tid=2, rings=[[0, 2, 1]])
    odd = job(comm_id="0xb1", ranks=[1, 3, 5], tid=2, rings=[[0, 1, 2]])
    log = log_of(world.text(), even.text(), odd.text())
    assert [(one.id, one.size) for one in log.communicators] == [("0xaa", 6), ("0xb0", 3), ("0xb1", 3)]
    assert "communicator-not-chosen: 3 communicators: 0xaa of 6 ranks on 3 hosts" in refusal(log)
    tree = document(log, size=3).tree
    assert tree["groups"] == [[0, 2, 4], [1, 3, 5]]
    assert [(r["group"], r["order"]) for r in tree["rings"]] == [("dp0", [0, 4, 2]), ("dp1", [1, 3, 5])]
    assert tree == document(log, ids=("0xb0", "0xb1")).tree
    assert "communicator-unknown: no communicator 0xff" in refusal(log, ids=("0xff",))
    assert "communicators-overlap" in refusal(log, ids=("0xaa", "0xb0"))


def test_a_communicator_of_one_rank_is_no_choice():
    alone = job(comm_id="0xcc", ranks=[0], tid=3, rings=[[0]])
    log = log_of(job().text(), alone.text())
    assert [one.size for one in log.communicators] == [6, 1]
    assert document(log) == document(log_of(job().text()))


def test_two_jobs_without_commid_are_not_told_apart():
    text = job(version=(2, 10, 3), comm_id="").text() + job(version=(2, 10, 3), comm_id="", pid=5000).text()
    assert "communicators-not-told-apart: communicator nranks-6 of 6 ranks: ranks 0, 1, 2, 3, 4, 5" in refusal(
        log_of(text)
    )


def test_a_log_that_is_given_twice_says_the_same():
    text = job().text()
    assert document(log_of(text, text)) == document(log_of(text))


def test_a_split_communicator_is_named_by_its_parent():
    child = job(comm_id="", version=(2, 24, 3), ranks=[0, 2, 4], tid=2, rings=[[0, 1, 2]])
    parent = job(comm_id="0xaa", version=(2, 24, 3))
    text = child.text().replace("ncclCommInitRank", "ncclCommSplit")
    for rank in range(6):
        init = parent.init(rank).split()[2]
        text = (
            text.replace(
                f"busId {0x10100 + rank % 2:x} - Init",
                f"busId {0x10100 + rank % 2:x} parent {init} splitCount 1 color 7 key 0 - Init",
                1,
            )
            if rank in (0, 2, 4)
            else text
        )
    log = log_of(parent.text(), text)
    assert [one.id for one in log.communicators] == ["0xaa", "0xaa/splitCount-1-color-7"]
