"""The capacity report against arithmetic written out, published estimates, and the planner's own average rates."""

import json
import math
from dataclasses import replace
from functools import cache

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcheck_net.cli.capacity_numbers import show
from flowcheck_net.cli.main import cli
from flowcheck_net.importers.generate import KINDS, generate
from flowcheck_net.importers.generate_shape import Shape
from flowcheck_net.plan.capacity import capacity
from flowcheck_net.plan.capacity_given import Givens, Ground
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import plan_to_json
from flowcheck_net.spec.load import specs_from_documents


@cache
def planned(shape=None, kind="leaf-spine", protocol="Simple", mtu=4096):
    made = generate(kind, shape or Shape(hosts=4, gpus_per_host=2, tp=2, channels=1, elements=1_000_000))
    job = {**made.job, "mtu": mtu, "nccl": {**made.job["nccl"], "protocol": protocol}}
    return make_plan(specs_from_documents(made.topology, job, made.policy))


def assuming(**numbers):
    given_ = Givens()
    for name, value in numbers.items():
        given_ = given_.with_value(name, value, Ground.ASSUMED, "test")
    return given_


def value(report, *names):
    """A figure that has a bound."""
    found = report.find(*names)
    assert found is not None
    return found


def test_a_small_job_by_hand():
    """4 hosts x 2 GPUs, TP 2: two groups of N = 4 ranks, one ring each, 3 hops of each watched, all ports on one node.

    A million fp32 elements: 4 chunks of 250 000 elements = 1 000 000 B, sent as two slices (NCCL Simple): 16 x
    ceil(250000 / 32) = 125 008 elements and the rest, 124 992; each is 122.08 or 122.06 -> 123 packets of 4096 B.
    A hop sends 2 x 3 chunks: 6 000 000 B, 12 messages, 1 476 packets. On the link every packet has 14 + 4 + 20 + 20 + 8
    + 12 + 4 = 82 B more and every message 16 + 4: 6 000 000 + 1 476 x 82 + 12 x 20 = 6 121 272 B.
    """
    plan = planned(Shape(hosts=4, gpus_per_host=2, tp=2, channels=1, elements=1_000_000, hosts_per_leaf=4))
    report = capacity(plan)
    hop = 6_121_272
    assert {f.value for f in report.figures if f.section == "observation points"} == {hop}
    assert value(report, "state", "parameters") == 2_000_000
    assert value(report, "state", "state") == 2_000_000 * (2 + 4 + 8)
    assert value(report, "state", "gradient a step") == 8_000_000
    assert value(report, "state", "mirrored a step") == 6 * hop
    node = "ckpt-rack0"
    assert value(report, "receivers", "packets a step", node) == 6 * 1_476
    assert value(report, "memory", "memory wanted", node) == 2_000_000 * (14 + 2 * 4)
    assert value(report, "storage", "time of a dump", node) == pytest.approx(28e6 / 10e9)
    assert value(report, "iteration rates", "training") == pytest.approx(0.1)
    memory_rate = 200e9 / (3 * 6 * hop + 30 * 2_000_000)
    assert value(report, "iteration rates", "largest rate", "memory bandwidth") == pytest.approx(memory_rate)
    cores = 8 * min(94e9 / (8 * 6 * hop), 10.7e6 / (6 * 1_476))
    assert value(report, "iteration rates", "largest rate", "receivers") == pytest.approx(cores)
    # Of 4 chunks a group, 3 are lacked by one watched hop each: 2 copies of 3 x 246 packets, 3 copies of the other's.
    assert value(report, "mirror loss", "packets", "2 copies") == 2 * 3 * 246
    assert value(report, "mirror loss", "packets", "3 copies") == 2 * 246
    chance = 1 - (1 - 1e-12) ** (6 * 246) * (1 - 1e-18) ** (2 * 246)
    assert value(report, "mirror loss", "chance that an update is lost") == pytest.approx(chance, rel=1e-3)
    mtbf = 264 * 86400 / 4
    assert value(report, "recovery", "time between failures") == mtbf
    age = value(report, "recovery", "replica age")
    assert age == pytest.approx(20, abs=1e-2), "two steps of 10 s; losses are too rare to show"
    assert value(report, "recovery", "durable age") == pytest.approx(age + 600 + 28e6 / 10e9)
    assert value(report, "recovery", "effective training time") == pytest.approx(
        (1 - (180 + age) / mtbf) * 14400 / (14400 + 60)
    )
    assert not report.exceeded


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("protocol", "mtu"), [("Simple", 4096), ("LL128", 1024)])
def test_mean_rates_are_the_planner_s_average_rates(kind, protocol, mtu):
    """With rate_model average the planner reckons each port by code of its own, in whole Mbit/s a port."""
    shape = Shape(hosts=4, gpus_per_host=4, tp=4, elements=9_000_000, iteration_time=0.1, rate_model="average")
    plan = planned(shape, kind, protocol, mtu)
    report = capacity(plan)
    for load in plan.loads:
        rate = value(report, "monitor ports", "mean rate", load.capture)
        ports = sum(point.capture == load.capture for point in plan.points)
        assert rate is not None
        assert load.load - ports <= rate / 1e6 <= load.load


