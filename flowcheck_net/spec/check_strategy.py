"""Does the strategy fit the groups and the buckets? Whether its gradients can be seen is no question of the file."""

from collections.abc import Iterator

from flowcheck_net.spec.groups import Kind, expert_groups, gradient_groups, has_experts, replica_prefix, shard_count
from flowcheck_net.spec.job import JobSpec
from flowcheck_net.spec.yamlpos import Fault

_KINDS: tuple[Kind, ...] = ("dense", "expert")
_OPTIONS = {
    "instances": ("megatron-distributed-optimizer",),
    "shard": ("hsdp",),
    "all_reduce": ("zero1", "zero2"),
}
"""Option -> the strategies that have it."""


def check_strategy(job: JobSpec) -> Iterator[Fault]:
    """Options of another strategy, missing ones, shards that do not come out even, buckets without a group."""
    yield from _options(job)
    yield from _buckets(job)
    if replica_prefix(job) is not None and gradient_groups(job):
        yield from _shards(job)
    if job.layout is not None and job.expert_groups:
        words = "with a layout the expert groups follow from ep and etp"
        yield Fault(("expert_groups",), words, "leave them out, or list groups too", at_key=True)


def _options(job: JobSpec) -> Iterator[Fault]:
    strategy = job.strategy
    for option, owners in _OPTIONS.items():
        if getattr(strategy, option) is not None and strategy.name not in owners:
            words = f"belongs to {' and '.join(owners)} (found {strategy.name})"
            yield Fault(("strategy", option), words, at_key=True)
    if strategy.name == "hsdp" and strategy.shard is None:
        yield Fault(("strategy",), "hsdp needs shard", "the ranks of one shard group, often those of a host")
    if strategy.name in _OPTIONS["all_reduce"] and strategy.all_reduce is None:
        words = f"{strategy.name} needs all_reduce"
        cure = (
            "true if DeepSpeed all-reduces buckets (use_multi_rank_bucket_allreduce, or reduce_scatter off), else false"
        )
        yield Fault(("strategy",), words, cure)


def _buckets(job: JobSpec) -> Iterator[Fault]:
    kinds = [bucket.groups for bucket in job.buckets]
    for i, kind in enumerate(kinds):
        if kind == "expert" and not has_experts(job):
            words = "the job has no expert groups"
            cure = "give ep or etp in the layout, or list expert_groups"
            yield Fault(("buckets", i, "groups"), words, cure)
    if has_experts(job) and "expert" not in kinds:
        words = "no bucket holds expert gradients, but the job has expert groups"
        yield Fault(("buckets",), words, "groups: expert marks them")
    if "dense" not in kinds:
        yield Fault(
            ("buckets",), "no bucket holds dense gradients", "every model has some: embeddings, attention, router"
        )


def _shards(job: JobSpec) -> Iterator[Fault]:
    for kind in _KINDS:
        groups = gradient_groups(job) if kind == "dense" else expert_groups(job)
        if not groups:
            continue
        shards = shard_count(job, kind)
        if shards == 0:
            yield _uneven(job, kind, sorted({len(group) for group in groups}))
            continue
        for i, bucket in enumerate(job.buckets):
            if bucket.groups == kind and bucket.elements % shards:
                words = f"{bucket.elements} elements cannot be cut into {shards} equal shards"
                yield Fault(("buckets", i, "elements"), words, "give the padded size that the framework allocates")


def _uneven(job: JobSpec, kind: Kind, sizes: list[int]) -> Fault:
    shown = " or ".join(str(size) for size in sizes)
    option = "shard" if job.strategy.name == "hsdp" else "instances"
    value = getattr(job.strategy, option)
    words = f"{option} {value} does not divide the {kind} data-parallel groups of {shown} ranks evenly"
    return Fault(("strategy", option), words)
