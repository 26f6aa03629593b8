"""Which ranks reduce what together, against nested loops over the coordinates of every rank."""

from itertools import permutations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcheck_net.ids import GroupName
from flowcheck_net.model.build import build_job
from flowcheck_net.model.groups import data_parallel_groups, reduction_groups, shards
from flowcheck_net.model.job import BucketKind
from flowcheck_net.spec.check_job import check_job
from flowcheck_net.spec.groups import AXES
from flowcheck_net.spec.job import JobSpec
from tests.doubles.jobs import a_job, one_leaf

DENSE, EXPERT = BucketKind.DENSE, BucketKind.EXPERT
EXPERT_BUCKETS = (
    {"name": "b", "elements": 4096, "dtype": "fp32"},
    {"name": "x", "elements": 8192, "dtype": "bf16", "groups": "expert"},
)


def enumerate_ranks(order: str, sizes: dict[str, int]) -> list[tuple[int, dict[str, int]]]:
    """(rank, coordinates), by nested loops: the last axis of the order is the outermost loop."""
    axes = order.split("-")
    found = []
    for rank, outermost_first in enumerate(product(*(range(sizes[axis]) for axis in reversed(axes)))):
        found.append((rank, dict(zip(reversed(axes), outermost_first, strict=True))))
    return found


def together(order: str, sizes: dict[str, int], over: set[str]) -> set[tuple[int, ...]]:
    """Ranks that differ in the axes ``over`` only, in rank order."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for rank, at in enumerate_ranks(order, sizes):
        groups.setdefault(tuple(at[axis] for axis in AXES if axis not in over), []).append(rank)
    return {tuple(group) for group in groups.values()}


def as_sets(job: JobSpec, prefix: str) -> set[tuple[int, ...]]:
    named = data_parallel_groups(job)
    return {tuple(sorted(ranks)) for name, ranks in named.items() if name.rstrip("0123456789") == prefix}


class TestLayout:
    def test_the_worked_example_of_megatron(self) -> None:
        # domain/training-state.md section 1: tp=8, cp=1, dp=4, pp=2 on 64 ranks: {t + 8 d + 32 p | d = 0..3}
        groups = data_parallel_groups(a_job(64, layout={"tp": 8, "pp": 2}))
        wanted = {tuple(t + 8 * d + 32 * p for d in range(4)) for t in range(8) for p in range(2)}
        assert set(groups.values()) == wanted
        assert list(groups)[:2] == ["dp0", "dp1"]

    @pytest.mark.parametrize("order", ["-".join(order) for order in permutations(AXES)])
    def test_dense_groups_of_every_order(self, order: str) -> None:
        sizes = {"tp": 2, "cp": 2, "ep": 1, "dp": 3, "pp": 2}
        job = a_job(24, layout={"order": order, "tp": 2, "cp": 2, "pp": 2})
        assert as_sets(job, "dp") == together(order, sizes, {"dp", "cp"})

    @settings(max_examples=60)
    @given(st.permutations(AXES), *[st.integers(1, 3)] * 5)
    def test_expert_groups_have_a_rank_generator_of_their_own(
        self, axes: list[str], tp: int, ep: int, etp: int, pp: int, rest: int
    ) -> None:
        order = "-".join(axes)
        world = tp * etp * ep * pp * rest
        job = a_job(world, layout={"order": order, "tp": tp, "ep": ep, "etp": etp, "pp": pp}, buckets=EXPERT_BUCKETS)
        dense = {"tp": tp, "cp": 1, "ep": 1, "dp": world // (tp * pp), "pp": pp}
        expert = {"tp": etp, "cp": 1, "ep": ep, "dp": world // (etp * ep * pp), "pp": pp}
        assert as_sets(job, "dp") == together(order, dense, {"dp"})
        separate = ep > 1 or etp != tp
        assert as_sets(job, "edp") == (together(order, expert, {"dp"}) if separate else set())

    def test_mixtral_like_layout_by_hand(self) -> None:
        # 16 ranks, tp 2, ep 4, etp 1: dense dp 8 = every second rank; experts edp 4 = ranks r, r + 4, r + 8, r + 12
        job = a_job(16, layout={"tp": 2, "ep": 4, "etp": 1}, buckets=EXPERT_BUCKETS)
        groups = {group.name: group for group in reduction_groups(job)}
        assert groups[GroupName("dp0")].ranks == tuple(range(0, 16, 2))
        assert [groups[GroupName(f"edp{n}")].ranks for n in range(4)] == [tuple(range(n, 16, 4)) for n in range(4)]
        assert groups[GroupName("edp3")].carries == (EXPERT,)

    def test_pipeline_stages_must_be_the_same_for_experts(self) -> None:
        layout = {"order": "tp-cp-ep-pp-dp", "tp": 2, "ep": 2, "pp": 2}
        job = a_job(16, layout=layout, buckets=EXPERT_BUCKETS)
        assert any("other pipeline stages" in fault.message for fault in check_job(job))
        last = a_job(16, layout=layout | {"order": "tp-cp-ep-dp-pp"}, buckets=EXPERT_BUCKETS)
        assert not list(check_job(last))

    def test_explicit_expert_groups(self) -> None:
        job = a_job(4, groups=((0, 1, 2, 3),), expert_groups=((0, 2), (1, 3)), buckets=EXPERT_BUCKETS)
        assert not list(check_job(job))
        assert data_parallel_groups(job) == {"dp0": (0, 1, 2, 3), "edp0": (0, 2), "edp1": (1, 3)}


class TestShards:
    @settings(max_examples=60)
    @given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 2), st.integers(2, 4), st.integers(1, 3))
    def test_optimizer_instances(self, tp: int, cp: int, pp: int, instances: int, size: int) -> None:
        # Megatron: the dp-cp group is cut into runs of equal length; equal places of the runs all-reduce their shard
        dp = instances * size
        strategy = {"name": "megatron-distributed-optimizer", "instances": instances}
        layout = {"tp": tp, "cp": cp, "pp": pp}
        job = a_job(tp * cp * pp * dp, layout=layout, strategy=strategy)
        wanted = set()
        for group in together("tp-cp-ep-dp-pp", {"tp": tp, "cp": cp, "ep": 1, "dp": dp, "pp": pp}, {"dp", "cp"}):
            length = len(group) // instances
            runs = [group[i * length : (i + 1) * length] for i in range(instances)]
            wanted |= {tuple(run[place] for run in runs) for place in range(length)}
        assert as_sets(job, "inst") == wanted
        assert not as_sets(job, "dp")
        assert shards(job, DENSE) == cp * size

    def test_hybrid_shard(self) -> None:
        # 2 hosts of 4: FSDP shards inside a host and all-reduces between the hosts
        job = a_job(8, 2, strategy={"name": "hsdp", "shard": 4})
        assert data_parallel_groups(job) == {f"rep{n}": (n, n + 4) for n in range(4)}
        assert [b.elements for b in build_job(job, one_leaf(2, 4)).wire.buckets] == [1024]

    def test_experts_and_dense_shards_share_the_groups_between_instances(self) -> None:
        # 16 ranks, tp 2, ep 2, 2 instances: dense dp 8 -> shards of 4, experts edp 4 -> shards of 2; both pair r, r + 8
        strategy = {"name": "megatron-distributed-optimizer", "instances": 2}
        job = a_job(16, layout={"tp": 2, "ep": 2}, strategy=strategy, buckets=EXPERT_BUCKETS)
        groups = reduction_groups(job)
        assert {tuple(sorted(g.ranks)) for g in groups} == {(r, r + 8) for r in range(8)}
        assert {g.carries for g in groups} == {(DENSE, EXPERT)}
        built = build_job(job, one_leaf(16))
        assert [(b.elements, b.kind) for b in built.wire.buckets] == [(1024, DENSE), (4096, EXPERT)]

    @pytest.mark.parametrize(
        ("strategy", "elements", "words"),
        [
            ({"name": "hsdp", "shard": 3}, 4096, "shard 3 does not divide the dense data-parallel groups of 8 ranks"),
            ({"name": "hsdp", "shard": 4}, 4094, "4094 elements cannot be cut into 4 equal shards"),
            ({"name": "hsdp"}, 4096, "hsdp needs shard"),
            ({"name": "megatron-distributed-optimizer", "instances": 3}, 4096, "instances 3 does not divide"),
            ({"name": "ddp", "instances": 2}, 4096, "belongs to megatron-distributed-optimizer (found ddp)"),
            ({"name": "zero1"}, 4096, "zero1 needs all_reduce"),
            ({"name": "ddp", "all_reduce": True}, 4096, "belongs to zero1 and zero2 (found ddp)"),
        ],
    )
    def test_faults(self, strategy: dict[str, object], elements: int, words: str) -> None:
        buckets = ({"name": "b", "elements": elements, "dtype": "fp32"},)
        faults = [fault.message for fault in check_job(a_job(8, 2, strategy=strategy, buckets=buckets))]
        assert any(words in message for message in faults), faults


class TestBuckets:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"buckets": EXPERT_BUCKETS}, "the job has no expert groups"),
            ({"layout": {"ep": 2}}, "no bucket holds expert gradients, but the job has expert groups"),
            ({"layout": {"ep": 2}, "buckets": EXPERT_BUCKETS[1:]}, "no bucket holds dense gradients"),
            ({"expert_groups": ((0, 1), (2, 3))}, "with a layout the expert groups follow from ep and etp"),
            ({"layout": {"ep": 3}, "buckets": EXPERT_BUCKETS}, "etp x ep x pp = 1 x 3 x 1 does not divide the 4 ranks"),
            (
                {"groups": ((0, 1, 2, 3),), "expert_groups": ((0, 1), (1, 2)), "buckets": EXPERT_BUCKETS},
                "rank 1 is in group edp0 already",
            ),
        ],
    )
    def test_faults(self, changes: dict[str, Any], words: str) -> None:
        faults = [fault.message for fault in check_job(a_job(4, **changes))]
        assert any(words in message for message in faults), faults

    def test_expert_rings_carry_expert_buckets_only(self) -> None:
        from flowcheck_net.model.expect import expect

        job = build_job(a_job(4, layout={"ep": 2}, buckets=EXPERT_BUCKETS), one_leaf(4))
        carried = {(h.group, m.bucket) for h in expect(job, None).hops for m in h.messages}
        assert carried == {("dp0", 0), ("edp0", 1), ("edp1", 1)}
