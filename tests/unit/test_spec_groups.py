"""Which ranks reduce together, against a second way of counting."""

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flowcheck_net.model.groups import data_parallel_groups
from flowcheck_net.spec.groups import AXES, gradient_groups
from flowcheck_net.spec.job import JobSpec

ORDERS = ["-".join(order) for order in permutations(AXES)]


def job(order: str, tp: int, cp: int, pp: int, dp: int) -> JobSpec:
    count = tp * cp * pp * dp
    return JobSpec.model_validate(
        {
            "version": 1,
            "name": "j",
            "collective": {"algorithm": "ring"},
            "nccl": {"version": "2.19.3", "protocol": "LL", "channels": 1, "threads": 512},
            "mtu": 1024,
            "layout": {"order": order, "tp": tp, "cp": cp, "pp": pp},
            "ranks": tuple({"rank": r, "host": f"h{r}", "nic": "n"} for r in range(count)),
            "buckets": ({"name": "b", "elements": 1, "dtype": "fp32"},),
            "iteration_time": 1.0,
        }
    )


def by_coordinates(spec: JobSpec, dp: int) -> list[tuple[int, ...]]:
    """Give each rank its coordinates by division, then put ranks of equal fixed coordinates together."""
    layout = spec.layout
    assert layout is not None
    size = {"tp": layout.tp, "cp": layout.cp, "ep": 1, "pp": layout.pp, "dp": dp}
    groups: dict[tuple[int, ...], list[int]] = {}
    for rank in range(len(spec.ranks)):
        rest, at = rank, {}
        for axis in layout.order.split("-"):
            rest, at[axis] = divmod(rest, size[axis])
        fixed = tuple(at[axis] for axis in reversed(layout.order.split("-")) if axis in ("tp", "ep", "pp"))
        groups.setdefault(fixed, []).append(rank)
    return [tuple(groups[key]) for key in sorted(groups)]


@settings(max_examples=100)
@given(st.sampled_from(ORDERS), *[st.integers(1, 4)] * 4)
def test_groups_are_the_ranks_with_equal_fixed_coordinates(order, tp, cp, pp, dp):
    spec = job(order, tp, cp, pp, dp)
    assert list(gradient_groups(spec)) == by_coordinates(spec, dp)


@settings(max_examples=50)
@given(st.sampled_from(ORDERS), *[st.integers(1, 3)] * 4)
def test_the_model_names_the_same_groups(order, tp, cp, pp, dp):
    spec = job(order, tp, cp, pp, dp)
    assert tuple(data_parallel_groups(spec).values()) == gradient_groups(spec)


@pytest.mark.parametrize(
    ("order", "groups"),
    [
        # Megatron's default: tensor-parallel neighbours are adjacent ranks
        ("tp-cp-ep-dp-pp", ((0, 2), (1, 3), (4, 6), (5, 7))),
        # the older tp-pp-dp mapping: pipeline stages come before data-parallel copies
        ("tp-cp-ep-pp-dp", ((0, 4), (1, 5), (2, 6), (3, 7))),
    ],
)
def test_two_by_two_by_two(order, groups):
    assert gradient_groups(job(order, 2, 1, 2, 2)) == groups


def test_no_groups_where_the_layout_does_not_fit():
    spec = job("tp-cp-ep-dp-pp", 2, 1, 1, 2)
    assert gradient_groups(spec.model_copy(update={"ranks": spec.ranks[:3]})) == ()
