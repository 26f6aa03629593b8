"""Lag: cases reckoned by hand, and a queue simulated step by step as the oracle."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flowcheck_net.checkpoint.lag import Act, Rates, Standing, Why, advise, forecast, lag

# a step a second; half a second to apply; 20 s to publish; room for 100 steps
RATES = Rates(1.0, 0.5, 20.0, 1_000, 100_000)


@pytest.mark.parametrize(
    ("told", "replica", "storage", "risk"),
    [
        (Standing(100, 100, 100, 50), (0, Why.NONE), (0, Why.NONE), 0),
        (Standing(107, 104, 100, 50), (3, Why.REPLAYING), (4, Why.INTERVAL), 7),
        (Standing(170, 160, 100, 50), (10, Why.REPLAYING), (60, Why.WRITING), 70),
        (Standing(170, 120, 100, 50, stopped="step 121"), (50, Why.STOPPED), (20, Why.INTERVAL), 70),
        (Standing(170, 160, 100, 50, refused="rng"), (10, Why.REPLAYING), (60, Why.REFUSED), 70),
        (Standing(None, 160, None, 50), (None, Why.UNKNOWN_TRAINING), (None, Why.NOTHING_STORED), None),
        (Standing(5, 5, None, 50, refused="x"), (0, Why.NONE), (None, Why.REFUSED), 5),
    ],
)
def test_every_difference_has_its_reason(
    told: Standing, replica: tuple[int | None, Why], storage: tuple[int | None, Why], risk: int | None
) -> None:
    found = lag(told)
    assert (found.replica.steps, found.replica.why) == replica
    assert (found.storage.steps, found.storage.why) == storage
    assert found.at_risk == risk


def test_a_bounded_queue_by_hand() -> None:
    found = forecast(RATES, 50)
    # 0.5 s of applying and 20/50 s of publishing for each second of training
    assert found.load == pytest.approx(0.9)
    assert found.growth == 0
    assert found.peak == 21  # 20 steps come while a checkpoint is written, and the one in hand
    assert found.full_in is None
    # 50 steps of 1 s, 21 of 0.5 s that wait, 20 s until it is stored
    assert found.recovery == pytest.approx(50 + 10.5 + 20)


def test_a_queue_that_grows_by_hand() -> None:
    found = forecast(RATES, 25)
    # 0.5 + 20/25 = 1.3 s of work a step: 1 step comes a second, 1/1.3 goes
    assert found.load == pytest.approx(1.3)
    assert found.growth == pytest.approx(1 - 1 / 1.3)
    assert found.full_in == pytest.approx((100 - 21) / (1 - 1 / 1.3))
    assert found.recovery is None


def test_no_room_for_a_single_stall() -> None:
    found = forecast(replace(RATES, queue_bytes=10_000), 50, waiting=4)
    assert found.full_in == pytest.approx(6.0)  # ten steps of room, four wait, one comes a second
    assert found.recovery is None
    assert forecast(replace(RATES, queue_bytes=4_000), 50, waiting=4).full_in == 0


def test_publishing_less_often_comes_before_more_nodes() -> None:
    assert advise(RATES, 50).act is Act.KEEP
    found = advise(RATES, 25)
    assert found.act is Act.LOWER
    assert found.forecast.interval == 50  # 20 s in (0.9 - 0.5) s a step
    assert "full in 342 s" in found.reason
    # with a goal of 60 s, 50 steps and their storage are too long: two nodes at 25
    tight = advise(RATES, 25, goal=60)
    assert (tight.act, tight.forecast.nodes, tight.forecast.interval) == (Act.NODES, 2, 25)
    assert tight.forecast.recovery == pytest.approx(25 + 11 * 0.25 + 10)
    slow = advise(replace(RATES, apply_seconds=1.7), 50)
    assert (slow.act, slow.forecast.nodes) == (Act.NODES, 3)  # (1.7 + 0.4) / 2 is over 0.9, / 3 is 0.7


def test_a_goal_shorter_than_the_interval_is_told() -> None:
    assert advise(RATES, 50, goal=49).act is Act.GOAL


def test_a_writer_beside_the_replay_must_keep_up_too() -> None:
    beside = replace(RATES, overlap=True)
    assert forecast(beside, 50).load == pytest.approx(0.5)
    assert forecast(beside, 10).load == pytest.approx(2.0)
    found = advise(beside, 10)
    assert (found.act, found.forecast.interval) == (Act.LOWER, 23)  # 20 / 0.9 = 22.2


def simulated(rates: Rates, interval: int, steps: int) -> int:
    """The most steps that wait or are in hand, one event after another."""
    free, done, most = 0.0, [], 0
    for number in range(1, steps + 1):
        come = number * rates.step_seconds
        free = max(free, come) + rates.apply_seconds
        done.append(free)
        if number % interval == 0 and not rates.overlap:
            free += rates.publish_seconds
        most = max(most, sum(1 for end in done[-2000:] if end > come))
    return most


TIMES = st.floats(0.01, 5.0)


@given(TIMES, TIMES, st.floats(0.0, 40.0), st.integers(1, 60))
def test_the_queue_stays_below_the_peak_of_the_forecast(
    step: float, apply: float, publish: float, interval: int
) -> None:
    rates = Rates(step, apply, publish, 1, 10**9)
    told = forecast(rates, interval)
    assume(abs(told.load - 1) > 0.02)
    steps = 12 * interval + 100
    found = simulated(rates, interval, steps)
    if told.load < 1:
        # the applying itself fills the queue a little where a step takes nearly as long as the trainer's
        assert found <= told.peak + 1
    else:
        assert told.growth > 0
        assert told.full_in is not None
        lost = steps - steps / told.load
        assert found >= lost - told.peak - 1


@given(TIMES, TIMES, st.floats(0.0, 40.0), st.integers(1, 60), st.floats(1, 200) | st.none(), st.booleans())
def test_advice_that_is_taken_leaves_nothing_to_advise(
    step: float, apply: float, publish: float, interval: int, goal: float | None, overlap: bool
) -> None:
    rates = Rates(step, apply, publish, 1, 10**9, overlap)
    found = advise(rates, interval, goal=goal)
    if found.act is Act.GOAL:
        assert goal is not None
        assert goal < interval * step * 1.01 + 0.1
        return
    then = advise(rates, found.forecast.interval, nodes=found.forecast.nodes, goal=goal)
    assert then.act is Act.KEEP
    if found.act is Act.LOWER:
        assert advise(rates, found.forecast.interval - 1).act is not Act.KEEP
    if found.act is Act.NODES:
        assert advise(rates, interval, nodes=found.forecast.nodes - 1, goal=goal).act is not Act.KEEP
