"""Generated clusters go all the way: written, read back, checked, planned; and the command that writes them."""

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcheck_net.cli.main import cli
from flowcheck_net.errors import OutputError, SpecError
from flowcheck_net.importers.generate import KINDS, generate
from flowcheck_net.importers.generate_fabric import build_leaf_spine
from flowcheck_net.importers.generate_job import data_parallel_groups, taps_by_switch
from flowcheck_net.importers.generate_shape import Shape, ShapeError
from flowcheck_net.plan.make import make_plan
from flowcheck_net.spec.dump import dump_yaml
from flowcheck_net.spec.groups import gradient_groups
from flowcheck_net.spec.load import fingerprint, load_specs, spec_paths, specs_from_documents


def in_memory(kind, shape):
    made = generate(kind, shape)
    return specs_from_documents(made.topology, made.job, made.policy)


@pytest.mark.parametrize("kind", KINDS)
def test_files_and_memory_are_the_same(kind, tmp_path):
    shape = Shape(hosts=6, pp=2, shuffle=True, seed=5)
    made = generate(kind, shape)
    paths = spec_paths(tmp_path)
    for path, document in zip(paths, (made.topology, made.job, made.policy), strict=True):
        path.write_text(dump_yaml(document, comment="x"))
    assert fingerprint(load_specs(*paths)) == fingerprint(in_memory(kind, shape))


@settings(max_examples=60)
@given(st.integers(1, 6), st.integers(1, 4), st.integers(2, 5))
def test_groups_are_those_of_the_layout(tp, pp, dp):
    shape = Shape(hosts=tp * pp * dp, gpus_per_host=1, tp=tp, pp=pp)
    groups = gradient_groups(in_memory("leaf-spine", shape).job)
    assert [tuple(group) for group in data_parallel_groups(shape)] == [tuple(group) for group in groups]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "shape",
    [
        Shape(hosts=2),
        Shape(hosts=8, pp=2),
        Shape(hosts=8, pp=2, shuffle=True, seed=1),
        Shape(hosts=6, gpus_per_host=4, tp=2, channels=1, speed="100G", capture_speed="100G", elements=100_000),
        Shape(hosts=4, rate_model="average", copies=1),
    ],
    ids=["2", "8", "shuffled", "tp2", "average"],
)
def test_it_plans(kind, shape):
    shape = replace(shape, elements=min(shape.elements, 1_000_000))
    if kind == "rail-optimised" and shape.tp < shape.gpus_per_host:
        with pytest.raises(ShapeError, match="cross rails"):
            generate(kind, shape)
        return
    plan = make_plan(in_memory(kind, shape))
    groups = data_parallel_groups(shape)
    assert len(plan.coverage) == len(groups) * shape.channels
    network = {len(group) for group in groups}
    assert {ring.copies for ring in plan.coverage} == {min(shape.copies, size - 1) for size in network}
    assert plan.proof.gap == 0


def test_by_line_rate_the_capture_ports_are_no_more_than_needed():
    """16 hosts, DP 16, 8 rails, one leaf a rail: 3 taps of 400G on each leaf want two capture NICs of 800G."""
    shape = Shape(hosts=16)
    specs = in_memory("rail-optimised", shape)
    assert specs.policy.monitor.rate_model == "line_rate"
    assert sum(len(node.nics) for node in specs.topology.checkpoint_nodes) == 8 * 2
    scarce = in_memory("rail-optimised", replace(shape, capture_ports=1))
    with pytest.raises(Exception, match="capture") as caught:
        make_plan(scarce)
    assert caught.type.__name__ == "Infeasible"


def test_capture_ports_by_hand():
    """4 hosts, 3 of them on the first leaf, one ring, copies 3: 4 taps, of which the second leaf can have 1 only."""
    shape = Shape(hosts=4, gpus_per_host=1, tp=1, hosts_per_leaf=3, copies=3)
    taps = taps_by_switch(shape, build_leaf_spine(shape), [0, 1, 2, 3])
    assert taps == {"leaf0": 3, "leaf1": 1}
    nodes = generate("leaf-spine", shape).topology["checkpoint_nodes"]
    assert [len(node["nics"]) for node in nodes] == [2, 2], "3 x 400G want two of 800G, on each leaf"


def test_shuffle_moves_hosts_and_nothing_else():
    shape = Shape(hosts=16, pp=2)
    still, moved, again = (generate("rail-optimised", replace(shape, shuffle=s, seed=7)) for s in (False, True, True))
    assert moved == again
    assert still.topology["hosts"] == moved.topology["hosts"]
    places = [[(r["rank"], r["nic"]) for r in made.job["ranks"]] for made in (still, moved)]
    assert places[0] == places[1]
    hosts = [[r["host"] for r in made.job["ranks"]] for made in (still, moved)]
    assert hosts[0] != hosts[1]
    assert sorted(hosts[0]) == sorted(hosts[1])
    other = generate("rail-optimised", replace(shape, shuffle=True, seed=8))
    assert other.job["ranks"] != moved.job["ranks"]


