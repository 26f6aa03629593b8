"""NCCL logs that are cut, incomplete or contradictory: each is refused by name, with the ranks and channels."""

import pytest

from flowcheck_net.importers.nccl_grammar import grammar_for
from flowcheck_net.importers.nccl_groups import choose, group_facts
from flowcheck_net.importers.nccl_json import facts_json
from flowcheck_net.importers.nccl_records import RingList
from tests.doubles.nccl_reading import document, job, log_of, refusal, without


def test_missing_ranks_are_named():
    made = job()
    text = "\n".join(line for rank in (0, 1, 2, 4) for line in made.lines(rank))
    assert "rank-logs-missing: communicator 0x1234abcd of 6 ranks: the logs of ranks 3, 5 are missing" in refusal(
        log_of(text)
    )


def test_a_rank_that_began_and_never_finished_is_named():
    made = job()
    text = without(made.text(), "rank 5 nranks 6 cudaDev 1 nvmlDev 1 busId 10101 commId 0x1234abcd - Init COMPLETE")
    words = refusal(log_of(text))
    assert "the logs of ranks 5 are missing; ranks 5 began and never wrote 'Init COMPLETE'" in words


def test_missing_ring_lines_are_named_with_rank_host_and_channel():
    made = job(rings=[list(range(24)), list(range(24))], hosts=[f"n{i:02d}" for i in range(12)])
    text = without(made.text(), "Ring 01 : 2 -> 3 -> 4", "Ring 01 : 16 -> 17 -> 18")
    words = refusal(log_of(text))
    assert (
        "ring-lines-missing: channel 01: rank 0's list is cut at 20 of 24 ranks, and ranks 3, 17 (on n01, n08)" in words
    )


@pytest.mark.parametrize(("version", "seen"), [((2, 19, 3), 20), ((2, 24, 3), 36)])
def test_a_cut_list_without_ring_lines_is_refused(version, seen):
    """20 ranks up to 2.22; from 2.23 on 124 characters and dots: 15 of the head and 3 a rank, so 36 whole ones."""
    made = job(rings=[list(range(48))] * 2, hosts=[f"n{i:02d}" for i in range(24)], ring_lines=False, version=version)
    words = refusal(log_of(made.text()))
    assert (
        f"ring-cut: all 2 channels: rank 0's list is cut at {seen} of 48 ranks, and no rank has a 'Ring' line" in words
    )


def test_a_whole_list_is_enough_where_there_are_no_ring_lines():
    made = job(ring_lines=False)
    assert document(log_of(made.text())).tree == document(log_of(job().text())).tree


def test_a_ring_that_does_not_close_is_refused():
    text = job().text().replace("Ring 00 : 4 -> 5 -> 0", "Ring 00 : 4 -> 5 -> 2")
    assert "ring-broken: channel 00: rank 5 sends to rank 2, but rank 2 receives from 1" in refusal(log_of(text))


def test_a_ring_of_two_cycles_is_refused():
    made = job(ring_lines=False)
    lines = without(made.text(), "Channel 00/02", "Channel 01/02").splitlines()
    for rank, (back, on) in enumerate([(2, 1), (0, 2), (1, 0), (5, 4), (3, 5), (4, 3)]):
        lines = [f"{made.head(rank)}Ring 00 : {back} -> {rank} -> {on}", *lines]
        lines = [f"{made.head(rank)}Ring 01 : {(rank - 1) % 6} -> {rank} -> {(rank + 1) % 6}", *lines]
    words = refusal(log_of("\n".join(lines)))
    assert "ring-not-one-cycle: channel 00: the ring from rank 0 closes after 3 of 6 ranks" in words
    assert "channel 01" not in words


def test_a_list_with_a_rank_twice_is_refused():
    text = (
        job(ring_lines=False)
        .text()
        .replace("Channel 00/02 :   0   1   2   3   4   5", "Channel 00/02 :   0   1   2   3   4   1")
    )
    assert "ring-not-one-cycle: channel 00: rank 0's list holds ranks 1 twice or outside 0 to 5, and not 5" in refusal(
        log_of(text)
    )


def test_a_list_that_contradicts_the_ring_lines_is_refused():
    text = job().text().replace("Channel 00/02 :   0   1   2   3   4   5", "Channel 00/02 :   0   1   2   3   5   4")
    assert "ring-contradicts: channel 00: rank 0 lists 0, 1, 2, 3, 5, 4" in refusal(log_of(text))