LLAMA2_7B = 6_738_415_616
"""Parameters: 32000 x 4096 x 2 + 32 layers x (4 x 4096^2 + 3 x 4096 x 11008 + 2 x 4096) + 4096."""


def test_llama2_7b_has_so_many_parameters():
    layer = 4 * 4096**2 + 3 * 4096 * 11008 + 2 * 4096
    assert 2 * 32000 * 4096 + 32 * layer + 4096 == LLAMA2_7B


def test_published_60_gb_an_iteration_and_400_gbps():
    """FlowCheck's calculation: about 60 GB an iteration and group for Llama2-7B, about 400 Gb/s (requirements R12).

    One hop of a ring of N ranks carries 2 (N - 1)/N x S. With fp32 gradients S = 6.738e9 x 4 B = 26.95 GB; with N = 32
    that is 52.2 GB, by LL128 16/15 of it, 55.7 GB, and with headers of 82 B on each packet of 4096 B, 2 % more: 56.8.
    With packets of 1024 B 8 % more: 60.2 GB. To carry 60 GB by 400 Gb/s = 50 GB/s takes 1.2 s: the iteration time.
    """
    shape = Shape(
        hosts=32, gpus_per_host=1, tp=1, channels=2, hosts_per_leaf=32, elements=1000, iteration_time=1.2, copies=1,
        rate_model="line_rate",
    )  # fmt: skip
    small = planned(shape, "leaf-spine", "LL128", 1024)
    # The same points for the whole model: to plan it takes the planner half a minute.
    wire = replace(small.job.wire, buckets=(replace(small.job.wire.buckets[0], elements=LLAMA2_7B),))
    plan = replace(small, job=replace(small.job, wire=wire))
    report = capacity(plan)
    by_hand = 2 * 31 / 32 * LLAMA2_7B * 4 * 16 / 15 * (1 + 82 / 1024)
    (rate, *more) = [f.value for f in report.figures if f.section == "observation points"]
    assert rate == pytest.approx(by_hand, rel=0.01)
    assert rate == pytest.approx(60e9, rel=0.02)
    assert more == [rate]
    assert rate is not None
    per_port = 8 * rate / 1.2
    assert per_port == pytest.approx(400e9, rel=0.02)
    # The two directions of a port are mirrored to one capture NIC of 800G: twice the rate of a hop.
    (mean,) = [f.value for f in report.figures if (f.section, f.name) == ("monitor ports", "mean rate")]
    assert mean == pytest.approx(2 * per_port)


def test_published_98_percent_effective_training_time():
    """2048 hosts of 264 days each fail every 264 x 86400 / 2048 = 11 138 s. A failure costs 180 s and two steps of 5 s:
    1 - 190 / 11 138 = 98.29 %; a full checkpoint of 10 s every 4 hours leaves 14400 / 14410 of it: 98.23 %.
    """
    shape = Shape(hosts=2, gpus_per_host=1, tp=1, elements=1000, iteration_time=5)
    plan = planned(shape)
    places = tuple(replace(plan.job.places[0], rank=n, host=f"host{n}") for n in range(2048))
    large = replace(plan, job=replace(plan.job, places=places))
    report = capacity(large, assuming(checkpoint_cost=10, mirror_loss=0))
    assert value(report, "recovery", "time between failures") == pytest.approx(11_137.5)
    share = value(report, "recovery", "effective training time")
    assert share == pytest.approx((1 - 190 / 11_137.5) * 14400 / 14410)
    assert share > 0.98
    dumps = value(report, "recovery", "effective training time", "dumps alone")
    interval = math.sqrt(2 * 10 * 11_137.5)
    assert dumps == pytest.approx((1 - (180 + (interval + 10) / 2) / 11_137.5) * interval / (interval + 10))
    assert dumps < share


