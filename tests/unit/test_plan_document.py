"""The plan file: canonical, bound to its content and its inputs, and never a traceback on garbage."""

import hashlib
import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcheck_net.errors import StalePlan
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import Plan, expectation, plan_from_json, plan_to_json
from flowcheck_net.plan.stale import verify_inputs
from flowcheck_net.spec.load import Specs, load_specs, spec_paths
from tests.oracle.plan_specs import Raw, leaf_fabric, policy, ring_job, to_specs

EXAMPLES = Path(__file__).resolve().parents[2] / "topologies"


@lru_cache(maxsize=8)
def example(name: str) -> tuple[Specs, Plan]:
    specs = load_specs(*spec_paths(EXAMPLES / name))
    return specs, make_plan(specs)


def signed(body: Raw) -> str:
    """A plan file with a digest that fits, by the rule of docs/plan-format.md."""
    rest = {key: value for key, value in body.items() if key != "digest"}
    text = json.dumps(rest, sort_keys=True, separators=(",", ":"))
    return json.dumps({**rest, "digest": hashlib.sha256(text.encode("ascii")).hexdigest()})


def body() -> Raw:
    parsed: Raw = json.loads(plan_to_json(example("four-host")[1]))
    return parsed


@pytest.mark.parametrize("name", ["two-host", "four-host", "eight-host"])
def test_round_trip_byte_for_byte(name: str) -> None:
    plan = example(name)[1]
    text = plan_to_json(plan)
    assert plan_from_json(text, "plan.json") == plan
    assert plan_to_json(plan_from_json(text, "plan.json")) == text


def test_canonical_form() -> None:
    text = plan_to_json(example("four-host")[1])
    assert text.endswith("}\n")
    assert text.count("\n") == 1
    assert text.isascii()
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")) + "\n"
    assert json.loads(text)["version"] == 1


def test_digest_is_the_sha256_of_the_rest() -> None:
    text = plan_to_json(example("four-host")[1])
    assert json.loads(signed(json.loads(text)))["digest"] == json.loads(text)["digest"]


def test_the_same_input_gives_the_same_bytes() -> None:
    specs = example("eight-host")[0]
    assert plan_to_json(make_plan(specs)) == plan_to_json(make_plan(specs))


def test_the_order_of_the_input_lists_does_not_matter() -> None:
    """Everything but the fingerprint of the topology file, which is the file's own."""
    hosts = {"h1": "leaf1", "h2": "leaf2", "h3": "leaf1"}
    topology = leaf_fabric(hosts, [("n", "leaf1", "800G"), ("m", "leaf2", "800G")], spines=2)
    turned = {**topology, **{key: topology[key][::-1] for key in ("switches", "hosts", "checkpoint_nodes", "links")}}
    job = ring_job([list(hosts)])
    one, two = (make_plan(to_specs(t, job, policy(copies=1))) for t in (topology, turned))
    assert one.points
    assert (one.points, one.sessions, one.hops, one.cost) == (two.points, two.sessions, two.hops, two.cost)


def test_white_space_and_key_order_do_not_matter() -> None:
    text = plan_to_json(example("two-host")[1])
    loose = json.dumps(dict(reversed(json.loads(text).items())), indent=4)
    assert plan_to_json(plan_from_json(loose, "plan.json")) == text


def test_a_changed_number_is_noticed() -> None:
    text = plan_to_json(example("two-host")[1]).replace('"mirrored_bytes":80000', '"mirrored_bytes":80001')
    with pytest.raises(StalePlan, match=r"^plan\.json: the digest does not fit the content") as caught:
        plan_from_json(text, "plan.json")
    assert "run it again" in caught.value.hint


@pytest.mark.parametrize("version", [0, 2, "1", None, True, 1.5])
def test_another_version_is_named(version: object) -> None:
    with pytest.raises(StalePlan, match="this program reads version 1"):
        plan_from_json(signed({**body(), "version": version}), "plan.json")


@pytest.mark.parametrize(
    "text",
    [
        *["", "{", "[]", "null", "12", '"plan"', "{}", '{"version":1}', "\x00", "[" * 100_000, "9" * 5000, '{"a":NaN}'],
        '{"digest":"","version":1,"a":1e999}',
        *[
            '{"version":1,"version":1,"digest":""}',
            '{"digest":"","version":Infinity}',
            '{"digest":"\\ud800","version":1}',
        ],
    ],
)
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(StalePlan):
        plan_from_json(text, "plan.json")