def test_a_missing_channel_is_refused():
    text = without(job(ring_lines=False).text(), "Channel 01/02")
    assert "ring-missing: channel 01: no ring of the 6 ranks is in the log" in refusal(log_of(text))


@pytest.mark.parametrize(("way", "rank", "host"), [("send", 1, "node-a"), ("receive", 2, "node-b")])
def test_a_nic_that_is_not_logged_is_refused_with_its_end(way, rank, host):
    text = without(job().text(), f"Channel 00/0 : 1[1] -> 2[1] [{way}]", f"Channel 00/0 : 1[0] -> 2[0] [{way}]")
    words = refusal(log_of(text))
    assert f"nic-not-logged: no '[{way}] via NET' line of hops in the log of rank {rank} on {host}" in words
    assert "channel 00 hop 1 -> 2" in words


def test_two_nics_at_one_end_are_refused():
    made = job()
    extra = f"{made.head(1)}Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0"
    assert "nic-contradicts: two NICs at the same end (send): channel 00 hop 1 -> 2 (0, 1)" in refusal(
        log_of(extra, made.text())
    )


def test_a_hop_between_hosts_that_leaves_no_packets_is_refused():
    text = job().text()
    text = without(text, "Channel 00/0 : 1[1] -> 2[1] [send]", "Channel 00/0 : 1[0] -> 2[0] [receive]")
    text += "".join(f"\n{job().head(rank)}Channel 00/0 : 1[1] -> 2[0] via P2P/MNNVL" for rank in (1, 2))
    assert "hop-not-on-network" in refusal(log_of(text))


def test_shared_and_indexed_connections_are_no_ring():
    made = job()
    noise = [
        f"{made.head(1)}Channel 00/1 : 1[1] -> 2[0] [send] via NET/IB/0/GDRDMA/Shared",
        f"{made.head(1)}Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0/Shared",
        f"{made.head(1)}Channel 00/1 : 1[1] -> 2[0] [send] via NET/IB/0",
    ]
    assert document(log_of(*noise, made.text())) == document(log_of(made.text()))


def test_a_proxy_rank_is_not_a_nic():
    text = (
        job()
        .text()
        .replace(
            "Channel 00/0 : 1[1] -> 2[1] [send] via NET/IB/1/", "Channel 00/0 : 1[1] -> 2[1] [send] via NET/IB/1(0)/"
        )
    )
    assert "(0)" in text
    log = log_of(text)
    groups = group_facts(log, choose(log, (), None))
    hop = facts_json(log, groups)["groups"][0]["rings"][0]["network_hops"][0]
    assert hop["send"] == {"network": "IB", "nic": 1, "proxy_rank": 0, "gpu_direct": True, "qpns": []}


@pytest.mark.parametrize("text", ["Channel 00/99 :   0   1   2   3   4   5", "Ring 200 : 5 -> 0 -> 1"])
def test_more_channels_than_nccl_has_are_refused(text):
    made = job()
    assert "rings-missing: " in refusal(log_of(f"{made.head(0)}{text}", made.text()))


def test_lines_of_another_communicator_do_not_contradict():
    """Rank 1 is rank 1 of two communicators; what is loose in its process may be the other's."""
    made, other = job(), job(comm_id="0xbb", tid=2)
    loose = f"{made.head(1, 99)}Channel 00/0 : 1[1] -> 2[0] [send] via NET/IB/0"
    plain = document(log_of(made.text(), other.text()), ids=("0x1234abcd",))
    assert document(log_of(loose, made.text(), other.text()), ids=("0x1234abcd",)) == plain


@pytest.mark.parametrize(
    ("text", "ranks"), [("0 10 12...", (0, 10)), ("0 10 12 ...", (0, 10, 12)), ("0 10 12", (0, 10, 12))]
)
def test_a_number_that_may_be_cut_does_not_count(text, ranks):
    grammar = grammar_for((2, 24, 3))
    assert grammar is not None
    found = grammar.parse(f"Channel 00/02 : {text}")
    assert isinstance(found, RingList)
    assert (found.ranks, found.cut) == (ranks, text.endswith("."))


def test_words_about_nccl_are_no_lines_of_nccl():
    made = job()
    said = f"{made.head(1).removesuffix('NCCL INFO ')}a user wrote: NCCL INFO Ring 00 : 5 -> 1 -> 3"
    assert document(log_of(said, made.text())) == document(log_of(made.text()))