def test_what_cannot_follow_is_said():
    plan = planned()
    slow = capacity(plan, assuming(memory_bandwidth=1e6, memory=1e6, receiver_cores=1e-6, window_share=1e-6))
    assert slow.find("recovery", "replica age") is None
    assert slow.find("recovery", "effective training time") is None
    over = {(figure.section, figure.name) for figure in slow.exceeded}
    assert {("backlog", "growth"), ("memory", "memory use"), ("receivers", "mean use")} <= over
    assert ("monitor ports", "burst use") in over
    grows = capacity(plan, assuming(memory_bandwidth=1e6))
    for node in {figure.where for figure in grows.figures if figure.section == "backlog"}:
        growth, size, full = (grows.find("backlog", n, node) for n in ("growth", "growth in bytes", "time until full"))
        wanted = value(grows, "memory", "memory wanted", node)
        assert growth is not None
        assert growth > 0
        if size:
            assert full == pytest.approx((512e9 - wanted) / size)


FASTER = ("receiver_cores", "core_bits", "core_packets", "memory_bandwidth")


@settings(max_examples=60)
@given(st.sampled_from(FASTER), st.floats(1, 100))
def test_more_of_anything_never_lowers_the_rate(name, factor):
    before = capacity(planned())
    after = capacity(planned(), assuming(**{name: Givens()[name] * factor}))
    for stage in ("", "monitor ports", "receivers", "memory bandwidth"):
        low, high = (value(r, "iteration rates", "largest rate", stage) for r in (before, after))
        assert high >= low * (1 - 1e-12)


@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_a_capture_port_more_never_lowers_the_rate(number):
    """One observation point moves to a new capture port of its own, on the same node."""
    plan = planned(Shape(hosts=4, gpus_per_host=2, tp=2, channels=1, elements=1_000_000, hosts_per_leaf=4))
    moved = number % len(plan.points)
    point = plan.points[moved]
    (load,) = [entry for entry in plan.loads if entry.capture == point.capture]
    fresh = point.capture + "9"
    points = tuple(replace(p, capture=fresh) if n == moved else p for n, p in enumerate(plan.points))
    used = {p.capture for p in points}
    loads = (*(entry for entry in plan.loads if entry.capture in used), replace(load, capture=fresh))
    before, after = capacity(plan), capacity(replace(plan, points=points, loads=loads))
    for stage in ("", "monitor ports", "receivers", "memory bandwidth"):
        low, high = (value(r, "iteration rates", "largest rate", stage) for r in (before, after))
        assert high >= low * (1 - 1e-12)


ONE_GROUP = Shape(hosts=4, gpus_per_host=1, tp=1, channels=1, elements=1_000_000, hosts_per_leaf=4)


@pytest.mark.parametrize(("moved", "state"), [(0, [14e6, 0]), (1, [14e6, 0]), (2, [0, 14e6]), (3, [0, 14e6])])
def test_state_lives_where_most_hops_arrive(moved, state):
    """Of the three points of one group, the first ``moved`` go to another node."""
    plan = planned(ONE_GROUP)
    assert len(plan.points) == 3
    points = tuple(replace(p, capture="other:cap0") if n < moved else p for n, p in enumerate(plan.points))
    loads = (*plan.loads, replace(plan.loads[0], capture="other:cap0"))
    report = capacity(replace(plan, points=points, loads=loads))
    nodes = {f.where: f.value for f in report.figures if (f.section, f.name) == ("memory", "state")}
    assert [nodes.get("ckpt-rack0", 0), nodes.get("other", 0)] == state


def test_a_hop_that_does_not_count_gives_no_copy():
    plan = planned(ONE_GROUP)
    hops = (replace(plan.hops[0], counted=False), *plan.hops[1:])
    report = capacity(replace(plan, hops=hops))
    # Two hops of a ring of 4: two chunks once, two twice.
    assert [value(report, "mirror loss", "packets", f"{n} copies") for n in (1, 2)] == [2 * 246, 2 * 246]
    assert value(report, "state", "mirrored a step") == value(capacity(plan), "state", "mirrored a step")


@given(st.floats(0, 1), st.floats(0, 1))
def test_more_mirror_loss_never_helps(one, other):
    low, high = (capacity(planned(), assuming(mirror_loss=loss)) for loss in sorted((one, other)))
    chance = "chance that an update is lost"
    assert value(low, "mirror loss", chance) <= value(high, "mirror loss", chance) + 1e-15
    share = "effective training time"
    assert value(low, "recovery", share) >= value(high, "recovery", share) - 1e-12


