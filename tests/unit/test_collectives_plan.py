"""Trees through planner, checker, plan file, synthesiser and audit."""

import json
import sys
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.result import AuditReport
from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.cli.main import run
from flowcheck_net.errors import Infeasible, StalePlan
from flowcheck_net.model.build import build_job
from flowcheck_net.model.fabric import Fabric
from flowcheck_net.model.job import TreeEdge
from flowcheck_net.plan.candidates import build_problem
from flowcheck_net.plan.check import check
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import Plan, expectation, plan_from_json, plan_to_json
from flowcheck_net.receive.replay import replay
from flowcheck_net.receive.synth import synthesize
from flowcheck_net.receive.synth_faults import parse_fault
from flowcheck_net.spec.dump import dump_yaml
from flowcheck_net.spec.load import Specs, load_specs, spec_paths
from tests.doubles.jobs import a_job, a_policy, one_leaf

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "topologies" / "tree-four-host"
LOG = ROOT.parent / "shared" / "samples" / "nccl" / "log_aws_efa_p4d_16ranks.txt"
TREE = {"algorithm": "tree"}


def tree_specs(hosts: int, copies: int, **changes: Any) -> Specs:
    return Specs(one_leaf(hosts, captures=2 * hosts), a_job(hosts, collective=TREE, **changes), a_policy(copies))


def down_edges(plan: Plan) -> dict[tuple[str, int], set[int]]:
    """Counted hops of each tree, all of which must lead from parent to child."""
    found: dict[tuple[str, int], set[int]] = {}
    trees = {(tree.group, tree.channel): tree for tree in plan.job.trees}
    for hop in plan.hops:
        if hop.counted:
            tree = trees[hop.group, hop.channel]
            sender, receiver = tree.hop(hop.index)
            assert (sender, receiver) in {(edge.parent, edge.child) for edge in tree.edges}
            found.setdefault((hop.group, hop.channel), set()).add(hop.index)
    return found


class TestPlan:
    @pytest.mark.parametrize("copies", [1, 2, 3])
    def test_a_copy_is_one_down_edge(self, copies: int) -> None:
        plan = make_plan(tree_specs(4, copies))
        assert [len(edges) for edges in down_edges(plan).values()] == [copies]
        assert plan.coverage[0].copies == copies
        assert plan.proof.gap == 0

    @pytest.mark.parametrize("copies", [1, 2])
    def test_no_fewer_bytes_would_do(self, copies: int) -> None:
        """Every choice of taps by brute force: the plan's mirrored bytes are the least that show enough down edges."""
        specs = tree_specs(4, copies)
        problem = build_problem(Fabric.from_spec(specs.topology), build_job(specs.job, specs.topology), specs.policy)
        best = None
        for count in range(1, len(problem.taps) + 1):
            for taps in combinations(range(len(problem.taps)), count):
                seen = [hop for hop in problem.hops if set(hop.taps) & set(taps)]
                if len({hop.index for hop in seen if hop.index % 2 == 0}) >= copies:
                    duplicate = sum(hop.size * (len(set(hop.taps) & set(taps)) - 1) for hop in seen)
                    mirrored = sum(hop.size * len(set(hop.taps) & set(taps)) for hop in seen)
                    best = min(best or (duplicate, mirrored), (duplicate, mirrored))
        plan = make_plan(specs)
        assert (plan.cost.duplicate_bytes, plan.cost.mirrored_bytes) == best

    def test_more_copies_than_down_edges_are_not_asked_for(self) -> None:
        plan = make_plan(tree_specs(2, 3))
        assert (plan.coverage[0].copies, plan.coverage[0].wanted) == (1, 3)

    def test_a_ring_of_the_same_hosts_needs_one_hop_more(self) -> None:
        ring = make_plan(Specs(one_leaf(4, captures=8), a_job(4), a_policy(2)))
        assert sum(hop.counted for hop in ring.hops) == 3
        assert sum(hop.counted for hop in make_plan(tree_specs(4, 2)).hops) >= 2

    def test_a_ring_through_two_hosts_gives_what_its_visible_hops_can(self) -> None:
        plan = make_plan(Specs(one_leaf(2, 3, captures=8), a_job(6, 2), a_policy(2)))
        assert [(c.copies, c.wanted) for c in plan.coverage] == [(1, 2)]
        assert [hop.index for hop in plan.hops if hop.counted] == [2, 5]

    def test_every_head_of_an_nvlstree_is_covered(self) -> None:
        job = a_job(8, 4, collective={"algorithm": "nvlstree"}, nccl={"version": "2.24.3", "channels": 2})
        plan = make_plan(Specs(one_leaf(4, 2, captures=16), job, a_policy(1)))
        assert {(c.group, c.channel): c.copies for c in plan.coverage} == {
            ("dp0.head0", 0): 1,
            ("dp0.head0", 1): 1,
            ("dp0.head1", 0): 1,
            ("dp0.head1", 1): 1,
        }
        assert plan.cost.gradient_bytes == 4096 * 4, "the heads are one group"

    def test_expert_groups_and_trees_together(self) -> None:
        buckets = (
            {"name": "b", "elements": 4096, "dtype": "fp32"},
            {"name": "x", "elements": 8192, "dtype": "fp32", "groups": "expert"},
        )
        plan = make_plan(tree_specs(4, 1, layout={"ep": 2}, buckets=buckets))
        assert [c.group for c in plan.coverage] == ["dp0", "edp0", "edp1"]
        assert plan.cost.gradient_bytes == 4096 * 4 + 2 * 8192 * 4

    def test_too_few_down_edges_in_reach_is_said(self) -> None:
        specs = tree_specs(4, 3)
        policy = a_policy(3, allowed_ports=("leaf1:h0-*",))
        with pytest.raises(Infeasible, match=r"tree dp0/0 cannot have 3 copies \(3 hops\): limit: allowed_ports"):
            make_plan(replace(specs, policy=policy))