def _set(*path: Any, to: object) -> Raw:
    changed = body()
    place: Any = changed
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = to
    return changed


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (_set("points", 0, "direction", to="up"), "plan.points[0].direction: expected one of rx, tx"),
        (_set("points", 0, "switch", to=7), "plan.points[0].switch: expected text, found int"),
        (_set("points", 0, to={}), "missing 'switch'"),
        (_set("points", 0, "colour", to="red"), "unknown 'colour'"),
        (_set("points", to={}), "plan.points: expected a list"),
        (_set("cost", "sessions", to=True), "expected a whole number, found bool"),
        (_set("hops", 0, 2, to=99), "hop 99: no such hop"),
        (_set("hops", 0, 3, to="leaf9:E1:rx"), "unknown point"),
        (_set("hops", 0, 4, to=2), "copies and points differ"),
        (_set("hops", 0, to=["dp0"]), "expected the 7 columns group, channel, index"),
        (_set("job", "places", 0, 0, to=1), "plan.job.places[0]: rank 1 is out of order"),
        (_set("job", "rings", 0, "ranks", to=[0, 9]), "names unknown ranks"),
        (_set("job", "rings", 0, "ranks", to=[]), "names unknown ranks"),
        (_set("job", "rings", 0, "qpns", to=[[5]]), "qpns for some hops only"),
        (_set("job", "wire", "nccl", "version", to=[2]), "expected 3 items, found 1"),
        (_set("sessions", 0, "switch", to="leaf9"), "unknown switch"),
        (_set("sessions", to=[]), "no session watches"),
        (_set("points", to=[]), "a source is not a point"),
        (_set("coverage", to=[]), "not exactly one line a ring"),
        (_set("job", "name", to="\ud800"), "plan.job.name: expected text"),
    ],
)
def test_each_deviation_of_form_is_named(changed: Raw, words: str) -> None:
    with pytest.raises(StalePlan) as caught:
        plan_from_json(signed(changed), "plan.json")
    assert words in caught.value.message
    caught.value.message.encode()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in _places(item, (*path, key)))]


@settings(max_examples=300)
@given(st.data())
def test_any_value_anywhere_is_a_plan_or_a_clear_refusal(data: st.DataObject) -> None:
    """The digest is made to fit, so that everything behind it is reached."""
    place = data.draw(st.sampled_from([p for p in _places(body()) if p]))
    changed = _set(*place, to=data.draw(JSON))
    try:
        text = signed(changed)
    except ValueError:
        return
    refusal: StalePlan | None = None
    try:
        plan = plan_from_json(text, "plan.json")
    except StalePlan as error:
        refusal = error
    if refusal is None:
        assert plan_from_json(plan_to_json(plan), "again") == plan
    else:
        assert refusal.message.startswith("plan.json: ")
        assert refusal.hint


@settings(max_examples=200)
@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda b: b.decode("latin-1")))
def test_any_text_is_a_clear_refusal(text: str) -> None:
    with pytest.raises(StalePlan):
        plan_from_json(text, "plan.json")


def test_every_cut_is_refused() -> None:
    text = plan_to_json(example("two-host")[1])
    for end in range(0, len(text) - 1, 7):
        with pytest.raises(StalePlan):
            plan_from_json(text[:end], "plan.json")


def test_unchanged_inputs_are_accepted_and_each_change_is_named() -> None:
    specs, plan = example("two-host")
    verify_inputs(plan, specs)
    other = example("four-host")[0]
    with pytest.raises(StalePlan, match=r"changed since the plan was made: policy \(policy.copies\)$"):
        verify_inputs(plan, Specs(specs.topology, specs.job, specs.policy.model_copy(update={"copies": 9})))
    with pytest.raises(StalePlan, match=r"made: topology, job \(job.buckets\[") as caught:
        verify_inputs(plan, Specs(other.topology, other.job, specs.policy))
    assert "again" in caught.value.hint


def test_expectation_has_captures_and_copies_of_planned_hops_only() -> None:
    plan = example("four-host")[1]
    hops = {hop.index: hop for hop in expectation(plan).hops}
    capture = {point.id: point.capture for point in plan.points}
    planned = {hop.index: (capture[hop.point],) for hop in plan.hops}
    assert len(planned) == 3
    assert {i: hop.captures for i, hop in hops.items()} == {i: planned.get(i, ()) for i in range(4)}
    assert {i: hop.copies for i, hop in hops.items()} == {i: int(i in planned) for i in range(4)}
    assert expectation(plan).planned


def test_expectation_of_a_hop_seen_twice_names_both_captures() -> None:
    plan = example("four-host")[1]
    first, second, *rest = plan.hops
    twice = replace(first, also=(second.point,), copies=2)
    hops = {hop.index: hop for hop in expectation(replace(plan, hops=(twice, second, *rest))).hops}
    assert len(hops[first.index].captures) == 2
    assert hops[first.index].copies == 2
