"""How far a replica is from its trainer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")
pytest.importorskip("safetensors")

from flowcheck_net.checkpoint.drift import last, measure, record, same_value  # noqa: E402
from tests.doubles.publications import copied, in_memory, two_states  # noqa: E402


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with in_memory() as place:
        yield place


@pytest.fixture
def two() -> tuple[dict[str, Any], dict[str, Any]]:
    return two_states()


def test_drift_is_what_was_put_in(tmp_path: Path, two: Any) -> None:
    _, now = two
    other = copied(now)
    assert measure(5, now, other).identical
    other["model"]["0.weight"][0, 0] += 0.5
    other["optimizer"]["state"][0]["exp_avg"][:2] *= -1
    other["rng"]["extra"] = 1
    found = measure(5, now, other)
    by_name = {each.name: each for each in found.fields}
    assert by_name.keys() == {"model.0.weight", "optimizer.state.0.exp_avg"}
    weight = by_name["model.0.weight"]
    gap = float(other["model"]["0.weight"][0, 0].double() - now["model"]["0.weight"][0, 0].double())
    assert (weight.different, weight.elements, weight.largest) == (1, 24, gap)
    assert by_name["optimizer.state.0.exp_avg"].different == 8
    assert found.only_replica == ("rng.extra",)
    record(tmp_path, found)
    told = last(tmp_path)
    assert told is not None
    assert told["identical"] is False
    size = float(now["model"]["0.weight"].double().abs().max())
    assert weight.relative == gap / size
    assert {each.name for each in found.beyond(gap / size)} == by_name.keys() - {"model.0.weight"}
    assert {each.name for each in found.beyond(gap / size * 0.999)} >= {"model.0.weight"}
    other["args"]["width"] = True
    assert [each.name for each in measure(5, now, other).beyond(1e9)] == ["args.width"]  # no number, no size
    negative = {"x": torch.tensor([-0.0])}
    assert not measure(1, negative, {"x": torch.tensor([0.0])}).identical


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (0, 0.0, True),  # SGD's dampening, as PyTorch writes it and as a description gives it
        (2**53 + 1, float(2**53), False),  # by value, not rounded to one another
        (float("nan"), float("nan"), True),
        (True, 1, False),
        (0, False, False),
        ((0.9, 1), (0.9, 1.0), True),
        ((0.9, 0.95), [0.9, 0.95], False),
        ("0", 0, False),
        (None, 0, False),
        ({"a": 1}, {"a": 1}, True),
    ],
)
def test_numbers_are_the_same_by_value_and_nothing_else_is(one: Any, other: Any, same: bool) -> None:
    for name in ("scheduler.x", "optimizer.param_groups.0.x"):
        assert same_value(name, one, other) == same_value(name, other, one) == same


def test_an_option_that_is_off_may_be_none() -> None:
    assert same_value("optimizer.param_groups.0.foreach", None, False)
    assert not same_value("optimizer.param_groups.0.foreach", None, True)
    assert not same_value("args.flag", None, False)
