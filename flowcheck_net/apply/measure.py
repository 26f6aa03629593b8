"""Read the packet counters of all switches around a window of time."""

import time
from collections.abc import Callable

from flowcheck_net.apply.effect import PointEffect, Window, judge_counters
from flowcheck_net.apply.reach import Reach
from flowcheck_net.errors import DriverError
from flowcheck_net.ids import SwitchName
from flowcheck_net.intent import Counters, SwitchAddress
from flowcheck_net.plan.plan import Plan


def count_effect(
    plan: Plan, reach: Reach, seconds: float, sleep: Callable[[float], None] = time.sleep
) -> tuple[PointEffect, ...]:
    """What passes the observation points of a plan within ``seconds``, and what is copied of it.

    The readings go in four rounds over all switches, so that counts of different switches can be compared too.
    """
    rounds = [_round(plan, reach), _round(plan, reach)]
    sleep(seconds)
    rounds += [_round(plan, reach), _round(plan, reach)]
    windows: dict[SwitchName, Window | str] = {}
    for address in plan.switches:
        readings = [each[address.name] for each in rounds]
        failures = [r.message for r in readings if isinstance(r, DriverError)]
        good = [r for r in readings if not isinstance(r, DriverError)]
        windows[address.name] = (
            failures[0] if failures else Window((good[0][0], good[1][0], good[2][0], good[3][0]), one_copy=good[0][1])
        )
    return judge_counters(plan, windows)


def _round(plan: Plan, reach: Reach) -> dict[SwitchName, tuple[Counters, bool] | DriverError]:
    def work(address: SwitchAddress) -> tuple[Counters, bool]:
        reach.stage(address.name, "counting")
        with reach.connect(address) as driver:
            return driver.counters(), driver.capabilities().one_copy_per_output

    return dict(zip((a.name for a in plan.switches), reach.each(work, plan.switches), strict=True))