def test_every_figure_has_ground_formula_and_source():
    report = capacity(planned())
    for figure in report.figures:
        assert figure.ground in Ground
        assert figure.formula
        assert figure.source
    names = {given_.name for given_ in report.given}
    assert {given_.ground for given_ in report.given} == {Ground.MEASURED, Ground.ASSUMED}
    stated = {word.strip() for f in report.figures if f.source.startswith("given ") for word in f.source[6:].split(",")}
    assert stated <= names


def test_two_hops_have_the_first_order_law():
    """DESIGN section 4: with two hops an update is lost with about M x 2/N x p."""
    shape = Shape(hosts=8, gpus_per_host=1, tp=1, channels=1, elements=4_000_000, copies=1)
    report = capacity(planned(shape), assuming(mirror_loss=1e-9))
    one, two = (value(report, "mirror loss", "packets", f"{n} copies") for n in (1, 2))
    assert one == pytest.approx((one + two) * 2 / 8)
    chance = value(report, "mirror loss", "chance that an update is lost")
    assert chance == pytest.approx((one + two) * 2 / 8 * 1e-9, rel=1e-3)


PORT_USE = ("monitor ports", "burst use")


class TestCommand:
    def run(self, *words):
        return CliRunner().invoke(cli, ["capacity", *words])

    def test_a_directory_and_its_plan_give_the_same(self, tmp_path):
        CliRunner().invoke(cli, ["plan", "topologies/four-host", "-o", str(tmp_path / "p.json")])
        (by_plan, by_directory) = (self.run(str(s), "--json") for s in (tmp_path / "p.json", "topologies/four-host"))
        assert by_plan.exit_code == 0, by_plan.output
        assert by_plan.output == by_directory.output
        assert {"job", "given", "figures", "exceeded"} == set(json.loads(by_plan.output))

    def test_text(self, tmp_path):
        path = tmp_path / "p.json"
        path.write_text(plan_to_json(planned()))
        result = self.run(str(path), "--measured", "restart=240", "--assume", "window_share=1e-9", "--tables")
        assert result.exit_code == 0, result.output
        assert "240 s   measured" in result.output
        assert "exceeded: monitor ports" in result.output
        assert "effective training time: 99." in result.output

    def test_a_summary_of_one_table_comes_first(self, tmp_path):
        """By hand: the fullest port is one of those in the JSON, and its use is the largest."""
        path = tmp_path / "p.json"
        path.write_text(plan_to_json(planned(Shape(hosts=8, elements=1000), "rail-optimised")))
        shown, whole = self.run(str(path)).output, json.loads(self.run(str(path), "--json").output)
        uses = {f["where"]: f["value"] for f in whole["figures"] if (f["section"], f["name"]) == PORT_USE}
        (line,) = (line for line in shown.splitlines() if line.strip().startswith("monitor ports"))
        fullest = max(uses, key=lambda where: uses[where])
        assert f"{fullest} (of {len(uses)})" in line
        assert line.rstrip().endswith(f"{uses[fullest]:.2%}")
        assert "formula" not in shown.splitlines()[1]
        assert len(shown.splitlines()) < 25
        assert "effective training time: 9" in shown
        assert "--tables" in shown

    def test_alike_places_are_counted(self, tmp_path):
        path = tmp_path / "p.json"
        path.write_text(plan_to_json(planned(Shape(hosts=8, elements=1000), "rail-optimised")))
        points = len(planned(Shape(hosts=8, elements=1000), "rail-optimised").points)
        assert f"and {points - 4} more places (--all)" in self.run(str(path), "--tables").output
        assert "more places" not in self.run(str(path), "--all").output

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (["--assume", "mtbf=3"], "nothing is called mtbf; known: weight_bytes"),
            (["--assume", "restart"], "write NAME=VALUE"),
            (["--measured", "restart=soon"], "could not convert"),
            (["--assume", "restart=nan"], "restart must be from"),
            (["--assume", "mirror_loss=1.5"], "mirror_loss must be from 0 to 1"),
            (["--assume", "memory=0"], "memory must be from"),
        ],
    )
    def test_what_cannot_be_given(self, words, message):
        result = self.run("topologies/two-host", *words)
        assert result.exit_code == 2
        assert message in result.output


@pytest.mark.parametrize(
    ("number", "unit", "text"),
    [
        *((None, "s", "without bound"), (1234567.0, "", "1,234,567"), (0.51234, "", "0.5123"), (2.5e9, "B", "2.5 GB")),
        *(
            (999, "bit/s", "999 bit/s"),
            (11137.5, "s", "1.114e+04 s (3.09 h)"),
            (1e12, "B/s", "1 TB/s"),
            (0, "1/s", "0 1/s"),
        ),
    ],
)
def test_numbers_for_people(number, unit, text):
    assert show(number, unit) == text
