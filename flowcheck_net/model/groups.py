"""Groups that all-reduce gradients, by name: from the parallel layout (Megatron's order string) or from explicit lists.

The gradients of dense parameters are reduced over data *and* context parallel ranks (``dp-cp``), not over ``dp`` alone;
those of experts over expert-data-parallel ranks. Source: Megatron-LM ``megatron/core/parallel_state.py``
(``domain/training-state.md`` section 1). The arithmetic is in ``spec.groups``, because the job file is checked with it.
"""

from dataclasses import dataclass

from flowcheck_net.errors import PlanError
from flowcheck_net.ids import GroupName, Rank
from flowcheck_net.model.job import BucketKind
from flowcheck_net.spec.groups import gradient_groups, named_groups, shard_count
from flowcheck_net.spec.job import JobSpec


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks that all-reduce together."""

    name: GroupName
    """``dp``: dense gradients; ``edp``: expert ones; ``inst``, ``rep``: shards, between optimizer replicas."""
    ranks: tuple[Rank, ...]
    """In the order of the communicator."""
    carries: tuple[BucketKind, ...]
    """Buckets of these kinds."""


def reduction_groups(job: JobSpec) -> tuple[Group, ...]:
    """Every group whose all-reduce holds gradients, or shards of them, in group order.

    Raises:
        PlanError: no groups follow from the layout: it does not fit the ranks.
    """
    if not gradient_groups(job):
        raise PlanError(
            f"no data-parallel groups follow from the layout and {len(job.ranks)} ranks",
            hint="correct `layout` (tp x cp x pp divides the ranks), or list the groups under `groups`",
        )
    return tuple(
        Group(GroupName(g.name), tuple(Rank(r) for r in g.ranks), tuple(BucketKind(kind) for kind in g.carries))
        for g in named_groups(job)
    )


def data_parallel_groups(job: JobSpec) -> dict[GroupName, tuple[Rank, ...]]:
    """Name of each group -> global ranks, in group order. Raises like ``reduction_groups``."""
    return {group.name: group.ranks for group in reduction_groups(job)}


def shards(job: JobSpec, kind: BucketKind) -> int:
    """Equal pieces into which the framework cuts each bucket of this kind before it all-reduces them; 1: whole."""
    return shard_count(job, kind.value)
