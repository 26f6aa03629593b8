"""What gradients on the wire cannot give is a finding that names groups, reason and way out: exit code 3, no plan."""

import sys
from pathlib import Path
from typing import Any

import pytest

from flowcheck_net.cli.main import run
from flowcheck_net.errors import Infeasible
from flowcheck_net.model.build import build_job
from flowcheck_net.plan.make import make_plan
from flowcheck_net.spec.check_job import check_job
from flowcheck_net.spec.load import Specs
from tests.doubles.jobs import a_job, a_policy, one_leaf

# the table of domain/training-state.md section 4, row by row, then domain/nccl-wire.md section 5
SEEN: list[tuple[dict[str, Any], str]] = [
    ({"name": "ddp"}, "dp0"),
    ({"name": "megatron-ddp"}, "dp0"),
    ({"name": "zero0"}, "dp0"),
    ({"name": "horovod"}, "dp0"),
    ({"name": "zero1", "all_reduce": True}, "dp0"),
    ({"name": "zero2", "all_reduce": True}, "dp0"),
    ({"name": "hsdp", "shard": 2}, "rep0"),
    ({"name": "megatron-distributed-optimizer", "instances": 2}, "inst0"),
]
HIDDEN: list[tuple[dict[str, Any], str, str]] = [
    (
        {"name": "megatron-distributed-optimizer"},
        "partial sums",
        "use_distributed_optimizer=False, or num_distributed_optimizer_instances=2",
    ),
    ({"name": "megatron-distributed-optimizer", "instances": 1}, "one instance", "use_distributed_optimizer=False"),
    ({"name": "megatron-fsdp"}, "Megatron-FSDP", "use_distributed_optimizer=False"),
    ({"name": "zero1", "all_reduce": False}, "ZeRO-1 without all-reduce", "use_multi_rank_bucket_allreduce: true"),
    ({"name": "zero2", "all_reduce": False}, "ZeRO-2 without all-reduce", "reduce_scatter: false"),
    ({"name": "zero3"}, "parameter all-gather shows new low-precision parameters", "ZeRO stage 0"),
    ({"name": "zero++"}, "quantized", "without quantization"),
    ({"name": "fsdp-full"}, "FULL_SHARD", "HYBRID_SHARD"),
    ({"name": "fsdp-shard-grad-op"}, "SHARD_GRAD_OP", "HYBRID_SHARD"),
    ({"name": "ddp", "comm_hook": "powersgd"}, "communication hook powersgd", "remove the hook"),
    ({"name": "ddp", "comm_hook": "fp16-compress"}, "communication hook fp16-compress", "remove the hook"),
]
ALGORITHMS = [
    ("nvls", "NVLS over several hosts needs SHARP", "nvlstree"),
    ("collnet-direct", "CollNet", "NCCL_COLLNET_ENABLE=0"),
    ("collnet-chain", "CollNet", "NCCL_COLLNET_ENABLE=0"),
    ("sharp", "SHARP", "NCCL_COLLNET_ENABLE=0"),
    ("pat", "reduce-scatter and all-gather only", "NCCL_ALGO=allreduce:ring"),
]


def refused(**changes: Any) -> Infeasible:
    job = a_job(4, **changes)
    assert not list(check_job(job)), "the file is right; what it asks for cannot be had"
    with pytest.raises(Infeasible) as caught:
        make_plan(Specs(one_leaf(4), job, a_policy(1)))
    assert caught.value.exit_code == 3
    return caught.value


@pytest.mark.parametrize(("strategy", "group"), SEEN)
def test_whole_gradients_on_the_wire_are_planned(strategy: dict[str, Any], group: str) -> None:
    job = a_job(4, strategy=strategy)
    assert not list(check_job(job))
    plan = make_plan(Specs(one_leaf(4), job, a_policy(1)))
    assert plan.coverage[0].group == group
    assert all(line.copies == 1 for line in plan.coverage)


@pytest.mark.parametrize(("strategy", "reason", "cure"), HIDDEN)
def test_strategies_that_hide_the_sum(strategy: dict[str, Any], reason: str, cure: str) -> None:
    error = refused(strategy=strategy)
    assert error.message.startswith("gradients of dp0 cannot be rebuilt from the wire: ")
    assert reason in error.message
    assert cure in error.hint


