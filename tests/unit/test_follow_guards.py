"""What no packet tells: a follower applies no step without a word of the trainer, and keeps nothing disproved."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")

from flowcheck_net.checkpoint import anchor, follow  # noqa: E402
from flowcheck_net.checkpoint.findings import StepRefused, Stop  # noqa: E402
from flowcheck_net.checkpoint.follow import Follower, Lag, Settings  # noqa: E402
from flowcheck_net.checkpoint.follow_store import Store  # noqa: E402
from flowcheck_net.checkpoint.guarded import Guards  # noqa: E402
from flowcheck_net.checkpoint.hyper import StepValues  # noqa: E402
from flowcheck_net.checkpoint.lag import Act  # noqa: E402
from tests.unit.test_checkpoint_refusals import LAYOUT, SPEC, begun  # noqa: E402
from tests.unit.test_follow_store import ASSEMBLY, FIRST, TRAINING, Given, straight  # noqa: E402

ANCHOR, LAST = 4, 8
RATES = tuple(group.learning_rate for group in SPEC.groups)


def words(*steps: int) -> dict[int, StepValues]:
    return {step: StepValues(step, RATES) for step in steps}


class Boards:
    """All bytes of all iterations up to that of ``LAST`` are there."""

    gone: Mapping[int, str] = {}
    lives: Mapping[str, int] = {}
    newest = LAST - FIRST

    def __init__(self, out: Path) -> None:
        self._out = out

    def open(self, *_: object) -> bool:
        return True

    def collect(self, _: int) -> int:
        return 0

    @contextmanager
    def collecting(self, _: int) -> Iterator[None]:
        yield

    def whole(self, number: int) -> bool:
        if number > self.newest:
            return False
        (self._out / f"iteration-{number:06d}.partial").mkdir(exist_ok=True)
        return True


class Judged:
    """Everything is proven."""

    final = False
    iterations = LAST - FIRST + 1

    def moment(self, _: int) -> None:
        return None

    def doubts(self, *_: object, **__: object) -> tuple[str, ...]:
        return ()


class Following:
    """A follower in ``state``, as the command makes it."""

    def __init__(self, tmp_path: Path, first: Path, regular: Mapping[int, Any], patience: float = 1e9) -> None:
        self.store = Store(tmp_path / "state", TRAINING)
        guards = Guards(regular.get)
        self.store.open(first, ASSEMBLY, FIRST, 2, words(*range(ANCHOR, LAST + 1)), guards)
        self.judged = Judged()
        prover: Any = SimpleNamespace(look=lambda: self.judged)
        boards: Any = Boards(self.store.gradients)
        self.boards = boards
        settings = Settings(FIRST, 1, False, 64, ANCHOR, patience=patience)
        self.follower = Follower(boards, prover, self.store, settings, "plan")

    def turn(self, *told: int) -> tuple[list[int], follow.FollowStatus]:
        self.follower.values = words(*told)
        done, status = self.follower.turn()
        return [each.step for each in done], status

    def end(self) -> None:
        self.store._lock.close()


Begin = Callable[..., Following]


@pytest.fixture
def begin(first: Path, tmp_path: Path) -> Iterator[Begin]:
    made: list[Following] = []

    def following(regular: Mapping[int, Any], patience: float = 1e9) -> Following:
        made.append(Following(tmp_path, first, regular, patience))
        return made[-1]

    yield following
    for each in made:
        each.end()


@pytest.fixture
def first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(follow, "Assembly", lambda *_, **__: Given(LAYOUT, TRAINING.average))
    monkeypatch.setattr(Follower, "_write_proof", lambda *_: None)
    path = tmp_path / f"step-{ANCHOR}.pt"
    anchor.write_anchor(path, anchor.snapshot(begun(tmp_path / "begun"), LAYOUT, SPEC))
    return path


def saved(tmp_path: Path) -> list[int]:
    return sorted(int(path.stem.removeprefix("step-")) for path in (tmp_path / "state").glob("step-*.pt"))


def test_a_step_waits_for_the_word_of_the_side_channel(begin: Begin) -> None:
    made = begin({})
    assert made.turn() == ([], made.turn()[1])
    done, status = made.turn(5, 6)
    assert (done, status.lag, status.replica_step) == ([5, 6], Lag.SIDE, 6)
    assert "step 7 is proven and waits for the word" in status.reason
    done, status = made.turn(5, 6, 8)  # a later word alone is none, and another rank may be slower
    assert (done, status.lag) == ([], Lag.SIDE)
    assert made.turn(5, 6, 7, 8)[0] == [7, 8]


@pytest.mark.parametrize("how", ["later", "ended"])
def test_a_word_that_never_comes_is_refused_by_name(begin: Begin, how: str) -> None:
    made = begin({}, patience=0)
    made.turn(5)
    assert made.turn(5)[1].lag is Lag.SIDE
    made.judged.final = how == "ended"
    with pytest.raises(StepRefused, match="did not tell the learning rates of step 6") as refused:
        made.turn(5, *([8] if how == "later" else []))
    assert refused.value.request.stop is Stop.VALUE_MISSING
    assert made.store.replay.step == 5


def test_a_word_without_learning_rates_is_none(begin: Begin) -> None:
    made = begin({})
    made.follower.values = {5: StepValues(5, loss_scale=None, skipped=False)}
    assert made.follower.turn()[0] == []


def test_a_tried_replica_stays_tried_in_the_next_process(begin: Begin, tmp_path: Path) -> None:
    truth: Any = straight(tmp_path, 6)
    made = begin({6: truth})
    assert made.turn(5)[1].tried is None
    assert made.turn(5, 6, 7)[1].tried == 6
    made.end()
    again = begin({})
    assert again.turn(*range(5, 8))[1].tried == 6


def test_nothing_of_a_disproved_replica_is_kept(begin: Begin, tmp_path: Path) -> None:
    truth: Any = straight(tmp_path, 6)
    truth["model"]["c"] = truth["model"]["c"].clone()
    truth["model"]["c"][-1] += 1e-6
    made = begin({6: truth})
    made.turn(5)
    assert saved(tmp_path) == [4, 5]
    with pytest.raises(
        StepRefused, match=r"step 6 is not the trainer's regular checkpoint: model\.c differs"
    ) as refused:
        made.turn(5, 6, 7)
    assert refused.value.request.stop is Stop.DISPROVED
    made.follower.save()
    assert saved(tmp_path) == [4]
    assert [path for path in made.store.gradients.iterdir() if not path.name.endswith(".partial")] == []


def test_a_regular_checkpoint_that_lacks_a_tensor_tries_nothing(begin: Begin, tmp_path: Path) -> None:
    truth: Any = straight(tmp_path, 5)
    del truth["optimizer"]["state"][1]["exp_avg"]
    with pytest.raises(StepRefused, match=r"optimizer\.state\.1\.exp_avg differs"):
        begin({5: truth}).turn(5)


def test_a_slow_disk_makes_full_states_rarer(begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: 20.5 seconds for 3 steps, 6.83 a step; 20 / (0.9 * 6.83 - 0.5) = 3.5, so every 4 steps."""
    clock = [0.0]
    monkeypatch.setattr(follow, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    made = begin({})
    save, advance = made.store.save, made.store.advance

    def slow(real: Callable[..., Any], seconds: float) -> Callable[..., Any]:
        def done(*given: Any) -> Any:
            clock[0] += seconds
            return real(*given)

        return done

    monkeypatch.setattr(made.store, "save", slow(save, 20.0))
    monkeypatch.setattr(made.store, "advance", slow(advance, 0.5))
    made.boards.newest = 5 - FIRST
    assert made.turn(5, 6, 7, 8)[0] == [5]
    made.boards.newest = 8 - FIRST
    done, status = made.turn(5, 6, 7, 8)
    assert (done, status.replica_step, status.full_step) == ([6, 7, 8], 8, 6)
    assert status.paced is not None
    assert (status.paced.interval, status.paced.act) == (4, Act.LOWER)
    told: Any = follow.status_words(status)["pace"]
    assert (told["save_every"], told["act"], told["load"]) == (4, "publish-less-often", 0.805)  # 0.5/6.83 + 20/6.83/4
    assert saved(tmp_path) == [5, 6]
