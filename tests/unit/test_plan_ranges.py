"""A plan that was edited and given a digest that fits: each value has a range, and none of them costs hours."""

import contextlib
import json
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.report import render_html
from flowcheck_net.audit.result import report_to_dict
from flowcheck_net.audit.scene import scene_of_plan
from flowcheck_net.errors import FlowcheckError, PlanError, StalePlan
from flowcheck_net.model.job import Broadcast, Bucket, Dtype, Nccl, Protocol, Wire
from flowcheck_net.model.wire import broadcast_wire_sizes, hop_messages
from flowcheck_net.model.wire_count import MOST_MESSAGES, broadcast_count, message_count
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import Plan, expectation, plan_from_json, plan_to_json
from flowcheck_net.plan.ranges import RULES
from flowcheck_net.receive.records import Records
from flowcheck_net.receive.replay import replay
from flowcheck_net.receive.synth import synthesize
from flowcheck_net.spec.job import JobSpec
from flowcheck_net.spec.load import load_specs, spec_paths
from flowcheck_net.spec.ranges import MTUS
from tests.unit.test_plan_document import signed

EXAMPLES = Path(__file__).resolve().parents[2] / "topologies"


@lru_cache(maxsize=4)
def text_of(name: str) -> str:
    return plan_to_json(make_plan(load_specs(*spec_paths(EXAMPLES / name))))


def changed(name: str, place: tuple[Any, ...], value: object) -> str:
    body = json.loads(text_of(name))
    inner = body
    for part in place[:-1]:
        inner = inner[part]
    inner[place[-1]] = value
    return signed(body)


NCCL = ("job", "wire", "nccl")


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("job", "wire", "mtu"), 0, "plan.job.wire.mtu: must be one of 256, 512, 1024, 2048, 4096 (found 0)"),
        (("job", "wire", "mtu"), 10**30, "plan.job.wire.mtu: must be one of 256"),
        ((*NCCL, "threads"), 0, "nccl.threads: must be a multiple of 32 from 64 to 640 (found 0)"),
        ((*NCCL, "threads"), 65, "nccl.threads: must be a multiple of 32 from 64 to 640 (found 65)"),
        ((*NCCL, "threads"), 544, "nccl.threads: must be at most 512 with LL (found 544)"),
        ((*NCCL, "channels"), 0, "nccl.channels: must be 1 to 64 (found 0)"),
        ((*NCCL, "channels"), 65, "nccl.channels: must be 1 to 64 (found 65)"),
        ((*NCCL, "qps_per_connection"), 0, "nccl.qps_per_connection: must be 1 to 128 (found 0)"),
        ((*NCCL, "qps_per_connection"), 10**9, "nccl.qps_per_connection: must be 1 to 128"),
        ((*NCCL, "version"), [2, 99, 0], "nccl.version: must be 2.8 to 2.30 (found 2.99.0)"),
        ((*NCCL, "adaptive_routing_threshold"), -1, "adaptive_routing_threshold: must be 0 to"),
        (("job", "wire", "buckets", 0, "elements"), 0, "buckets[0].elements: must be 1 to 1099511627776 (found 0)"),
        (("job", "wire", "buckets", 0, "elements"), -5, "buckets[0].elements: must be 1 to"),
        (("job", "wire", "buckets", 0, "elements"), 2**40, "plan.job.buckets: about"),
        (("job", "places", 0, 3), "10.0.0.300", "plan.job.places[0].address: must be an IPv4 or IPv6 address"),
        (("job", "places", 0, 3), "224.0.0.1", "address: must be an IPv4 or IPv6 address of one NIC"),
        (("job", "places", 0, 3), "fd00::1", "one address family"),
        (("job", "places", 0, 1), "a\u001b[31m", "plan.job.places[0].host: must be letters"),
        (("job", "rings", 0, "qpns"), [[1], [2]], "qpns[0][0]: must be 2 to 16777215 (found 1)"),
        (("job", "rings", 0, "qpns"), [[5, 6], [7, 8]], "has 2 queue pairs on hop 0, nccl.qps_per_connection is 1"),
        (("job", "rings", 0, "ranks"), [0, 0], "names a rank twice"),
        (("job", "iteration_time"), 0, "iteration_time: must be more than 0 and at most 1000000000 (found 0)"),
        (("job", "name"), "../x", "plan.job.name: must be lower-case letters"),
        (("cost", "sessions"), -1, "plan.cost.sessions: must be 0 to"),
        (("cost", "sessions"), 10**400, "plan.cost.sessions: must be 0 to"),
        (("cost", "gradient_bytes"), 0, "plan.cost.gradient_bytes: must be 1 to"),
        (("loads", 0, "capacity"), 0, "plan.loads[0].capacity: must be 1 to"),
        (("proof", "gap"), 10**400, "plan.proof.gap: must be"),
        (("proof", "solver"), "x" * 5000, "plan.proof.solver: must be printable text of at most 255 characters"),
        (("switches", 0, "management"), "root@leaf", "management: must be kind:reference"),
        (("sessions", 0, "session", "name"), "fcn-other-0", "plan.sessions: 'fcn-other-0' is no session of job"),
        (("points", 0, "capture"), "ckpt1", "plan.points[0].capture: must be node:nic"),
    ],
)
def test_each_value_out_of_its_range_is_named(place: tuple[Any, ...], value: object, words: str) -> None:
    with pytest.raises(StalePlan) as caught:
        plan_from_json(changed("two-host", place, value), "plan.json")
    assert words in caught.value.message
    assert len(caught.value.message) < 300


