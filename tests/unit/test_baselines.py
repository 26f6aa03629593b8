"""Arithmetic of the comparison, by hand from written-out timelines; and the judge of a restored state."""

import socket
from pathlib import Path

import pytest

from flowcheck_net.checkpoint.baselines import arithmetic
from flowcheck_net.checkpoint.baselines.kills import judge
from flowcheck_net.checkpoint.baselines.ledger import Ledger, measured, read_events, stretch_of
from flowcheck_net.checkpoint.baselines.network import received
from flowcheck_net.checkpoint.baselines.run import order_of
from flowcheck_net.checkpoint.baselines.words import (
    MEASURED,
    Begun,
    Channel,
    Durable,
    Event,
    Failure,
    Method,
    Missed,
    Moved,
    Setup,
    Spent,
    StepDone,
    Stretch,
)

STEPS = (StepDone(4, 10.0, 11.0), StepDone(5, 11.0, 12.0), StepDone(6, 12.0, 14.0))


def timeline(durable: list[Durable], method: Method = Method.SYNC, number: int = 0) -> Stretch:
    return stretch_of(method, number, [*STEPS, *durable])


def test_recovery_point_of_a_timeline_by_hand() -> None:
    # seconds    made  safe  steps behind      age of the safe state          integral of the age
    # 10   - 11     3     3     0              0   to 1                       0.5
    # 11   - 11.5   4     3     1 x 0.5        1   to 1.5                     (2.25 - 1) / 2 = 0.625
    # 11.5 - 12     4     4     0              0.5 to 1 (step 4 ended at 11)  (1 - 0.25) / 2 = 0.375
    # 12   - 14     5     4     1 x 2          1   to 3                       (9 - 1) / 2    = 4
    found = arithmetic.recovery(timeline([Durable(3, 9.0), Durable(4, 11.5)]))
    assert found == arithmetic.Recovery(2.5 / 4, 1, 5.5 / 4, 3.0)


def test_where_nothing_becomes_restorable_the_begin_of_the_stretch_is() -> None:
    # behind: 0 x 1 + 1 x 1 + 2 x 2 = 5; age: 0 to 4, (16 - 0) / 2 = 8
    assert arithmetic.recovery(timeline([])) == arithmetic.Recovery(5 / 4, 2, 8 / 4, 4.0)


def test_what_becomes_restorable_late_or_out_of_order_does_not_count_before() -> None:
    # step 6 only after the end; step 4 after step 5 takes nothing back. Safe: 3 until 12.5, then 5 (ended at 12)
    # behind: 0 + 1 x 1 + 2 x 0.5 + 0 = 2; age: 0 to 2.5 is 3.125, 0.5 to 2 is (4 - 0.25) / 2 = 1.875
    found = arithmetic.recovery(timeline([Durable(6, 14.5), Durable(5, 12.5), Durable(4, 13.0)]))
    assert found == arithmetic.Recovery(2 / 4, 2, 5 / 4, 2.5)


def test_a_state_on_storage_before_its_step_has_ended_has_no_negative_age() -> None:
    # step 4 is safe at 10.5, half a second before the trainer has made it:
    # 10 - 10.5 age 0 to 0.5: 0.125; 10.5 - 11 age 0 to 0.5: 0.125; then 0 to 3: 4.5. Behind: 12 - 14 by 1
    found = arithmetic.recovery(timeline([Durable(4, 10.5)]))
    assert found == arithmetic.Recovery(2 / 4, 1, 4.75 / 4, 3.0)


def test_stretches_are_weighted_by_their_length() -> None:
    short = stretch_of(Method.SYNC, 1, [StepDone(8, 20.0, 21.0)])  # 1 s, behind 0, age 0 to 1: mean 0.5
    found = arithmetic.joined_recovery([timeline([]), short])
    assert found == arithmetic.Recovery((5 + 0) / 5, 2, (8 + 0.5) / 5, 4.0)


def of_length(method: Method, number: int, *seconds: float) -> Stretch:
    ends = [sum(seconds[: n + 1]) for n in range(len(seconds))]
    return stretch_of(method, number, [StepDone(n + 1, ends[n] - took, ends[n]) for n, took in enumerate(seconds)])


