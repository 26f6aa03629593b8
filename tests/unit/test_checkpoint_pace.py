"""How often full states are written: by hand, and in a small simulation with a slow disk."""

from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from flowcheck_net.checkpoint.lag import Act
from flowcheck_net.checkpoint.pace import Pace, paced_text, paced_words


@dataclass
class World:
    """A trainer of a step a second, and a node: half a second to apply one, ``disk`` seconds to write a state."""

    pace: Pace | None
    asked: int
    disk: float
    apply: float = 0.5
    now: float = 0.0
    replica: int = 0
    saved: list[int] = field(default_factory=list)
    most: int = 0
    """Steps that waited at one time."""

    def run(self, until: float) -> "World":
        while self.now < until:
            trained = int(self.now)
            if self.pace is not None and trained:
                self.pace.seen(trained, self.now)
            if self.replica >= trained:
                self.now = float(trained + 1)
                continue
            self.most = max(self.most, trained - self.replica)
            self.now += self.apply
            self.replica += 1
            if self.pace is not None:
                self.pace.applied(self.apply)
            due = self.replica % self.asked == 0 if self.pace is None else self.pace.due(self.replica)
            if due:
                self.now += self.disk
                self.saved.append(self.replica)
                if self.pace is not None:
                    self.pace.saved(self.replica, self.disk, int(self.now) - self.replica)
        return self


def test_a_slow_disk_makes_the_interval_longer_before_the_queue_overflows() -> None:
    """By hand: 0.5 + 18/10 = 2.3 seconds of work a second; within 0.9 from 18 / (0.9 - 0.5) = 45 steps on, so 50."""
    fixed = World(None, 10, 18.0).run(3000)
    assert fixed.most > 1500  # 1 - 1/2.3 of all steps wait
    world = World(Pace(10, 64), 10, 18.0).run(3000)
    assert world.most <= 64
    assert world.pace is not None
    now = world.pace.now
    assert (now.interval, now.act, now.nodes) == (50, Act.LOWER, 1)
    assert now.forecast is not None
    assert now.forecast.load == pytest.approx(0.5 + 18 / 50, abs=0.01)
    steps = world.saved[2:]
    assert {b - a for a, b in pairwise(steps)} == {50}
    assert all(step % 10 == 0 for step in world.saved)
    assert 3000 - world.replica <= 64
    assert "every 50 steps" in paced_text(now)


def test_it_goes_back_when_the_disk_is_fast_again_and_does_not_swing() -> None:
    world = World(Pace(10, 64), 10, 20.0).run(2000)
    world.disk = 0.1
    world.run(6000)
    assert world.pace is not None
    assert (world.pace.now.interval, world.pace.now.act, world.pace.now.reason) == (10, Act.KEEP, "")
    assert "as asked for" in paced_text(world.pace.now)
    world.disk = 2.0  # 0.5 + 2/10 = 0.7: within 0.9 at the asked interval, so that nothing changes
    before = world.saved[-1]
    world.run(7000)
    assert {b - a for a, b in pairwise(world.saved) if a > before} == {10}


def test_between_easy_and_full_it_stays_where_it_is() -> None:
    """0.5 + 7/20 = 0.85 at half of 40 steps: within 0.9, but not easy; going back would soon be taken back."""
    pace = Pace(10, 64)
    pace.seen(1, 1.0)
    pace.seen(2, 2.0)
    pace.applied(0.5)
    assert pace.saved(10, 15.0, 0).interval == 40  # 15 / 0.4 = 37.5
    for step in range(50, 1000, 40):
        assert pace.saved(step, 7.0, 0).interval == 40


def test_it_goes_back_at_the_third_state_that_was_easy() -> None:
    """States that take no time halve the mean by and by: 15, 10.5, 7.35, 5.1, 3.6, 2.5, 1.8 seconds.

    Half of 40 steps is easy from 20 (0.7 - 0.5) = 4 seconds on: the fourth to the sixth of them.
    """
    pace = Pace(10, 64)
    pace.seen(1, 1.0)
    pace.seen(2, 2.0)
    pace.applied(0.5)
    assert pace.saved(10, 15.0, 0).interval == 40
    assert [pace.saved(step, 0.0, 0).interval for step in range(50, 290, 40)] == [40, 40, 40, 40, 40, 20]


def test_where_no_interval_helps_more_nodes_are_asked_for() -> None:
    """1.2 seconds a step for each second: two nodes have 0.6 + 1/10/2 = 0.65."""
    pace = Pace(10, 64)
    pace.seen(1, 1.0)
    pace.seen(3, 3.0)
    pace.applied(1.2)
    now = pace.saved(10, 1.0, 0)
    assert (now.act, now.nodes, now.interval) == (Act.NODES, 2, 10)
    assert "2 are needed" in paced_text(now)
    words = paced_words(now)
    assert (words["act"], words["nodes"], words["save_every"], words["load"]) == ("add-nodes", 2, 10, 1.3)
    assert words["recovery_seconds"] is None  # without bound


def test_the_interval_has_a_bound() -> None:
    """2,000 seconds a state would need 2,000 / 0.4 = 5,000 steps: 32 times 10 is the most."""
    pace = Pace(10, 10_000)
    pace.seen(1, 1.0)
    pace.seen(3, 3.0)
    pace.applied(0.5)
    now = pace.saved(10, 2000.0, 0)
    assert (now.act, now.interval) == (Act.NODES, 320)
    assert now.nodes > 1
    assert now.reason


def test_nothing_is_decided_before_all_is_measured() -> None:
    pace = Pace(4, 64)
    assert pace.saved(4, 1e6, 0).forecast is None
    assert pace.due(8)
    assert not pace.due(9)
    assert paced_words(pace.now)["load"] is None
