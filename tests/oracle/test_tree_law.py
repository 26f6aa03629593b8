"""Trees by brute force: run the all-reduce on sets of contributions, and compare with NCCL's own log of two hosts."""

import re
from itertools import combinations
from pathlib import Path

import pytest

from flowcheck_net.model.collectives.tree import (
    ROOT,
    binary_parents,
    double_tree_parents,
    host_tree_edges,
    is_tree,
    subtree_sizes,
    tree_of_channel,
)

SAMPLES = Path(__file__).resolve().parents[2].parent / "shared" / "samples"
LOG = SAMPLES / "nccl" / "log_aws_efa_p4d_16ranks.txt"

SENT = dict[tuple[int, int], frozenset[int]]
"""(sender, receiver) -> whose gradients the message holds."""


def all_reduce(nodes: int, parents: tuple[int, ...]) -> SENT:
    """Every node waits for its children, sends up what it has, and passes on what comes down."""
    children: dict[int, list[int]] = {node: [] for node in range(nodes)}
    for node, above in enumerate(parents):
        if above != ROOT:
            children[above].append(node)
    sent: SENT = {}

    def up(node: int) -> frozenset[int]:
        held = {node}
        for child in children[node]:
            sent[child, node] = up(child)
            held |= sent[child, node]
        return frozenset(held)

    def down(node: int, result: frozenset[int]) -> None:
        for child in children[node]:
            sent[node, child] = result
            down(child, result)

    (root,) = [node for node, above in enumerate(parents) if above == ROOT]
    down(root, up(root))
    return sent


@pytest.mark.parametrize("nodes", range(2, 33))
def test_every_down_edge_is_fully_reduced_and_no_up_edge_is(nodes: int) -> None:
    everyone = frozenset(range(nodes))
    for parents in double_tree_parents(nodes):
        sent = all_reduce(nodes, parents)
        assert len(sent) == 2 * (nodes - 1), "a tree that spans all nodes has an edge for each but the root"
        for (sender, receiver), contributions in sent.items():
            if parents[receiver] == sender:
                assert contributions == everyone
            else:
                assert parents[sender] == receiver
                assert contributions < everyone
                edges = [(above, node) for node, above in enumerate(parents) if above != ROOT]
                assert len(contributions) == subtree_sizes(edges)[sender]


@pytest.mark.parametrize("nodes", range(2, 33))
def test_both_trees_are_binary_and_share_the_work(nodes: int) -> None:
    first, second = double_tree_parents(nodes)
    below = [[parents.count(node) for node in range(nodes)] for parents in (first, second)]
    assert max(map(max, below)) <= 2
    for node in range(nodes):
        inner = sum(row[node] > 0 for row in below)
        assert inner <= 1 or nodes % 2, "with an even number of nodes an inner node of one tree is a leaf of the other"
    assert first.index(ROOT) != second.index(ROOT)


@pytest.mark.parametrize("nodes", range(2, 33))
def test_the_depth_is_logarithmic(nodes: int) -> None:
    for parents in double_tree_parents(nodes):
        deepest = 0
        for start in range(nodes):
            steps, node = 0, start
            while parents[node] != ROOT:
                node, steps = parents[node], steps + 1
            deepest = max(deepest, steps)
        assert deepest <= nodes.bit_length()


@pytest.mark.parametrize("nodes", range(2, 7))
def test_watched_down_edges_are_the_copies_for_every_choice(nodes: int) -> None:
    parents = binary_parents(nodes)
    sent = all_reduce(nodes, parents)
    everyone = frozenset(range(nodes))
    edges = sorted(sent)
    for count in range(len(edges) + 1):
        for watched in combinations(edges, count):
            whole = sum(sent[edge] == everyone for edge in watched)
            down = [receiver for sender, receiver in watched if parents[receiver] == sender]
            assert len(down) == whole


