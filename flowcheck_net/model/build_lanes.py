"""Groups -> their rings or trees, one a channel: as the job states them, else by NCCL's own construction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from flowcheck_net.ids import Address, Channel, GroupName, NicName, Qpn, Rank
from flowcheck_net.model.collectives.tree import double_tree_parents, host_tree_edges, tree_of_channel
from flowcheck_net.model.groups import Group
from flowcheck_net.model.job import HopNics, RankPlace, Ring, Tree, TreeEdge
from flowcheck_net.spec.job import JobSpec, RingSpec, TreeSpec

Addresses = Mapping[tuple[str, str], Address]
"""(host, NIC) -> the address that ranks send from."""


@dataclass(frozen=True, slots=True)
class _Ground:
    """Where ranks are."""

    places: Sequence[RankPlace]
    addresses: Addresses

    def nics(self, pair: Sequence[str], source: Rank, target: Rank) -> HopNics:
        """The NICs of a hop; ``pair`` is empty for the ranks' own."""
        here, there = self.places[source], self.places[target]
        send, receive = pair or (here.nic, there.nic)
        return HopNics(
            NicName(send), self.addresses[here.host, send], NicName(receive), self.addresses[there.host, receive]
        )

    def by_host(self, ranks: Sequence[Rank]) -> list[list[Rank]]:
        """Ranks of each host, hosts in the order of their first rank: NCCL's numbering of nodes."""
        found: dict[str, list[Rank]] = {}
        for rank in ranks:
            found.setdefault(self.places[rank].host, []).append(rank)
        return list(found.values())


def build_lanes(
    job: JobSpec, groups: Sequence[Group], places: Sequence[RankPlace], addresses: Addresses
) -> tuple[tuple[Ring, ...], tuple[Tree, ...]]:
    """All rings and all trees, each sorted by (group, channel); one of the two is empty."""
    ground = _Ground(places, addresses)
    makers = {"ring": _rings, "tree": _trees, "nvlstree": _head_trees}
    lanes = makers[job.collective.algorithm](job, groups, ground)
    ordered = sorted(lanes, key=lambda lane: (lane.group, lane.channel))
    return tuple(x for x in ordered if isinstance(x, Ring)), tuple(x for x in ordered if isinstance(x, Tree))


def _rings(job: JobSpec, groups: Sequence[Group], ground: _Ground) -> list[Ring | Tree]:
    stated = {(r.group, r.channel): r for r in job.rings}
    return [
        _ring(group, Channel(channel), stated.get((group.name, channel)), ground)
        for group in groups
        for channel in range(job.nccl.channels)
    ]


def _ring(group: Group, channel: Channel, stated: RingSpec | None, ground: _Ground) -> Ring:
    if stated is None:
        return Ring(group.name, channel, group.ranks, carries=group.carries)
    order = tuple(Rank(r) for r in stated.order)
    following = order[1:] + order[:1]
    return Ring(
        group.name,
        channel,
        order,
        tuple(tuple(Qpn(q) for q in hop) for hop in stated.qpns),
        tuple(
            ground.nics(pair, source, target)
            for pair, source, target in zip(stated.nics, order, following, strict=False)
        ),
        group.carries,
    )


def _trees(job: JobSpec, groups: Sequence[Group], ground: _Ground) -> list[Ring | Tree]:
    stated = {(t.group, t.channel): t for t in job.trees}
    found: list[Ring | Tree] = []
    for group in groups:
        hosts = ground.by_host(group.ranks)
        both = double_tree_parents(len(hosts))
        for channel in range(job.nccl.channels):
            tree = stated.get((group.name, channel))
            if tree is not None:
                edges = _stated_edges(tree, ground)
            else:
                parents = both[tree_of_channel(channel, job.nccl.channels)]
                edges = tuple(TreeEdge(up, down) for up, down in host_tree_edges(hosts, parents))
            found.append(Tree(group.name, Channel(channel), edges, len(group.ranks), len(hosts), carries=group.carries))
    return found


def _stated_edges(stated: TreeSpec, ground: _Ground) -> tuple[TreeEdge, ...]:
    unknown: tuple[tuple[int, ...], ...] = ((),) * len(stated.edges)
    own: tuple[tuple[str, ...], ...] = ((),) * len(stated.edges)
    return tuple(
        TreeEdge(
            Rank(up),
            Rank(down),
            tuple(Qpn(q) for q in down_qpns),
            tuple(Qpn(q) for q in up_qpns),
            (ground.nics(pair, Rank(up), Rank(down)),) if pair else (),
        )
        for (up, down), down_qpns, up_qpns, pair in zip(
            stated.edges, stated.down_qpns or unknown, stated.up_qpns or unknown, stated.nics or own, strict=True
        )
    )


def _head_trees(job: JobSpec, groups: Sequence[Group], ground: _Ground) -> list[Ring | Tree]:
    """NVLSTree: each head's ranks form trees of their own, even channels the first one and odd ones the second."""
    stated = {h.group: [[Rank(r) for r in head] for head in h.heads] for h in job.nvls_heads}
    found: list[Ring | Tree] = []
    for group in groups:
        heads = stated.get(group.name) or _all_heads(ground.by_host(group.ranks))
        both = double_tree_parents(len(heads[0]))
        for number, ranks in enumerate(heads):
            name = GroupName(f"{group.name}.head{number}") if len(heads) > 1 else group.name
            for channel in range(job.nccl.channels):
                pairs = host_tree_edges([[rank] for rank in ranks], both[channel % 2])
                edges = tuple(TreeEdge(up, down) for up, down in pairs)
                members, hosts = len(group.ranks), len(ranks)
                found.append(
                    Tree(name, Channel(channel), edges, members, hosts, number, len(heads), carries=group.carries)
                )
    return found


def _all_heads(hosts: Sequence[Sequence[Rank]]) -> list[list[Rank]]:
    """Rank ``h`` of every host is head ``h``, as far as every host has one."""
    return [list(ranks) for ranks in zip(*hosts, strict=False)]
