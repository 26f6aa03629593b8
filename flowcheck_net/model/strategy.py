"""What gradients on the wire cannot give: named findings with the way out, never a plan.

Facts: ``domain/training-state.md`` sections 1 to 4, ``domain/nccl-wire.md`` section 5.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from flowcheck_net.errors import Infeasible
from flowcheck_net.model.groups import Group
from flowcheck_net.model.job import RankPlace
from flowcheck_net.spec.groups import expert_groups, gradient_groups
from flowcheck_net.spec.job import JobSpec

_SHOWN = 4


@dataclass(frozen=True, slots=True)
class Finding:
    """Why no observation point can see whole gradients."""

    reason: str
    cure: str
    """What to change in the training job."""


_SHARDED = "reduce-scatter leaves each sum at its owner, which adds last: the wire only has partial sums"

_STRATEGIES = {
    "megatron-distributed-optimizer": Finding(
        f"the distributed optimizer has one instance, and its {_SHARDED}",
        "use_distributed_optimizer=False, or num_distributed_optimizer_instances=2 (then the shards are all-reduced "
        "between the instances)",
    ),
    "megatron-fsdp": Finding(
        f"Megatron-FSDP's {_SHARDED}",
        "use_distributed_optimizer=False without Megatron-FSDP, or the distributed optimizer with "
        "num_distributed_optimizer_instances=2",
    ),
    "zero1": Finding(
        f"ZeRO-1 without all-reduce: {_SHARDED}",
        "set reduce_scatter: false, or use_multi_rank_bucket_allreduce: true (and strategy.all_reduce: true here), or "
        "ZeRO stage 0",
    ),
    "zero2": Finding(
        f"ZeRO-2 without all-reduce: {_SHARDED}",
        "set reduce_scatter: false, or use_multi_rank_bucket_allreduce: true (and strategy.all_reduce: true here), or "
        "ZeRO stage 0",
    ),
    "zero3": Finding(
        f"ZeRO-3's {_SHARDED}; its parameter all-gather shows new low-precision parameters, and no optimizer state",
        "ZeRO stage 0, or stage 1 or 2 with all-reduced buckets",
    ),
    "zero++": Finding(
        "ZeRO++ sends quantized partial sums by all-to-all: whole gradients are never on the wire",
        "ZeRO stage 0, or stage 1 or 2 with all-reduced buckets and without quantization",
    ),
    "fsdp-full": Finding(
        f"FULL_SHARD's {_SHARDED}",
        "ShardingStrategy.HYBRID_SHARD, or a two-dimensional device mesh with FSDP2 (strategy hsdp): then the shards "
        "are all-reduced between replicas; or DDP",
    ),
    "fsdp-shard-grad-op": Finding(
        f"SHARD_GRAD_OP's {_SHARDED}",
        "ShardingStrategy.HYBRID_SHARD (strategy hsdp): then the shards are all-reduced between replicas; or DDP",
    ),
}
"""Strategy -> why it is none that can be seen. ``zero1`` and ``zero2`` only without ``all_reduce``,
``megatron-distributed-optimizer`` only with one instance."""

_IN_SWITCH = "the switches add the gradients: their packets are no NCCL RDMA writes and are outside of the wire model"

_ALGORITHMS = {
    "nvls": Finding(
        f"NVLS over several hosts needs SHARP, where {_IN_SWITCH}",
        "pin NCCL_ALGO=allreduce:ring, or allreduce:nvlstree where the log shows NVLSTree",
    ),
    "collnet-direct": Finding(f"with CollNet {_IN_SWITCH}", "NCCL_COLLNET_ENABLE=0, or pin NCCL_ALGO=allreduce:ring"),
    "collnet-chain": Finding(f"with CollNet {_IN_SWITCH}", "NCCL_COLLNET_ENABLE=0, or pin NCCL_ALGO=allreduce:ring"),
    "sharp": Finding(f"with SHARP {_IN_SWITCH}", "NCCL_COLLNET_ENABLE=0, or pin NCCL_ALGO=allreduce:ring"),
    "pat": Finding(
        "PAT serves reduce-scatter and all-gather only: there is no all-reduce whose sum could be seen",
        "let the framework all-reduce its buckets (DDP), and pin NCCL_ALGO=allreduce:ring",
    ),
}


def refuse_unobservable(job: JobSpec) -> None:
    """Refuse what the job's strategy, algorithm or communication hook keeps off the wire.

    Raises:
        Infeasible: names the groups, the reason and what to change.
    """
    found = [f for f in (_by_strategy(job), _ALGORITHMS.get(job.collective.algorithm), _by_hook(job)) if f is not None]
    if not found:
        return
    groups = [f"dp{n}" for n in range(len(gradient_groups(job)))]
    groups += [f"edp{n}" for n in range(len(expert_groups(job)))]
    reasons = "; ".join(finding.reason for finding in found)
    raise Infeasible(
        f"gradients of {names(groups)} cannot be rebuilt from the wire: {reasons}",
        hint="; and ".join(finding.cure for finding in found),
    )


def refuse_invisible(groups: Sequence[Group], places: Sequence[RankPlace]) -> None:
    """Refuse groups whose all-reduce never leaves a host. ``places``: by rank.

    Raises:
        Infeasible: names all such groups.
    """
    problems = []
    for group in groups:
        hosts = {places[rank].host for rank in group.ranks}
        if len(group.ranks) < 2:
            problems.append(f"{group.name} is rank {group.ranks[0]} alone: it has no all-reduce")
        elif len(hosts) == 1:
            problems.append(f"{group.name} lies wholly in host {hosts.pop()}: its all-reduce never crosses the network")
    if problems:
        raise Infeasible(
            "gradients that no switch can see: " + "; ".join(problems),
            hint="place the ranks of each data-parallel group on two hosts or more, or save these groups another way",
        )


def names(groups: Sequence[str]) -> str:
    """The first few names, and how many more."""
    more = f" and {len(groups) - _SHOWN} more" if len(groups) > _SHOWN else ""
    return ", ".join(groups[:_SHOWN]) + more


def _by_strategy(job: JobSpec) -> Finding | None:
    strategy = job.strategy
    if strategy.all_reduce or (strategy.instances or 1) > 1:
        return None
    return _STRATEGIES.get(strategy.name)


def _by_hook(job: JobSpec) -> Finding | None:
    hook = job.strategy.comm_hook
    if hook == "none":
        return None
    return Finding(
        f"the communication hook {hook} sends something else than the gradients that the optimizer uses",
        "remove the hook; to reduce in another type, reduce gradients of that type without a hook",
    )
