"""Plans of four hosts in a ring on one leaf: what the tests of limits and ways change one thing of."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from flowcheck_net.errors import Infeasible
from flowcheck_net.intent import Capabilities, Direction
from flowcheck_net.plan import candidates
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import Plan
from tests.oracle.plan_specs import Raw, leaf_fabric, policy, ring_job, to_specs

HOSTS = {"h1": "leaf1", "h2": "leaf1", "h3": "leaf1", "h4": "leaf1"}
TWO = {"h1": "leaf1", "h2": "leaf2"}
WIDE = Capabilities("fake", 4, 8, frozenset(Direction), filters=True, source_in_many_sessions=False)
NARROW = [("n", "leaf1", "400G"), ("n", "leaf1", "400G")]

Planner = Callable[..., Plan]


@pytest.fixture
def planner(monkeypatch: pytest.MonkeyPatch) -> Planner:
    """Plans four hosts in a ring on one leaf with one 800G capture port and one copy, if not told otherwise."""

    def run(topology: Raw | None = None, *, job: Raw | None = None, rules: Raw | None = None, **changes: Any) -> Plan:
        monkeypatch.setattr(candidates, "capabilities", lambda _: replace(WIDE, **changes))
        made = topology if topology is not None else leaf_fabric(HOSTS, [("n", "leaf1", "800G")])
        return make_plan(to_specs(made, job or ring_job([list(HOSTS)]), rules or policy(copies=1)))

    return run


def points(plan: Plan) -> list[str]:
    return [point.id for point in plan.points]


def refusal(plan: Callable[[], Plan]) -> Infeasible:
    with pytest.raises(Infeasible) as caught:
        plan()
    return caught.value