def test_overhead_is_that_of_the_mean_and_beside_the_noise_of_two_controls() -> None:
    rounds = [
        of_length(Method.CONTROL, 0, 1.0, 1.0),
        of_length(Method.SYNC, 0, 1.0, 2.25),
        of_length(Method.ASYNC, 0, 1.0, 1.5),
        of_length(Method.CONTROL, 0, 1.5, 1.5),  # controls 1 and 1.5: base 1.25, noise 0.5 / 1.25 = 0.4
        of_length(Method.CONTROL, 1, 1.0, 1.0),
        of_length(Method.SYNC, 1, 1.0, 2.0),
        of_length(Method.ASYNC, 1, 1.0, 0.5),
        of_length(Method.CONTROL, 1, 1.0, 1.0),
    ]
    sync = arithmetic.overhead(rounds, Method.SYNC)
    assert sync.rounds == pytest.approx((1.625 / 1.25 - 1, 0.5))  # 0.3, 0.5
    assert sync.median == pytest.approx(0.4)
    assert sync.noise == pytest.approx(0.4)
    quiet = arithmetic.Overhead((0.3, 0.5), 0.4, 0.1)
    assert not quiet.below_noise
    assert arithmetic.Overhead((0.05, 0.07), 0.06, 0.1).below_noise
    assert arithmetic.Overhead((-0.01, 0.4), 0.2, 0.1).below_noise
    assert arithmetic.overhead(rounds, Method.ASYNC).below_noise  # 0 and -0.25


def test_step_times_by_hand() -> None:
    # 20 steps of 1 to 20 s: nearest rank of 95 % is the 19th
    found = arithmetic.step_time([of_length(Method.SYNC, 0, *(float(n) for n in range(20, 0, -1)))])
    assert (found.steps, found.median, found.p95, found.mean) == pytest.approx((20, 10.5, 19.0, 10.5))


def failure(killed: int, restored: int | None, seconds: float | None) -> Failure:
    return Failure(Method.SYNC, killed, 0, restored, seconds, 0.5, "")


def test_lost_work_by_hand() -> None:
    found = arithmetic.lost_work([failure(17, 10, 3.0), failure(12, 11, 1.0), failure(9, None, None)])
    assert found == arithmetic.LostWork(2, 4.0, 7, 2.0, 0.5)
    assert arithmetic.lost_work([failure(9, None, None)]) is None


def test_a_ledger_keeps_what_was_whole_and_drops_the_preparation(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "events" / "rank-0.jsonl")
    told: list[Event] = [Moved(Channel.STORAGE, 7), Durable(3, 9.0), Begun(10.0), Spent("tap", 0.5), *STEPS]
    for each in [*told, Missed(5), Moved(Channel.STORAGE, 5), Moved(Channel.STORAGE, 6), Spent("tap", 0.25)]:
        ledger.note(each)
    ledger.close()
    path = tmp_path / "events" / "rank-0.jsonl"
    with path.open("a") as file:
        file.write('{"event": "Durable", "step": 6, ')  # killed while it wrote
    made = stretch_of(Method.HYBRID, 2, measured(read_events(path)))
    assert made.moved == {Channel.STORAGE: 11}
    assert made.spent == {"tap": 0.75}
    assert (made.start_step, made.begun, made.steps, made.missed) == (3, 10.0, STEPS, 1)
    assert made.durable == (Durable(3, 9.0),)


def judged(tmp_path: Path, told: dict[str, object]) -> Failure:
    ledger = Ledger(tmp_path / "events" / "rank-0.jsonl")
    for each in (
        StepDone(3, 1.0, 1.0, "aa"),
        StepDone(4, 1.0, 2.0, "bb"),
        Durable(4, 2.5),
        StepDone(5, 2.0, 3.0, "cc"),
    ):
        ledger.note(each)
    ledger.close()
    return judge(Method.SYNC, tmp_path, 3.5, {"seconds": 0.1, **told})


def test_a_restored_state_that_the_trainer_recorded_is_right(tmp_path: Path) -> None:
    found = judged(tmp_path, {"step": 4, "digest": "bb"})
    assert found == Failure(Method.SYNC, 5, 4, 4, 1.5, 0.1, "")
    assert found.lost_steps == 1


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ({"step": 4, "digest": "cc"}, "is not the trainer's"),
        ({"step": 6, "digest": "cc"}, "has not recorded"),
        ({"step": 3, "digest": "aa"}, "4 had been told to be on storage"),
        ({"error": "OSError: gone"}, "OSError: gone"),
    ],
)
def test_what_is_wrong_with_a_restored_state_is_told(tmp_path: Path, told: dict[str, object], wrong: str) -> None:
    assert wrong in judged(tmp_path, told).wrong


def test_every_round_has_each_method_once_between_two_controls() -> None:
    order = order_of(Setup(2, 16, 1, 4, 2, 2, 5, 0, 1, Path()))
    for number in range(5):
        methods = [method for method, at in order if at == number]
        assert methods[0] is methods[-1] is Method.CONTROL
        assert sorted(methods[1:-1]) == sorted(MEASURED)
    assert {[method for method, at in order if at == number][1] for number in range(4)} == set(MEASURED)


@pytest.mark.enable_socket
def test_bytes_received_are_those_that_were_sent() -> None:
    before = received()
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        other, _ = server.accept()
        with other:
            client.sendall(bytes(12_345))
            left = 12_345
            while left:
                left -= len(other.recv(left))
            assert received() - before == 12_345