def test_the_trees_drawn_in_nccls_source() -> None:
    # the picture of 14 nodes: 0 over 8 over 4 and 12; 4 over 2 and 6; 12 over 10 and 13
    assert binary_parents(14) == (ROOT, 2, 4, 2, 8, 6, 4, 6, 0, 10, 12, 10, 8, 12)
    # the pictures of 12 nodes (mirrored) and of 13 (moved on by one)
    mirrored = double_tree_parents(12)[1]
    assert (mirrored[11], mirrored[3], mirrored[1], mirrored[7]) == (ROOT, 11, 3, 3)
    moved = double_tree_parents(13)[1]
    assert (moved[1], moved[9], moved[5], moved[0], moved[3], moved[2]) == (ROOT, 1, 9, 9, 5, 3)


def test_the_first_half_of_the_channels_uses_the_first_tree() -> None:
    assert [tree_of_channel(c, 4) for c in range(4)] == [0, 0, 1, 1]
    assert tree_of_channel(0, 1) == 0


@pytest.mark.parametrize(
    ("edges", "right"),
    [
        ([(0, 1), (0, 2), (2, 3)], True),
        ([(0, 1), (1, 0), (2, 3)], False),  # a loop beside a tree, with the right numbers of nodes and edges
        ([(0, 2), (1, 2)], False),
        ([(0, 1), (2, 3)], False),
        ([(1, 1)], False),
    ],
)
def test_what_is_a_tree(edges: list[tuple[int, int]], right: bool) -> None:
    assert is_tree(edges) is right


def logged_trees() -> dict[int, dict[int, int]]:
    """Channel -> rank -> parent, from the ``Trees`` lines ``[c] down/down/down->rank->up``."""
    if not LOG.exists():
        pytest.skip("no ../shared/samples: the real log is not here")
    found: dict[int, dict[int, int]] = {}
    children: dict[int, dict[int, set[int]]] = {}
    for line in LOG.read_text().splitlines():
        if "Trees [" in line:
            for channel, down, rank, up in re.findall(r"\[(\d+)\] ([-\d/]+)->(\d+)->(-?\d+)", line):
                found.setdefault(int(channel), {})[int(rank)] = int(up)
                below = {int(d) for d in down.split("/")} - {-1}
                children.setdefault(int(channel), {})[int(rank)] = below
    for channel, parents in found.items():  # both ends of every edge tell the same
        for rank, below in children[channel].items():
            assert {r for r, up in parents.items() if up == rank} == below
    return found


def test_the_real_log_has_two_trees_over_the_hosts_and_chains_inside() -> None:
    logged = logged_trees()
    assert sorted(logged) == list(range(8))
    both = double_tree_parents(2)
    for channel, parents in logged.items():
        host = {rank: rank // 8 for rank in parents}
        between = {(host[up], host[rank]) for rank, up in parents.items() if up >= 0 and host[up] != host[rank]}
        wanted = both[tree_of_channel(channel, 8)]
        assert between == {(wanted[node], node) for node in range(2) if wanted[node] != ROOT}, f"channel {channel}"


def test_the_edges_of_the_real_log_follow_from_the_chains_of_its_hosts() -> None:
    logged = logged_trees()
    both = double_tree_parents(2)
    for channel, parents in logged.items():
        chains = []
        for node in range(2):
            below = {parents[r]: r for r in parents if r // 8 == node and parents[r] >= 0 and parents[r] // 8 == node}
            (rank,) = [r for r in parents if r // 8 == node and (parents[r] < 0 or parents[r] // 8 != node)]
            chain = [rank]
            while chain[-1] in below:
                chain.append(below[chain[-1]])
            chains.append(chain)
        assert sorted(map(len, chains)) == [8, 8]
        edges = host_tree_edges(chains, both[tree_of_channel(channel, 8)])
        assert sorted(edges) == sorted((up, rank) for rank, up in parents.items() if up >= 0), f"channel {channel}"