def test_a_channel_beyond_the_jobs_is_named() -> None:
    with pytest.raises(StalePlan, match=r"plan\.job\.rings: dp0/1: channel must be 0 to 0"):
        plan_from_json(changed("eight-host", (*NCCL, "channels"), 1), "plan.json")


@pytest.mark.parametrize(
    ("place", "value"),
    [(("fingerprint", "fields"), None), (("job", "trees"), None), (("job", "rings", 0, "colour"), 1)],
)
def test_a_plan_of_another_form_is_of_another_version(place: tuple[Any, ...], value: object) -> None:
    body = json.loads(changed("two-host", place, value))
    if value is None:
        inner = body
        for part in place[:-1]:
            inner = inner[part]
        del inner[place[-1]]
    with pytest.raises(StalePlan, match="written by another version of flowcheck-net: plan again"):
        plan_from_json(signed(body), "plan.json")


def test_a_row_of_other_columns_is_of_another_version() -> None:
    with pytest.raises(StalePlan, match="written by another version of flowcheck-net: plan again"):
        plan_from_json(changed("two-host", ("job", "places", 0), [0, "host1"]), "plan.json")


def _classes(wanted: Any, found: dict[str, type]) -> dict[str, type]:
    if is_dataclass(wanted) and isinstance(wanted, type) and wanted.__name__ not in found:
        found[wanted.__name__] = wanted
        for hint in get_type_hints(wanted).values():
            _classes(hint, found)
    for inner in get_args(wanted):
        _classes(inner, found)
    return found


def test_every_rule_names_a_field_of_a_plan() -> None:
    classes = _classes(Plan, {})
    for key in RULES:
        owner, dot, field = key.partition(".")
        if dot:
            assert field in {f.name for f in fields(classes[owner])}, key


def test_shared_ranges_are_those_of_the_job_file() -> None:
    hints = get_type_hints(JobSpec)
    assert get_args(hints["mtu"]) == MTUS


def wire(protocol: Protocol, **more: Any) -> Wire:
    nccl = Nccl((2, 19, 3), protocol, 1, 512, False, 1, False, False, 8192)
    return Wire(replace(nccl, **more), 1024, (Bucket("b", 40_000_000, Dtype.FP32),), (Broadcast(40_000_000),))


@pytest.mark.parametrize("protocol", list(Protocol))
@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize("version", [(2, 19, 3), (2, 21, 0), (2, 27, 0)])
def test_messages_are_reckoned_as_they_are_made(protocol: Protocol, size: int, version: tuple[int, int, int]) -> None:
    """Counting whole loops the estimate is never below, and at most two loops above."""
    made = wire(protocol, version=version)
    exact = len(hop_messages(made, size, 0, 0))
    loop = 2 * size * (2 if protocol is Protocol.SIMPLE else 1)
    assert exact <= message_count(made, size) <= exact * size / (size - 1) + 2 * loop
    assert abs(broadcast_count(made, 40_000_000) - len(broadcast_wire_sizes(made, made.broadcasts[0]))) <= 2


def test_a_job_that_nobody_can_list_is_refused_before_it_is_planned() -> None:
    specs = load_specs(*spec_paths(EXAMPLES / "two-host"))
    bucket = specs.job.buckets[0].model_copy(update={"elements": 2**40})
    huge = replace(specs, job=specs.job.model_copy(update={"buckets": (bucket,)}))
    with pytest.raises(PlanError, match=f"job.buckets: about .* at most {MOST_MESSAGES:,} can be listed"):
        make_plan(huge)


EDGES = st.sampled_from(
    [0, 1, -1, 2, 3, 63, 64, 65, 255, 4096, 2**24, 2**31, 10**9, 2**40, 2**63, 10**18, 10**400, -(10**400)]
)
WORDS = st.sampled_from(["", "10.0.0.2", "fd00::9", "rx", "LL", "LL128", "Simple", "fp16", "a:b", "\x1b[2J", "x" * 999])
VALUES: st.SearchStrategy[object] = (
    EDGES | WORDS | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers()
)
VALUES = VALUES | st.lists(VALUES, max_size=3)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in _places(item, (*path, key)))]


@lru_cache(maxsize=4)
def records_of(name: str, directory: Path) -> Records:
    out = directory / "real.pcapng"
    synthesize(plan_from_json(text_of(name), name), out, iterations=1, faults=(), seed=0)
    return replay([out])


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
@pytest.mark.parametrize("name", ["two-host", "tree-four-host"])
def test_any_single_value_gives_a_refusal_or_a_plan_that_works(name: str, tmp_path: Path, data: st.DataObject) -> None:
    """The oracle is the rest of the program: whatever is let through is expected, audited, drawn and synthesised."""
    places = [place for place in _places(json.loads(text_of(name))) if place and place[0] not in ("version", "digest")]
    text = changed(name, data.draw(st.sampled_from(places)), data.draw(VALUES))
    try:
        plan = plan_from_json(text, "plan.json")
        expected = expectation(plan)
    except StalePlan:
        return
    report = audit(expected, records_of(name, tmp_path))
    json.dumps(report_to_dict(report))
    render_html(report, scene_of_plan(plan))
    if sum(m.wire_bytes for hop in expected.hops for m in hop.messages) < 20_000_000:
        with contextlib.suppress(FlowcheckError):
            synthesize(plan, tmp_path / "out.pcapng", iterations=1, faults=(), seed=0)
