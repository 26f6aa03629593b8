"""``training.yaml``: what docs/checkpoint.md shows loads, and faults have their lines."""

from pathlib import Path

import pytest

from flowcheck_net.checkpoint.training import build_training
from flowcheck_net.errors import SpecError
from flowcheck_net.ids import GroupName
from flowcheck_net.model.job import Dtype
from flowcheck_net.spec.check_training import load_training

DOC = Path(__file__).resolve().parents[2] / "docs" / "checkpoint.md"


def shown() -> str:
    text = DOC.read_text().split("## training.yaml\n", 1)[1].split("\nFaults are told", 1)[0]
    lines = text[text.index("    version: 1") :].splitlines()
    return "\n".join(line[4:] for line in lines)


def faults(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "training.yaml"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        load_training(path)
    return [f"{p.line}:{p.column} {p.path}: {p.message}" for p in caught.value.problems]


def test_the_example_of_the_page(tmp_path):
    path = tmp_path / "training.yaml"
    path.write_text(shown())
    told = build_training(load_training(path))
    (later,), (first,) = told.layout.steady, told.layout.first
    assert [[slot.name for slot in bucket.slots] for bucket in later.buckets] == [["norm.bias", "words.weight"]]
    assert [[slot.name for slot in bucket.slots] for bucket in first.buckets] == [["words.weight", "norm.bias"]]
    assert later.buckets[0].dtype is Dtype.BF16
    assert told.layout.parameters[0].aliases == ("head.weight",)
    assert told.optimizer.master is Dtype.FP32
    assert told.optimizer.schedule.arguments == (("T_max", 180), ("eta_min", 0.0001))


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("[norm.bias], learning_rate", "[norm.bais], learning_rate", "there is no parameter 'norm.bais'"),
        ("[norm.bias], learning_rate", "[words.weight], learning_rate", "'words.weight' is in 2 groups"),
        ("ready: [norm.bias, words.weight]", "ready: [words.weight]", "'norm.bias' is missing"),
        ("name: norm.bias", "name: words.weight", "'words.weight' is there twice"),
        ("kernel: fused", "kernel: fusd", "optimizer.kernel"),
        ("kind: CosineAnnealingLR", "kind: SequentialLR", "SequentialLR needs `parts`"),
        ("rule: adamw", "rule: lamb", "optimizer.rule"),
    ],
)
def test_faults_have_places(tmp_path, old, new, fault):
    assert old in shown()
    found = faults(tmp_path, shown().replace(old, new))
    assert any(fault in text for text in found), found
    assert not any(text.startswith("0:") for text in found)


def test_megatrons_buckets_are_the_same_in_every_iteration(tmp_path):
    path = tmp_path / "training.yaml"
    start = shown().index("buckets:")
    stop = shown().index("average:")
    rule = "buckets: {rule: megatron, group: dp3, bucket_elements: 10, dtype: fp32}\n"
    path.write_text(shown()[:start] + rule + shown()[stop:])
    layout = build_training(load_training(path)).layout
    (order,) = layout.steady
    assert layout.first == ()
    assert order.group == "dp3"
    assert [(b.dtype, [slot.name for slot in b.slots]) for b in order.buckets] == [
        (Dtype.FP32, ["norm.bias"]),
        (Dtype.FP32, ["words.weight"]),
    ]


LISTED = """\
version: 1
parameters:
  - {name: words, shape: [5, 2], dtype: bf16, sum: [[dp0, words], [dp1, head]]}
  - {name: norm, shape: [4], dtype: bf16}
buckets:
  rule: listed
  groups:
    - group: dp0
      buckets: [{dtype: fp32, elements: 16, slots: [{name: norm, offset: 0, elements: 4},
                                                    {name: words, offset: 4, elements: 10}]}]
    - group: dp1
      buckets: [{dtype: fp32, elements: 10, slots: [{name: head, offset: 0, elements: 10}]}]
optimizer: {rule: sgd, kernel: for-loop, groups: [{parameters: [words, norm], learning_rate: 0.1}]}
"""


def test_a_tied_embedding_on_two_stages_is_the_sum_of_two_slots(tmp_path):
    path = tmp_path / "training.yaml"
    path.write_text(LISTED)
    layout = build_training(load_training(path)).layout
    assert [(source.group, source.slot) for source in layout.parameters[0].sources] == [
        ("dp0", "words"),
        ("dp1", "head"),
    ]
    assert [order.group for order in layout.steady] == [GroupName("dp0"), GroupName("dp1")]
    assert layout.first == ()


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("offset: 4, elements: 10", "offset: 3, elements: 10", "before the end of the slot before"),
        ("elements: 16", "elements: 12", "the slots need 14 elements, the bucket has 12"),
        ("[dp1, head]", "[dp1, tail]", "dp1/tail is in no bucket"),
        ("shape: [4]", "shape: [3]", "dp0/norm has 4 elements, not 3"),
    ],
)
def test_listed_buckets_must_hold_what_is_said(tmp_path, old, new, fault):
    assert any(fault in text for text in faults(tmp_path, LISTED.replace(old, new)))


def test_what_only_megatron_has_is_told(tmp_path):
    text = shown().replace("clip: {max_norm: 1.0}", "loss_scaling: {hysteresis: 3}")
    (fault,) = faults(tmp_path, text)
    assert fault.endswith("optimizer.loss_scaling.hysteresis: torch.amp.GradScaler has no hysteresis")
    text = shown().replace("clip: {max_norm: 1.0}", "loss_scaling: {rule: megatron, growth_factor: 1.0}")
    (fault,) = faults(tmp_path, text)
    assert fault.endswith("Megatron's scale grows by more than 1 and is lowered by less")
    path = tmp_path / "training.yaml"
    path.write_text(shown().replace("clip: {max_norm: 1.0}", "loss_scaling: {rule: megatron, hysteresis: 4}"))
    scaling = build_training(load_training(path)).optimizer.scaling
    assert scaling is not None
    assert (scaling.rule, scaling.hysteresis, scaling.min_scale) == ("megatron", 4, 1.0)


def test_a_parameter_that_shards_reduce_in_parts_is_refused_with_the_cure(tmp_path):
    """HSDP: each shard all-reduces a half of the matrix."""
    text = """
version: 1
parameters: [{name: w, shape: [4, 2], dtype: fp32, sum: [[rep0, w], [rep1, w]]}]
buckets:
  rule: listed
  groups:
    - {group: rep0, buckets: [{dtype: fp32, elements: 4, slots: [{name: w, offset: 0, elements: 4}]}]}
    - {group: rep1, buckets: [{dtype: fp32, elements: 4, slots: [{name: w, offset: 0, elements: 4}]}]}
optimizer: {rule: sgd, kernel: for-loop, groups: [{parameters: [w], learning_rate: 0.1}]}
"""
    path = tmp_path / "training.yaml"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        load_training(path)
    assert [problem.message for problem in caught.value.problems] == [
        "rep0/w has 4 elements, not 8",
        "rep1/w has 4 elements, not 8",
    ]
    assert all("describe each part as a parameter of its own" in problem.cure for problem in caught.value.problems)
    path.write_text(text.replace("[4, 2]", "[4]").replace(", sum: [[rep0, w], [rep1, w]]", ", sum: [[rep1, w]]"))
    assert build_training(load_training(path)).layout.parameters[0].sources[0].group == "rep1"