class TestRealLog:
    def test_eight_trees_of_two_hosts_give_one_copy_each(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The trees that NCCL logged on 16 ranks: one edge of each crosses the network, down from the root's host."""
        if not LOG.exists():
            pytest.skip("no ../shared/samples: the real log is not here")
        job = tmp_path / "job.yaml"
        known = {"algorithm": "tree", "protocol": "Simple", "mtu": 4096, "channels": 8, "threads": 512, "qps": 1}
        stated = known | {"bucket": "6553600:fp32", "iteration-time": 0.5}
        options = [str(word) for name, value in stated.items() for word in (f"--{name}", value)]
        words = ["import", "nccl", str(LOG), *options, "-o", str(job)]
        monkeypatch.setattr(sys, "argv", ["flowcheck-net", *words])
        with pytest.raises(SystemExit) as caught:
            run()
        assert not caught.value.code, capsys.readouterr().err
        (tmp_path / "topology.yaml").write_text(dump_yaml(two_hosts_of_the_log()))
        (tmp_path / "policy.yaml").write_text("version: 1\ncopies: 2\nmonitor: {rate_model: average, headroom: 0.0}\n")
        plan = make_plan(load_specs(*spec_paths(tmp_path)))
        assert [(c.channel, c.copies, c.wanted) for c in plan.coverage] == [(c, 1, 2) for c in range(8)]
        # roots of the log's channels 0..3 are on host 0, of 4..7 on host 1
        trees = {tree.channel: tree for tree in plan.job.trees}
        host = [place.host[-1] for place in plan.job.places]
        counted = {hop.channel: trees[hop.channel].hop(hop.index) for hop in plan.hops if hop.counted}
        assert {c: (host[a], host[b]) for c, (a, b) in counted.items()} == {
            **dict.fromkeys(range(4), ("0", "1")),
            **dict.fromkeys(range(4, 8), ("1", "0")),
        }


def two_hosts_of_the_log() -> dict[str, Any]:
    """Four NICs a host on one leaf, named as the importer does."""
    names = [(f"nccl-tests-efa-16-worker-{h}", f"net{n}") for h in range(2) for n in range(4)]
    ends = [*names, *(("ckpt", f"cap{n}") for n in range(4))]
    return {
        "version": 1,
        "name": "p4d",
        "switches": [
            {
                "name": "leaf1",
                "platform": "fake",
                "management": "fake:leaf1",
                "ports": [{"name": f"{d[-1]}-{n}", "speed": "100G"} for d, n in ends],
            }
        ],
        "hosts": [
            {
                "name": f"nccl-tests-efa-16-worker-{h}",
                "nics": [{"name": f"net{n}", "speed": "100G", "addresses": [f"10.0.{h}.{n + 1}"]} for n in range(4)],
            }
            for h in range(2)
        ],
        "checkpoint_nodes": [{"name": "ckpt", "nics": [{"name": f"cap{n}", "speed": "100G"} for n in range(4)]}],
        "links": [[f"{d}:{n}", f"leaf1:{d[-1]}-{n}"] for d, n in ends],
    }


class TestCheckerAndFile:
    def test_the_round_trip_is_byte_for_byte(self) -> None:
        text = plan_to_json(make_plan(load_specs(*spec_paths(EXAMPLE))))
        assert plan_to_json(plan_from_json(text, "p")) == text
        assert json.loads(text)["version"] == 1

    def test_counting_an_up_edge_is_a_violation(self) -> None:
        specs = load_specs(*spec_paths(EXAMPLE))
        plan = make_plan(specs)
        problem = build_problem(Fabric.from_spec(specs.topology), plan.job, specs.policy)
        assert check(plan, problem) == ()
        wrong = replace(plan, hops=tuple(replace(hop, counted=True) for hop in plan.hops))
        assert {"partial sums", "coverage"} <= {violation.rule for violation in check(wrong, problem)}

    def test_a_loop_in_the_plan_file_is_refused(self) -> None:
        plan = make_plan(load_specs(*spec_paths(EXAMPLE)))
        tree = plan.job.trees[0]
        one, two, three = tree.edges
        loop = replace(tree, edges=(TreeEdge(one.parent, one.child), TreeEdge(one.child, one.parent), two))
        text = plan_to_json(replace(plan, job=replace(plan.job, trees=(loop, plan.job.trees[1]))))
        assert three is not None
        with pytest.raises(StalePlan, match="is no tree"):
            plan_from_json(text, "p")

    def test_the_expectation_has_up_and_down_hops(self) -> None:
        plan = make_plan(load_specs(*spec_paths(EXAMPLE)))
        watched = [hop for hop in expectation(plan).hops if hop.captures]
        assert {all(m.reduced for m in hop.messages) for hop in watched} == {True, False}
        assert all(len({m.reduced for m in hop.messages}) == 1 for hop in watched)


@pytest.fixture(scope="module")
def example() -> Plan:
    return make_plan(load_specs(*spec_paths(EXAMPLE)))


def judged(plan: Plan, folder: Path, *faults: str) -> AuditReport:
    out = folder / "c.pcapng"
    synthesize(plan, out, iterations=3, faults=[parse_fault(fault) for fault in faults])
    return audit(expectation(plan), replay([out]))


class TestAudit:
    def test_every_byte_of_the_share_on_each_planned_down_edge(self, example: Plan, tmp_path: Path) -> None:
        report = judged(example, tmp_path)
        assert report.verdict is Verdict.COVERED
        assert all(iteration.publishable for iteration in report.iterations)
        # 65 536 bf16 and 1 500 000 fp32, half on each channel: 65 536 B -> 16 packets of 4096, 3 000 000 B -> 733
        assert {ring.reduced_packets for ring in report.rings} == {16 + 733}

    def test_a_loss_on_one_down_edge_is_made_good_by_another(self, example: Plan, tmp_path: Path) -> None:
        report = judged(example, tmp_path, "loss:hop=dp0/0/2,iteration=1,packet=40-80")
        verdicts = {(r.iteration, int(r.channel)): r.verdict for r in report.rings}
        assert verdicts.pop((1, 0)) is Verdict.RECOVERED
        assert set(verdicts.values()) == {Verdict.COVERED}

    def test_the_same_loss_on_both_is_a_gap(self, example: Plan, tmp_path: Path) -> None:
        both = [f"loss:hop=dp0/0/{hop},iteration=1,packet=40" for hop in (0, 2)]
        report = judged(example, tmp_path, *both)
        (gap,) = [r for r in report.rings if r.verdict is Verdict.GAP]
        assert (gap.iteration, gap.channel) == (1, 0)
        assert gap.reduced_packets - gap.reduced_seen == 1

    def test_a_loss_on_the_way_up_costs_nothing(self, example: Plan, tmp_path: Path) -> None:
        report = judged(example, tmp_path, "loss:hop=dp0/0/1,iteration=1,packet=40")
        (torn,) = [r for r in report.rings if r.verdict is not Verdict.COVERED]
        assert torn.verdict is Verdict.RECOVERED
        assert torn.reason.startswith("only partial sums are missing")

    def test_up_and_down_that_cannot_be_told_apart_prove_nothing(self, tmp_path: Path) -> None:
        """Without queue pairs in the job, 2 -> 1 is down on channel 0 and up on channel 1, with the same messages."""
        specs = load_specs(*spec_paths(EXAMPLE))
        plan = make_plan(replace(specs, job=specs.job.model_copy(update={"trees": ()})))
        assert judged(plan, tmp_path).verdict is Verdict.COVERED
        lost = [f"loss:hop=dp0/0/{hop},iteration=1,packet=40" for hop in (0, 2)]
        assert judged(plan, tmp_path, *lost).verdict in (Verdict.UNKNOWN, Verdict.GAP)

    def test_the_heads_of_an_nvlstree(self, tmp_path: Path) -> None:
        job = a_job(
            8,
            4,
            collective={"algorithm": "nvlstree"},
            nccl={"version": "2.24.3", "channels": 2},
            buckets=({"name": "b", "elements": 300_000, "dtype": "fp32"},),
        )
        plan = make_plan(Specs(one_leaf(4, 2, captures=16), job, a_policy(1)))
        report = judged(plan, tmp_path)
        assert report.verdict is Verdict.COVERED
        assert {r.group for r in report.rings} == {"dp0.head0", "dp0.head1"}
