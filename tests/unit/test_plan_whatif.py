"""Plans that stay close to a running one, questions of loss, comparisons, and stale plans."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flowcheck_net.cli.plan import command
from flowcheck_net.cli.plan_diff import command as diff_command
from flowcheck_net.errors import Infeasible, PlanError, StalePlan
from flowcheck_net.plan.compare import compare
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import Plan, plan_from_json, plan_to_json
from flowcheck_net.plan.reasons import why
from flowcheck_net.plan.stale import verify_inputs
from flowcheck_net.plan.whatif import surviving, without_devices, without_links
from flowcheck_net.spec.load import Specs
from tests.oracle.plan_specs import Raw, leaf_fabric, policy, ring_job, to_specs

EXAMPLES = Path(__file__).resolve().parents[2] / "topologies"
FOUR = {"h1": "leaf1", "h2": "leaf1", "h3": "leaf2", "h4": "leaf2"}


def specs(
    captures: list[tuple[str, str, str]], *, spines: int = 1, hosts: dict[str, str] = FOUR, **rules: Any
) -> Specs:
    topology = leaf_fabric(hosts, captures, spines=spines)
    return to_specs(topology, ring_job([list(hosts)]), {**policy(copies=1), **rules})


def points(plan: Plan) -> list[str]:
    return [point.id for point in plan.points]


class TestRunning:
    CAPTURES = [("a", "leaf1", "800G"), ("b", "leaf2", "800G")]  # noqa: RUF012 - read only

    def running(self) -> Plan:
        """A plan that the policy of its time put on leaf2."""
        plan = make_plan(specs(self.CAPTURES, allowed_ports=["leaf2:P4"]))
        assert points(plan) == ["leaf2:P4:rx", "leaf2:P4:tx"]
        return plan

    def test_of_equally_good_plans_the_running_one_stays(self) -> None:
        now = specs(self.CAPTURES)
        assert {point.switch for point in make_plan(now).points} == {"leaf1"}
        plan = make_plan(now, running=self.running())
        assert points(plan) == ["leaf2:P4:rx", "leaf2:P4:tx"]
        assert [(s.name, s.value, s.bound) for s in plan.proof.stages if "running" in s.name] == [
            ("distance from the running plan", 0, 0)
        ]

    def test_what_is_gone_is_replaced_and_the_rest_stays(self) -> None:
        now = specs(self.CAPTURES, allowed_ports=["leaf1:P2", "leaf2:P4", "leaf2:P3"])
        wanted = make_plan(specs(self.CAPTURES, allowed_ports=["leaf2:P4"]))
        assert points(make_plan(now, running=wanted)) == ["leaf2:P4:rx", "leaf2:P4:tx"]
        without = make_plan(specs(self.CAPTURES, allowed_ports=["leaf1:P2"]), running=wanted)
        assert points(without) == ["leaf1:P2:rx", "leaf1:P2:tx"]

    def test_a_better_plan_goes_before_a_close_one(self) -> None:
        """Mirrored bytes come first: two copies are not kept when one is asked for."""
        more = make_plan(specs(self.CAPTURES, copies=2))
        plan = make_plan(specs(self.CAPTURES), running=more)
        assert len(plan.points) == 2
        assert set(points(plan)) <= set(points(more))

    def test_capture_ports_stay_too(self) -> None:
        """Twins that may change places in a plan of their own stay where they are in a running one."""
        twins = [("a", "leaf1", "400G"), ("a", "leaf1", "400G"), ("a", "leaf1", "400G")]
        hosts = {"h1": "leaf1", "h2": "leaf1", "h3": "leaf1"}
        before = make_plan(without_devices(specs(twins, spines=0, hosts=hosts), ["a:cap0"]))
        assert {p.capture for p in before.points} == {"a:cap1", "a:cap2"}
        after = make_plan(specs(twins, spines=0, hosts=hosts), running=before)
        assert {p.capture for p in after.points} == {"a:cap1", "a:cap2"}


class TestWithout:
    def test_a_leaf_with_hosts_forwards_and_mirrors_nothing(self) -> None:
        asked = specs([("a", "leaf1", "800G"), ("b", "leaf2", "800G")])
        assert {p.switch for p in make_plan(without_devices(asked, ["leaf1"])).points} == {"leaf2"}
        with pytest.raises(Infeasible):
            make_plan(without_devices(asked, ["leaf1", "leaf2"]))

    def test_a_spine_is_gone_and_the_paths_with_it(self) -> None:
        """Two spines: no spine port is certain; with one left every hop between the leaves surely crosses it."""
        asked = specs([("a", "spine1", "800G")], spines=2, hosts={"h1": "leaf1", "h2": "leaf2"})
        with pytest.raises(Infeasible):
            make_plan(asked)
        assert {p.switch for p in make_plan(without_devices(asked, ["spine2"])).points} == {"spine1"}

    def test_a_link_is_gone(self) -> None:
        asked = specs([("a", "spine1", "800G")], spines=2, hosts={"h1": "leaf1", "h2": "leaf2"})
        assert {p.switch for p in make_plan(without_links(asked, ["leaf1:up-spine2"])).points} == {"spine1"}

    def test_a_checkpoint_node_or_one_of_its_ports(self) -> None:
        asked = specs([("a", "leaf1", "800G"), ("b", "leaf1", "800G"), ("b", "leaf1", "800G")])
        assert {p.capture for p in make_plan(without_devices(asked, ["a"])).points} == {"b:cap0"}
        assert {p.capture for p in make_plan(without_devices(asked, ["a", "b:cap0"])).points} == {"b:cap1"}
        assert {p.capture for p in make_plan(without_links(asked, ["a:cap0"])).points} == {"b:cap0"}

    @pytest.mark.parametrize(
        ("names", "words"),
        [
            (["leaf9"], "there is no switch, checkpoint node or capture port leaf9"),
            (["h1"], "there is no switch"),
            (["a:cap7"], "no link ends at a:cap7"),
            (["a"], "no checkpoint node would be left"),
        ],
    )
    def test_what_cannot_be_taken_away(self, names: list[str], words: str) -> None:
        with pytest.raises(PlanError, match=words):
            without_devices(specs([("a", "leaf1", "800G")]), names)

    def test_a_mistyped_switch_is_named(self) -> None:
        with pytest.raises(PlanError) as caught:
            without_devices(specs([("a", "leaf1", "800G")]), ["leaf-1"])
        assert caught.value.hint == "did you mean leaf1?"

    def test_a_hosts_link_cannot_be_taken_away(self) -> None:
        asked = specs([("a", "leaf1", "800G")])
        with pytest.raises(PlanError, match="joins a host"):
            without_links(asked, ["leaf1:P1"])
        with pytest.raises(PlanError, match="no link ends at leaf1:P77"):
            without_links(asked, ["leaf1:P77"])

    def test_surviving_asks_for_more(self) -> None:
        asked = specs([("a", "leaf1", "800G"), ("b", "leaf2", "800G")])
        found = compare(make_plan(asked), make_plan(surviving(asked, 1)))
        assert {change.name for change in found.cost} == {"mirrored_bytes", "sessions", "switches"}
        assert found.inputs == ("policy.survive",)


class TestCompare:
    def test_equal_plans(self) -> None:
        plan = make_plan(specs([("a", "leaf1", "800G")]))
        found = compare(plan, plan)
        assert found.same
        assert (found.kept, found.inputs, found.cost) == (2, (), ())

    def test_every_difference_is_named(self) -> None:
        captures = [("a", "leaf1", "800G"), ("b", "leaf2", "800G")]
        found = compare(make_plan(specs(captures)), make_plan(specs(captures, allowed_ports=["leaf2:*"])))
        assert [point.partition(":")[0] for point in found.gone] == ["leaf1", "leaf1"]
        assert [point.partition(" to ")[2] for point in found.new] == ["b:cap0", "b:cap0"]
        assert [(switch, [step.kind.value for step in steps]) for switch, steps in found.steps] == [
            ("leaf1", ["delete"]),
            ("leaf2", ["create"]),
        ]
        assert found.inputs == ("policy.allowed_ports",)
        assert not found.same

    def test_copies_that_differ(self) -> None:
        captures = [("a", "leaf1", "800G"), ("b", "leaf2", "800G")]
        found = compare(make_plan(specs(captures)), make_plan(specs(captures, copies=2)))
        assert [(c.name, c.before, c.after) for c in found.coverage] == [("dp0/0", 1, 2)]


class TestStale:
    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"copies": 2}, r"policy \(policy.copies\)"),
            ({"monitor": {"headroom": 0.25}}, r"policy \(policy.monitor.headroom\)"),
        ],
    )
    def test_the_field_is_named(self, change: Raw, field: str) -> None:
        plan = make_plan(specs([("a", "leaf1", "800G")]))
        with pytest.raises(StalePlan, match=field):
            verify_inputs(plan, specs([("a", "leaf1", "800G")], **change))

    def test_the_switch_is_named(self) -> None:
        plan = make_plan(specs([("a", "leaf1", "800G")]))
        topology = leaf_fabric(FOUR, [("a", "leaf1", "800G")], spines=1)
        topology["switches"][1]["platform"] = "ovs"
        with pytest.raises(StalePlan, match=r"topology \(topology.switches\[leaf2\]\)"):
            verify_inputs(plan, to_specs(topology, ring_job([list(FOUR)]), policy(copies=1)))

    def test_a_plan_survives_the_round_trip(self) -> None:
        plan = make_plan(specs([("a", "leaf1", "800G"), ("b", "leaf2", "800G")], copies=2, survive=1))
        text = plan_to_json(plan)
        assert plan_to_json(plan_from_json(text, "plan.json")) == text


def test_reasons_are_what_would_be_worse() -> None:
    """One node of 800G on each leaf: P1 goes and another port of its leaf takes over; the only ports are needed."""
    asked = specs([("a", "leaf1", "800G"), ("b", "leaf2", "800G")])
    assert all("first by name" in line for line in why(asked, make_plan(asked)))
    only = specs([("a", "leaf1", "800G")], allowed_ports=["leaf1:P1"])
    assert why(only, make_plan(only)) == (
        "leaf1:P1:rx shows 1 hop of dp0/0; without it there is no plan",
        "leaf1:P1:tx shows 1 hop of dp0/0; without it there is no plan",
    )


class TestCommand:
    def run(self, *args: str) -> str:
        result = CliRunner().invoke(command, list(args), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    def test_explain_from_and_check(self, tmp_path: Path) -> None:
        plan = tmp_path / "plan.json"
        assert "why these points:" in self.run(str(EXAMPLES / "four-host"), "--explain", "-o", str(plan))
        assert "no switch would change" in self.run(str(EXAMPLES / "four-host"), "--from", str(plan))
        assert "made from these files" in self.run(str(EXAMPLES / "four-host"), "--check", str(plan))
        with pytest.raises(StalePlan, match="changed since the plan was made"):
            self.run(str(EXAMPLES / "two-host"), "--check", str(plan))

    def test_a_question_shows_its_price(self) -> None:
        text = self.run(str(EXAMPLES / "eight-host"), "--without", "ckpt1:cap0")
        assert "against the plan of the files as they are:" in text
        assert "changed input: topology.checkpoint_nodes[ckpt1]" in text

    def test_diff_of_two_files(self, tmp_path: Path) -> None:
        one, two = tmp_path / "one.json", tmp_path / "two.json"
        self.run(str(EXAMPLES / "two-host"), "-o", str(one))
        self.run(str(EXAMPLES / "four-host"), "-o", str(two))
        result = CliRunner().invoke(diff_command, [str(one), str(two)], catch_exceptions=False)
        assert "only in" in result.stdout
        assert "mirrored bytes: 80,000 -> 5,989,824" in result.stdout
        result = CliRunner().invoke(diff_command, [str(one), str(two), "--json"], catch_exceptions=False)
        assert json.loads(result.stdout)["kept"] == 2

    def test_a_file_that_cannot_be_read(self, tmp_path: Path) -> None:
        with pytest.raises(PlanError, match="cannot be read"):
            self.run(str(EXAMPLES / "two-host"), "--from", str(tmp_path / "none.json"))
