"""What is missing, as a list to buy: each list was tried, and here it is bought and tried again."""

import re
from collections.abc import Sequence

import pytest

from flowcheck_net.errors import Infeasible
from flowcheck_net.plan.make import make_plan
from flowcheck_net.spec.load import Specs
from tests.oracle.plan_specs import leaf_fabric, policy, ring_job, to_specs

Captures = list[tuple[str, str, str]]
_ITEM = re.compile(r"(one|\d+) more (\d+G) capture ports? on (?:each of )?([^;]+?)(?=, (?:one|\d+) more|;|$)")


def specs(
    hosts: dict[str, str], groups: Sequence[Sequence[str]], captures: Captures, copies: int, headroom: float
) -> Specs:
    topology = leaf_fabric(hosts, captures, spines=1)
    return to_specs(topology, ring_job(groups), policy(copies=copies, headroom=headroom))


def bought(hint: str) -> Captures:
    """The capture ports that the list names."""
    return [
        ("new", switch, speed)
        for count, speed, switches in _ITEM.findall(hint.split("; or ")[0])
        for switch in switches.split(", ")
        for _ in range(1 if count == "one" else int(count))
    ]


@pytest.mark.parametrize(
    ("hosts", "groups", "captures", "copies", "wanted"),
    [
        (4 * ["leaf1"], [[0, 1, 2, 3]], [("n", "leaf1", "400G")], 1, "one more 400G capture port on leaf1"),
        (4 * ["leaf1"], [[0, 1, 2, 3]], [("n", "leaf1", "400G")], 2, "2 more 400G capture ports on leaf1"),
        (4 * ["leaf1"], [[0, 1, 2, 3]], [("n", "leaf1", "100G")], 1, "one more 800G capture port on leaf1"),
        (
            4 * ["leaf1"] + 2 * ["leaf2"],
            [[0, 1, 2, 3], [4, 5]],
            [("n", "leaf1", "400G"), ("n", "leaf2", "400G")],
            2,
            "2 more 400G capture ports on leaf1, one more 400G capture port on leaf2",
        ),
    ],
)
def test_the_list_is_short_and_does(
    hosts: list[str], groups: list[list[int]], captures: Captures, copies: int, wanted: str
) -> None:
    placed = {f"h{n}": leaf for n, leaf in enumerate(hosts)}
    named = [[f"h{n}" for n in group] for group in groups]
    with pytest.raises(Infeasible) as caught:
        make_plan(specs(placed, named, captures, copies, 0.0))
    assert caught.value.hint.split("; or ")[0] == wanted
    new = bought(caught.value.hint)
    assert make_plan(specs(placed, named, captures + new, copies, 0.0)).cost.unmet == 0
    for left_out in range(len(new)):
        fewer = [*new[:left_out], *new[left_out + 1 :]]
        with pytest.raises(Infeasible):
            make_plan(specs(placed, named, captures + fewer, copies, 0.0))


def test_headroom_is_reckoned_with() -> None:
    """A 400G port less a quarter holds no 400G source: the list goes up to 800G ports, one for each source."""
    placed = {f"h{n}": "leaf1" for n in range(4)}
    with pytest.raises(Infeasible) as caught:
        make_plan(specs(placed, [list(placed)], [("n", "leaf1", "400G")], 1, 0.25))
    new = bought(caught.value.hint)
    assert {speed for _, _, speed in new} == {"800G"}
    make_plan(specs(placed, [list(placed)], [("n", "leaf1", "400G"), *new], 1, 0.25))
