"""From laid files to the gradient of a step: what was sent, or a refusal that says why."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flowcheck_net.checkpoint.assemble import Assembly
from flowcheck_net.checkpoint.findings import CheckpointRequest, StepIncomplete, StepRefused, Stop
from flowcheck_net.checkpoint.gradient import Average
from flowcheck_net.checkpoint.layout import Bucket, BucketOrder, Parameter, ParameterLayout, Slot, Source
from flowcheck_net.errors import RecordsCorrupt
from flowcheck_net.ids import GroupName
from flowcheck_net.model.job import Dtype
from tests.doubles import payload_world as world

DP0 = GroupName("dp0")
SIZES = {"head": (65536, Dtype.BF16), "body": (300_000, Dtype.FP32)}
SLOTS = {"head": [("a", 0, 65000)], "body": [("b", 100, 1000), ("c", 2000, 298_000)]}
"""Of the four-host example; what lies between the slots is padding."""


def layout(**sizes: int) -> ParameterLayout:
    buckets = tuple(
        Bucket(name, dtype, sizes.get(name, elements), tuple(Slot(*slot) for slot in SLOTS[name]))
        for name, (elements, dtype) in SIZES.items()
    )
    parameters = tuple(
        Parameter(slot.name, (slot.elements,), Dtype.FP32, (Source(DP0, slot.name),))
        for b in buckets
        for slot in b.slots
    )
    return ParameterLayout(parameters, (BucketOrder(DP0, buckets),))


def laid(tmp_path: Path, *faults: str) -> Path:
    world.laid(world.plan_of("four-host"), tmp_path, iterations=2, faults=faults)
    return tmp_path / "out"


def refused(kind: type[StepIncomplete | StepRefused], stop: Stop, out: Path, **more: Any) -> str:
    with pytest.raises(kind) as caught:
        Assembly(layout(**more), Average()).assemble(out, 1, 8)
    request: CheckpointRequest = caught.value.request  # type: ignore[attr-defined]  # both kinds have it
    assert (request.stop, request.replica_step, request.at_step) == (stop, 7, 8)
    return request.reason


def change(out: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    path = out / "iteration-000001" / "manifest.json"
    document = json.loads(path.read_text())
    edit(document)
    path.write_text(json.dumps(document))


def test_every_parameter_has_the_bytes_that_were_sent(tmp_path):
    plan = world.plan_of("four-host")
    out = laid(tmp_path)
    gradient = Assembly(layout(), Average()).assemble(out, 1, 8)
    sent = world.truth(plan, "dp0", 1)
    body = 65536 * 2
    assert bytes(gradient.parts["a"][0].data) == sent[: 65000 * 2]
    assert bytes(gradient.parts["b"][0].data) == sent[body + 400 : body + 4400]
    assert bytes(gradient.parts["c"][0].data) == sent[body + 8000 : body + 1_200_000]
    assert gradient.proof.iteration == 1
    assert gradient.proof.verdict.publishable
    assert len(gradient.proof.groups[0].sha256) == 64
    gradient.parts["a"][0].data[:2] = b"xx"
    assert (out / "iteration-000001" / "dp0.gradient").read_bytes() == sent


def test_missing_bytes(tmp_path):
    hops = sorted({hop.index for hop in world.plan_of("four-host").hops})
    out = laid(tmp_path, *(f"loss:hop=dp0/0/{hop},iteration=1,rate=0.5" for hop in hops))
    assert "never observed" in refused(StepIncomplete, Stop.INCOMPLETE, out)
    with pytest.raises(StepIncomplete, match="nothing of iteration 5"):
        Assembly(layout(), Average()).assemble(out, 5, 8)


def test_a_bit_less_than_the_manifest_says(tmp_path):
    out = laid(tmp_path)
    change(out, lambda d: d["groups"][0].update(carrying=d["groups"][0]["carrying"] + 1))
    assert "units are present" in refused(StepIncomplete, Stop.INCOMPLETE, out)


def test_whole_but_not_proven(tmp_path):
    out = laid(tmp_path)
    change(out, lambda d: d.update(complete=False, verdict="UNKNOWN", why=["nobody knows"]))
    assert "nobody knows" in refused(StepRefused, Stop.UNPROVEN, out)


@pytest.mark.parametrize("verdict", ["DUPLICATE", "UNKNOWN", "STALE", "UNPLANNED"])
def test_no_other_verdict_will_do(tmp_path, verdict):
    out = laid(tmp_path)
    change(out, lambda d: d.update(verdict=verdict))
    refused(StepRefused, Stop.UNPROVEN, out)


def test_an_assumption_must_be_allowed(tmp_path):
    out = laid(tmp_path)
    change(out, lambda d: d.update(assumed=["queue pairs ascend"]))
    assert "queue pairs ascend" in refused(StepRefused, Stop.UNPROVEN, out)
    found = Assembly(layout(), Average(), trust_assumed=True).assemble(out, 1, 8)
    assert found.proof.assumed == ("queue pairs ascend",)


def test_other_buckets(tmp_path):
    out = laid(tmp_path)
    reason = refused(StepRefused, Stop.LAYOUT, out, body=300_001)
    assert reason == "bucket 1 of dp0: the capture has 300,000 fp32, the description 300,001 fp32"


def test_a_changed_file(tmp_path):
    out = laid(tmp_path)
    path = out / "iteration-000001" / "dp0.gradient"
    data = bytearray(path.read_bytes())
    data[12345] ^= 1
    path.write_bytes(data)
    with pytest.raises(RecordsCorrupt, match="changed"):
        Assembly(layout(), Average()).assemble(out, 1, 8)
