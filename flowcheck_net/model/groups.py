"""Data-parallel groups by name: from the parallel layout (Megatron's order string) or from explicit lists.

The gradients of dense parameters are reduced over data *and* context parallel ranks (``dp-cp``), not over ``dp`` alone.
Source: Megatron-LM ``megatron/core/parallel_state.py`` (``domain/training-state.md`` section 1). The arithmetic is in
``spec.groups``, because the job file is checked with it.
"""

from flowcheck_net.errors import PlanError
from flowcheck_net.ids import GroupName, Rank
from flowcheck_net.spec.groups import gradient_groups
from flowcheck_net.spec.job import JobSpec


def data_parallel_groups(job: JobSpec) -> dict[GroupName, tuple[Rank, ...]]:
    """``dp0``, ``dp1``, ... -> global ranks, in index order.

    Raises:
        PlanError: no groups follow from the layout: it does not fit the ranks, or has expert parallelism, whose
            gradients are reduced over groups of their own.
    """
    groups = gradient_groups(job)
    if not groups:
        raise PlanError(
            f"no data-parallel groups follow from the layout and {len(job.ranks)} ranks",
            hint="correct `layout` (tp x cp x pp divides the ranks, ep is 1), or list the groups under `groups`",
        )
    return {GroupName(f"dp{i}"): tuple(Rank(r) for r in group) for i, group in enumerate(groups)}