@pytest.mark.parametrize("kind", ["rail-optimised", "fat-tree"])
def test_a_data_parallel_group_stays_on_one_rail(kind):
    made = generate(kind, Shape(hosts=8, pp=2, shuffle=True))
    nic = {entry["rank"]: entry["nic"] for entry in made.job["ranks"]}
    host = {entry["rank"]: entry["host"] for entry in made.job["ranks"]}
    for group in data_parallel_groups(Shape(hosts=8, pp=2)):
        assert len({nic[rank] for rank in group}) == 1
        assert len({host[rank] for rank in group}) == len(group)


def test_documents_with_faults_name_them_all():
    made = generate("leaf-spine", Shape(hosts=2))
    job = {**made.job, "mtu": 9000, "ranks": made.job["ranks"][:3]}
    policy = {**made.policy, "copies": 0}
    with pytest.raises(SpecError) as caught:
        specs_from_documents(made.topology, job, policy)
    assert {(problem.file, problem.path, problem.line) for problem in caught.value.problems} == {
        ("job", "mtu", 0),
        ("policy", "copies", 0),
    }
    with pytest.raises(SpecError, match="job: layout"):
        specs_from_documents(made.topology, {**job, "mtu": 4096}, made.policy)
    ranks = ({**made.job["ranks"][0], "nic": "mlx5_9"}, *made.job["ranks"][1:])
    with pytest.raises(SpecError, match=r"ranks\.0\.nic"):
        specs_from_documents(made.topology, {**made.job, "ranks": ranks}, made.policy)


class TestCommand:
    def run(self, *words):
        return CliRunner().invoke(cli, ["topology", "generate", *words])

    def test_writes_what_check_and_plan_take(self, tmp_path):
        out = tmp_path / "new" / "cluster"
        result = self.run("rail-optimised", "--hosts", "4", "--elements", "100000", "-o", str(out))
        assert result.exit_code == 0, result.output
        assert "8 switches, 4 hosts, 32 GPUs, rate model line_rate" in result.output
        assert CliRunner().invoke(cli, ["check", str(out)]).exit_code == 0
        planned = CliRunner().invoke(cli, ["plan", str(out), "--json"])
        assert json.loads(planned.output)["proof"]["gap"] == 0

    def test_replaces_nothing(self, tmp_path):
        (tmp_path / "policy.yaml").write_text("mine")
        result = self.run("dragonfly", "--hosts", "2", "-o", str(tmp_path))
        assert isinstance(result.exception, OutputError)
        assert "policy.yaml" in str(result.exception)
        assert [path.name for path in tmp_path.iterdir()] == ["policy.yaml"]

    def test_every_option_reaches_the_files(self, tmp_path):
        options = {
            "--gpus-per-host": 4, "--tp": 2, "--pp": 2, "--channels": 3, "--copies": 1, "--speed": "100G",
            "--capture-speed": "200G", "--capture-ports-per-leaf": 5, "--hosts-per-leaf": 3, "--spines": 2,
            "--platform": "ovs", "--rate-model": "average", "--elements": 77, "--iteration-time": 2.5, "--seed": 3,
        }  # fmt: skip
        words = [str(word) for pair in options.items() for word in pair]
        result = self.run("leaf-spine", "--hosts", "6", "--shuffle", *words, "-o", str(tmp_path))
        assert result.exit_code == 0, result.output
        specs = load_specs(*spec_paths(tmp_path))
        topology, job, policy = specs.topology, specs.job, specs.policy
        assert {switch.platform for switch in topology.switches} == {"ovs"}
        assert [len(host.nics) for host in topology.hosts] == [4] * 6
        assert {nic.speed for host in topology.hosts for nic in host.nics} == {"100G"}
        assert [(n.speed) for node in topology.checkpoint_nodes for n in node.nics] == ["200G"] * 10
        assert sorted(switch.name for switch in topology.switches) == ["leaf0", "leaf1", "spine0", "spine1"]
        layout = job.layout
        assert layout is not None
        assert (layout.tp, layout.pp, job.nccl.channels, job.iteration_time) == (2, 2, 3, 2.5)
        assert job.buckets[0].elements == 77
        assert (policy.copies, policy.monitor.rate_model) == (1, "average")
        assert [place.host for place in job.ranks[::4]] != [f"host{n}" for n in range(6)]

    def test_k(self, tmp_path):
        assert self.run("fat-tree", "--hosts", "2", "-k", "6", "-o", str(tmp_path)).exit_code == 0
        names = [switch.name for switch in load_specs(*spec_paths(tmp_path)).topology.switches]
        assert sum(name.startswith("edge-p0") for name in names) == 3

    def test_kinds_are_those_of_the_generator(self):
        result = self.run("ring", "--hosts", "2", "-o", "x")
        assert result.exit_code == 2
        assert all(f"'{kind}'" in result.output for kind in KINDS)
