"""The tree all-reduce: which edges there are, and which of them carry fully reduced data.

Gradients are added on the way up: child to parent carries the sum of the child's subtree. The root holds the full sum,
which goes down unchanged: parent to child carries the tree's whole share fully reduced, on every edge. So each watched
down edge is one complete copy, and up edges give none.

NCCL lays two binary trees over the hosts of a communicator, so that each host is an inner node of one of them at most.
Inside a host the ranks of a channel are a chain. Facts: NCCL ``src/graph/trees.cc``, ``src/graph/connect.cc`` (the same
from 2.8 to 2.30).
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TypeVar

ROOT = -1
"""Parent of the root."""

_T = TypeVar("_T")


def binary_parents(nodes: int) -> tuple[int, ...]:
    """Parent of each node of the first tree, whose root is node 0.

    A node whose lowest set bit is ``b`` hangs below the neighbour at distance ``b`` that has a higher lowest bit: the
    one with bit ``2 b`` set, or where the tree has no such node the one before.
    """
    parents = [ROOT]
    for node in range(1, nodes):
        lowest = node & -node
        above = (node - lowest) | (2 * lowest)
        parents.append(above if above < nodes else node - lowest)
    return tuple(parents)


def double_tree_parents(nodes: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Parents of both trees. The second one is the first mirrored (even number of nodes) or moved on by one (odd)."""
    first = binary_parents(nodes)
    if nodes % 2:
        second = [_moved(first[(node - 1) % nodes], nodes) for node in range(nodes)]
    else:
        second = [_mirrored(first[nodes - 1 - node], nodes) for node in range(nodes)]
    return first, tuple(second)


def _moved(node: int, nodes: int) -> int:
    return ROOT if node == ROOT else (node + 1) % nodes


def _mirrored(node: int, nodes: int) -> int:
    return ROOT if node == ROOT else nodes - 1 - node


def tree_of_channel(channel: int, channels: int) -> int:
    """0 or 1: which of the two trees a channel of ``channels`` uses: the first half the first one."""
    return 0 if channel < max(1, channels // 2) else 1


def host_tree_edges(hosts: Sequence[Sequence[_T]], parents: Sequence[int]) -> tuple[tuple[_T, _T], ...]:
    """(parent, child) of every edge between ranks.

    The first rank of a host joins it to its parent and its children; the others follow it in a chain. (NCCL may let the
    second rank hold one or both children, by the host's own topology: then the job lists its trees.)

    Args:
        hosts: Ranks of each host, in the order of the chain.
        parents: Parent of each host.
    """
    between = [(hosts[up][0], hosts[node][0]) for node, up in enumerate(parents) if up != ROOT]
    inside = [pair for ranks in hosts for pair in pairwise(ranks)]
    return (*between, *inside)


def subtree_sizes(edges: Iterable[tuple[_T, _T]]) -> dict[_T, int]:
    """Nodes below each node of a tree, itself included: as many contributions as its partial sums hold."""
    parent = {child: up for up, child in edges}
    nodes = parent.keys() | set(parent.values())
    sizes = dict.fromkeys(nodes, 0)
    for node in nodes:
        above: _T | None = node
        while above is not None:
            sizes[above] += 1
            above = parent.get(above)
    return sizes


def is_tree(edges: Sequence[tuple[_T, _T]]) -> bool:
    """Do the (parent, child) edges make one tree: every node but one has one parent, and none is below itself?"""
    parent = {child: up for up, child in edges}
    nodes = parent.keys() | {up for up, _ in edges}
    if len(parent) != len(edges) or len(nodes) != len(edges) + 1:
        return False
    safe: set[_T] = set()
    for node in nodes:
        way: list[_T] = []
        while node in parent and node not in safe and len(way) <= len(edges):
            way.append(node)
            node = parent[node]
        if len(way) > len(edges):
            return False
        safe.update(way)
    return True
