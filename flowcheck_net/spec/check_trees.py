"""Do stated trees span their group, and do stated NVLS heads stand one on each host?"""

from collections.abc import Iterator, Mapping, Sequence

from flowcheck_net.spec.check_topology import Device
from flowcheck_net.spec.explain import did_you_mean
from flowcheck_net.spec.groups import named_groups
from flowcheck_net.spec.job import JobSpec, TreeSpec
from flowcheck_net.spec.yamlpos import DocPath, Fault

_SHOWN = 8


def check_trees(job: JobSpec) -> Iterator[Fault]:
    """Every fault of ``trees``, and trees that cannot be guessed."""
    groups = {group.name: group.ranks for group in named_groups(job)}
    first: dict[tuple[str, int], int] = {}
    for i, tree in enumerate(job.trees):
        if tree.channel >= job.nccl.channels:
            words = f"must be less than nccl.channels = {job.nccl.channels} (found {tree.channel})"
            yield Fault(("trees", i, "channel"), words)
        key = (tree.group, tree.channel)
        if key in first:
            yield Fault(
                ("trees", i), f"the tree of {tree.group} on channel {tree.channel} is in trees.{first[key]} already"
            )
        first.setdefault(key, i)
        if tree.group in groups:
            yield from _spans(tree, ("trees", i, "edges"), groups[tree.group])
        elif groups:
            yield Fault(("trees", i, "group"), f"there is no group '{tree.group}'", did_you_mean(tree.group, groups))
        yield from _edge_lists(job, tree, ("trees", i))
    yield from _unknown_half(job, groups, first)


def _unknown_half(job: JobSpec, groups: Mapping[str, object], stated: Mapping[tuple[str, int], int]) -> Iterator[Fault]:
    """NCCL gives the first half of a communicator's channels to one tree and the second half to the other."""
    channels = job.nccl.channels
    if job.collective.algorithm != "tree" or channels == 1 or channels % 2 == 0:
        return
    if any((group, channel) not in stated for group in groups for channel in range(channels)):
        words = f"with {channels} channels of a communicator that has more it is not known which tree each one uses"
        yield Fault(("nccl", "channels"), words, "list all trees as NCCL's log shows them")


def _spans(tree: TreeSpec, path: DocPath, group: Sequence[int]) -> Iterator[Fault]:
    """Each rank of the group but one has one parent, and all paths lead to that one."""
    members = set(group)
    parent: dict[int, int] = {}
    for e, (up, down) in enumerate(tree.edges):
        for rank in (up, down):
            if rank not in members:
                yield Fault((*path, e), f"rank {rank} is not in {tree.group}")
        if down in parent:
            yield Fault((*path, e), f"rank {down} has parent {parent[down]} already")
        parent.setdefault(down, up)
    roots = [rank for rank in group if rank not in parent]
    if len(roots) != 1:
        shown = ", ".join(str(rank) for rank in roots[:_SHOWN]) + (", ..." if len(roots) > _SHOWN else "")
        words = f"a tree has one root: ranks without a parent are {shown or 'none'}"
        yield Fault(path, words, "every rank but the root is the child of one edge")
    elif len(_below(tree, roots[0])) != len(group):
        yield Fault(path, f"the edges hold a loop: not every rank is below root {roots[0]}")


def _below(tree: TreeSpec, root: int) -> set[int]:
    children: dict[int, list[int]] = {}
    for up, down in tree.edges:
        children.setdefault(up, []).append(down)
    found: set[int] = set()
    waiting = [root]
    while waiting:
        rank = waiting.pop()
        if rank not in found:
            found.add(rank)
            waiting.extend(children.get(rank, ()))
    return found


def _edge_lists(job: JobSpec, tree: TreeSpec, path: DocPath) -> Iterator[Fault]:
    for key in ("down_qpns", "up_qpns", "nics"):
        given = getattr(tree, key)
        if given and len(given) != len(tree.edges):
            yield Fault((*path, key), f"{len(tree.edges)} edges need {len(tree.edges)} lists (found {len(given)})")
    wanted = job.nccl.qps_per_connection
    for key in ("down_qpns", "up_qpns"):
        for e, qpns in enumerate(getattr(tree, key)):
            if len(qpns) not in (0, wanted):
                words = f"must hold qps_per_connection = {wanted} queue pairs (found {len(qpns)})"
                yield Fault((*path, key, e), words, "[] for an edge inside a host")
    for e, pair in enumerate(tree.nics):
        if len(pair) not in (0, 2):
            words = f"must be a pair [parent's NIC, child's NIC], or [] (found a list of {len(pair)})"
            yield Fault((*path, "nics", e), words)


def tree_nics(job: JobSpec, hosts: Mapping[str, Device]) -> Iterator[Fault]:
    """The NICs of an edge must be those of its two hosts."""
    host_of = {place.rank: place.host for place in job.ranks}
    for i, tree in enumerate(job.trees):
        for e, (pair, ends) in enumerate(zip(tree.nics, tree.edges, strict=False)):
            for n, (nic, rank) in enumerate(zip(pair, ends, strict=False)):
                host = hosts.get(host_of.get(rank, ""))
                if host is not None and nic not in host.ports:
                    words = f"host {host_of[rank]} of rank {rank} has no NIC '{nic}' in the topology"
                    yield Fault(("trees", i, "nics", e, n), words, did_you_mean(nic, host.ports))


def check_heads(job: JobSpec) -> Iterator[Fault]:
    """Every head has one rank on each host of its group, the hosts in one order, and no rank is two heads."""
    groups = {group.name: group.ranks for group in named_groups(job)}
    host_of = {place.rank: place.host for place in job.ranks}
    first: dict[str, int] = {}
    for i, stated in enumerate(job.nvls_heads):
        if stated.group in first:
            yield Fault(
                ("nvls_heads", i), f"the heads of {stated.group} are in nvls_heads.{first[stated.group]} already"
            )
        first.setdefault(stated.group, i)
        if stated.group not in groups:
            cure = did_you_mean(stated.group, groups)
            yield Fault(("nvls_heads", i, "group"), f"there is no group '{stated.group}'", cure)
            continue
        hosts = list(dict.fromkeys(host_of.get(rank, "") for rank in groups[stated.group]))
        members = set(groups[stated.group])
        order = [host_of.get(rank, "") for rank in stated.heads[0]]
        seen: set[int] = set()
        for h, head in enumerate(stated.heads):
            at = ("nvls_heads", i, "heads", h)
            for rank in head:
                if rank not in members:
                    yield Fault(at, f"rank {rank} is not in {stated.group}")
                elif rank in seen:
                    yield Fault(at, f"rank {rank} is a head twice")
                seen.add(rank)
            found = [host_of.get(rank, "") for rank in head]
            if sorted(found) != sorted(hosts):
                yield Fault(at, f"must hold one rank on each of the {len(hosts)} hosts of {stated.group}")
            elif found != order:
                yield Fault(at, "its hosts are not in the order of the first head's")
