"""Which ranks reduce their gradients together, as far as the job file must know to check itself.

Facts: Megatron-LM ``megatron/core/parallel_state.py`` (``domain/training-state.md`` section 1). There are two rank
generators. The dense one has the axes tp, cp, dp, pp, the expert one etp, ep, edp, pp; the product of each is the
number of ranks. Both count through their axes in the job's order string, the expert one with etp in the place of tp and
edp in that of dp.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from flowcheck_net.spec.job import JobSpec, Layout

AXES = ("tp", "cp", "ep", "dp", "pp")

Kind = Literal["dense", "expert"]
"""Of parameters, and so of buckets."""
Groups = tuple[tuple[int, ...], ...]
"""Global ranks of each group, in group order."""

_DENSE: tuple[Kind, ...] = ("dense",)
_EXPERT: tuple[Kind, ...] = ("expert",)


@dataclass(frozen=True, slots=True)
class NamedGroup:
    """Ranks that all-reduce together, and what they all-reduce."""

    name: str
    """``dp0``, ``edp0``, ``inst0`` or ``rep0``."""
    ranks: tuple[int, ...]
    """In the order of the communicator."""
    carries: tuple[Kind, ...]
    """Buckets of these kinds."""


def data_parallel_size(layout: Layout, ranks: int) -> int:
    """What remains for the data-parallel axis; 0 where the other axes do not divide the number of ranks."""
    return _rest(ranks, layout.tp * layout.cp * layout.pp)


def expert_data_parallel_size(layout: Layout, ranks: int) -> int:
    """What remains for the expert-data-parallel axis; 0 where the other axes do not divide the number of ranks."""
    return _rest(ranks, expert_tensor_size(layout) * layout.ep * layout.pp)


def expert_tensor_size(layout: Layout) -> int:
    """``etp``, by default that of the dense parameters."""
    return layout.tp if layout.etp is None else layout.etp


def has_experts(job: JobSpec) -> bool:
    """Are there parameters that another group reduces than the dense ones?"""
    layout = job.layout
    if layout is None:
        return bool(job.expert_groups)
    return layout.ep > 1 or expert_tensor_size(layout) != layout.tp


def gradient_groups(job: JobSpec) -> Groups:
    """The data-parallel groups of dense parameters, before any optimizer shards them.

    A layout's gradients are reduced over data- and context-parallel ranks together (Megatron's dp-cp group). Rank
    numbers count through the axes in the order of ``layout.order``, the first fastest; so do group numbers through the
    axes that stay fixed. Empty where the layout does not fit the ranks.
    """
    if job.groups is not None:
        return job.groups
    layout = job.layout or Layout()
    dp = data_parallel_size(layout, len(job.ranks))
    size = {"tp": layout.tp, "cp": layout.cp, "ep": 1, "pp": layout.pp, "dp": dp}
    return _generate(layout.order, size, ("dp", "cp"))


def expert_groups(job: JobSpec) -> Groups:
    """The data-parallel groups of expert parameters; empty where there are none or the layout does not fit."""
    if job.layout is None:
        return job.expert_groups
    layout = job.layout
    if not has_experts(job):
        return ()
    edp = expert_data_parallel_size(layout, len(job.ranks))
    size = {"tp": expert_tensor_size(layout), "cp": 1, "ep": layout.ep, "pp": layout.pp, "dp": edp}
    return _generate(layout.order, size, ("dp",))


def shard_count(job: JobSpec, kind: Kind) -> int:
    """Equal pieces into which every bucket of this kind is cut before its pieces are all-reduced.

    1 where whole buckets are. 0 where the strategy's numbers do not fit the groups.
    """
    if replica_prefix(job) is None:
        return 1
    sizes = {len(group) for group in (gradient_groups(job) if kind == "dense" else expert_groups(job))}
    if len(sizes) != 1:
        return 0
    (size,) = sizes
    if job.strategy.name == "hsdp":
        shard = job.strategy.shard or 0
        return shard if shard and size % shard == 0 else 0
    return _rest(size, job.strategy.instances or 1)


def replica_prefix(job: JobSpec) -> Literal["inst", "rep"] | None:
    """What groups are called that all-reduce shards between replicas; None where whole buckets are all-reduced."""
    strategy = job.strategy
    if strategy.name == "hsdp":
        return "rep"
    if strategy.name == "megatron-distributed-optimizer" and (strategy.instances or 1) > 1:
        return "inst"
    return None


def named_groups(job: JobSpec) -> tuple[NamedGroup, ...]:
    """Every group that all-reduces gradients or shards of them.

    ``dp`` and ``edp`` groups reduce whole buckets. Where the optimizer is sharded, a data-parallel group of ``n``
    replicas with ``s`` shards is cut into ``n`` runs of ``s`` ranks, and the ranks at the same place of each run
    all-reduce their shard: ``inst`` groups (Megatron's instances) or ``rep`` groups (HSDP). Megatron has one
    communicator for the shards of dense and of expert parameters, so where both cuts give the same groups, they are
    the same group here.
    """
    dense, experts = gradient_groups(job), expert_groups(job)
    prefix = replica_prefix(job)
    if prefix is None:
        return (*_named("dp", dense, _DENSE), *_named("edp", experts, _EXPERT))
    inter = _across(dense, shard_count(job, "dense"))
    inter_experts = _across(experts, shard_count(job, "expert")) if experts else ()
    if {frozenset(g) for g in inter_experts} == {frozenset(g) for g in inter}:
        return _named(prefix, inter, (*_DENSE, *_EXPERT))
    first = _named(prefix, inter, _DENSE)
    return (*first, *_named(prefix, inter_experts, _EXPERT, start=len(first)))


def _named(prefix: str, groups: Groups, carries: tuple[Kind, ...], start: int = 0) -> tuple[NamedGroup, ...]:
    return tuple(NamedGroup(f"{prefix}{n}", ranks, carries) for n, ranks in enumerate(groups, start=start))


def _across(groups: Groups, shards: int) -> Groups:
    """Of each group cut into runs of ``shards`` ranks, the ranks at the same place of every run."""
    return tuple(group[place::shards] for group in groups for place in range(shards))


def _generate(order: str, size: dict[str, int], reduced: Sequence[str]) -> Groups:
    """Megatron's orthogonal rank groups over the ``reduced`` axes."""
    axes = order.split("-")
    if 0 in size.values() or sorted(axes) != sorted(AXES):
        return ()
    stride = {axis: prod(size[a] for a in axes[:i]) for i, axis in enumerate(axes)}
    offsets = _count_through((a for a in axes if a in reduced), size, stride)
    starts = _count_through((a for a in axes if a not in reduced), size, stride)
    return tuple(tuple(start + offset for offset in offsets) for start in starts)


def _count_through(axes: Iterable[str], size: dict[str, int], stride: dict[str, int]) -> list[int]:
    """Rank offsets over the given axes, the first axis fastest."""
    offsets = [0]
    for axis in axes:
        offsets = [step * stride[axis] + offset for step in range(size[axis]) for offset in offsets]
    return offsets


def _rest(whole: int, part: int) -> int:
    return whole // part if whole % part == 0 else 0