@pytest.mark.parametrize(("algorithm", "reason", "cure"), ALGORITHMS)
def test_algorithms_that_are_no_rdma_writes(algorithm: str, reason: str, cure: str) -> None:
    error = refused(collective={"algorithm": algorithm})
    assert "dp0" in error.message
    assert reason in error.message
    assert cure in error.hint


def test_every_reason_is_given_at_once() -> None:
    error = refused(collective={"algorithm": "sharp"}, strategy={"name": "zero3"})
    assert "ZeRO-3" in error.message
    assert "with SHARP" in error.message


def test_the_command_ends_with_3_and_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example = Path(__file__).resolve().parents[2] / "topologies" / "two-host"
    for name in ("topology.yaml", "policy.yaml"):
        (tmp_path / name).write_text((example / name).read_text())
    job = (example / "job.yaml").read_text() + "strategy: {name: megatron-distributed-optimizer}\n"
    (tmp_path / "job.yaml").write_text(job)
    monkeypatch.setattr(sys, "argv", ["flowcheck-net", "plan", str(tmp_path), "-o", str(tmp_path / "plan.json")])
    with pytest.raises(SystemExit) as caught:
        run()
    assert caught.value.code == 3
    assert "num_distributed_optimizer_instances=2" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "plan.json").exists()


def test_expert_groups_are_named_too() -> None:
    buckets = (
        {"name": "b", "elements": 4096, "dtype": "fp32"},
        {"name": "x", "elements": 4096, "dtype": "fp32", "groups": "expert"},
    )
    error = refused(layout={"ep": 2}, buckets=buckets, strategy={"name": "megatron-distributed-optimizer"})
    assert error.message.startswith("gradients of dp0, edp0, edp1 cannot be rebuilt")


def test_many_groups_are_counted() -> None:
    job = a_job(16, layout={"tp": 8}, strategy={"name": "zero3"})
    with pytest.raises(Infeasible, match="gradients of dp0, dp1, dp2, dp3 and 4 more cannot be rebuilt"):
        build_job(job, one_leaf(16))


def test_experts_inside_a_host_are_named_and_dense_groups_are_not() -> None:
    # 2 hosts of 4, ep 2, order ep after dp: expert groups are runs of four ranks, each wholly in one host
    buckets = (
        {"name": "b", "elements": 4096, "dtype": "fp32"},
        {"name": "x", "elements": 4096, "dtype": "fp32", "groups": "expert"},
    )
    job = a_job(8, 2, layout={"order": "tp-cp-dp-ep-pp", "ep": 2}, buckets=buckets)
    with pytest.raises(Infeasible) as caught:
        build_job(job, one_leaf(2, 4))
    assert "edp0 lies wholly in host h0" in caught.value.message
    assert "edp1 lies wholly in host h1" in caught.value.message
    assert " dp0 " not in caught.value.message


def test_experts_without_data_parallelism_have_no_all_reduce() -> None:
    buckets = (
        {"name": "b", "elements": 4096, "dtype": "fp32"},
        {"name": "x", "elements": 4096, "dtype": "fp32", "groups": "expert"},
    )
    with pytest.raises(Infeasible, match="edp1 is rank 1 alone: it has no all-reduce"):
        build_job(a_job(4, layout={"ep": 4}, buckets=buckets), one_leaf(4))


def test_replicas_inside_one_host_are_invisible() -> None:
    # HSDP that shards over hosts and replicates inside: the all-reduce never leaves the host
    job = a_job(8, 2, groups=((0, 4, 1, 5, 2, 6, 3, 7),), strategy={"name": "hsdp", "shard": 2})
    with pytest.raises(Infeasible, match="rep0 lies wholly in host h0"):
        build_job(job, one_leaf(2, 4))


def test_a_full_shard_written_as_hsdp_has_nobody_to_all_reduce_with() -> None:
    with pytest.raises(Infeasible, match="rep3 is rank 3 alone"):
        build_job(a_job(4, strategy={"name": "hsdp", "shard": 4}), one_leaf(4))
