"""A replica on the disk: whatever ends its process, it goes on from the last good state, bit by bit."""

import shutil
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")

from flowcheck_net.checkpoint import anchor, arithmetic  # noqa: E402
from flowcheck_net.checkpoint.assemble import Assembly  # noqa: E402
from flowcheck_net.checkpoint.follow_store import Identity, Opened, Store, newest_full  # noqa: E402
from flowcheck_net.checkpoint.gradient import Average, StepGradient  # noqa: E402
from flowcheck_net.checkpoint.guarded import Guards  # noqa: E402
from flowcheck_net.checkpoint.optimizer import Replay  # noqa: E402
from flowcheck_net.checkpoint.training import Training  # noqa: E402
from flowcheck_net.errors import OutputError  # noqa: E402
from tests.oracle.test_replay_vs_trainer import check_equal  # noqa: E402
from tests.unit.test_checkpoint_refusals import LAYOUT, SPEC, begun, gradient  # noqa: E402

TRAINING = Training(LAYOUT, Average(), SPEC)
FIRST = 3
"""Step that iteration 0 completes; the anchor is of step 4."""


class Given(Assembly):
    """The gradient of whatever step is asked for."""

    def assemble(self, out: Path, iteration: int, step: int, *, first: bool = False) -> StepGradient:
        assert (out / f"iteration-{iteration:06d}").is_dir()
        assert not first
        assert step == iteration + FIRST
        return gradient(step)


ASSEMBLY = Given(LAYOUT, Average())


@pytest.fixture
def first(tmp_path: Path) -> Path:
    path = tmp_path / "step-4.pt"
    anchor.write_anchor(path, anchor.snapshot(begun(tmp_path / "begun"), LAYOUT, SPEC))
    return path


def straight(tmp_path: Path, step: int) -> object:
    """The state that never left its process."""
    replay = Replay(SPEC, begun(Path(mkdtemp(dir=tmp_path))))
    while replay.step < step:
        replay.advance(gradient(replay.step + 1))
    return anchor.snapshot([replay.shards[0].state], LAYOUT, SPEC)


def check(store: Store, tmp_path: Path, step: int) -> None:
    states = [shard.state for shard in store.replay.shards]
    check_equal(anchor.snapshot(states, LAYOUT, SPEC), straight(tmp_path, step))


def advance(store: Store, step: int) -> None:
    """As the follower does: the gradient is on the disk first."""
    while store.replay.step < step:
        upcoming = store.replay.step + 1
        (store.gradients / f"iteration-{upcoming - FIRST:06d}").mkdir()
        store.replay.advance(gradient(upcoming))


def died(store: Store) -> None:
    """SIGKILL: the kernel lets go of the lock, and all files stay."""
    store._lock.close()


def opened(store: Store, first: Path) -> Opened:
    return store.open(first, ASSEMBLY, FIRST, 2, None, Guards(untold=True))


def test_a_half_applied_step_is_made_again_from_the_last_good_state(
    first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "state", TRAINING)
    assert opened(store, first) == Opened(full=4, redone=0, torn=None)
    advance(store, 6)
    store.save()
    advance(store, 8)
    calls = []
    real = arithmetic.update

    def dies(*words: object) -> None:
        calls.append(words)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(*words)  # type: ignore[arg-type]

    monkeypatch.setattr(arithmetic, "update", dies)
    with pytest.raises(KeyboardInterrupt):
        advance(store, 9)
    assert store.save() == 6  # and writes nothing
    died(store)
    monkeypatch.undo()
    with Store(tmp_path / "state", TRAINING) as again:
        assert opened(again, first) == Opened(full=6, redone=3, torn=9)
        check(again, tmp_path, 9)


def test_a_death_between_steps_applies_none_twice(first: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "state", TRAINING)
    opened(store, first)
    advance(store, 7)
    died(store)
    for _ in range(2):
        with Store(tmp_path / "state", TRAINING) as again:
            assert opened(again, first) == Opened(full=4, redone=3, torn=None)
            check(again, tmp_path, 7)


def test_the_state_before_serves_where_the_newest_cannot_be_read(first: Path, tmp_path: Path) -> None:
    with Store(tmp_path / "state", TRAINING) as store:
        opened(store, first)
        for step in (6, 8, 10):
            advance(store, step)
            store.save()
            store.prune(FIRST)
        advance(store, 11)
    newest = max((tmp_path / "state").glob("step-*.pt"))
    newest.write_bytes(newest.read_bytes()[:200])
    assert len(list((tmp_path / "state" / "gradients").iterdir())) == 3  # of steps 9 to 11
    with Store(tmp_path / "state", TRAINING) as again:
        assert opened(again, first) == Opened(full=8, redone=3, torn=None)
        check(again, tmp_path, 11)


def test_what_is_taken_back_is_not_gone_on_with(first: Path, tmp_path: Path) -> None:
    with Store(tmp_path / "state", TRAINING) as store:
        opened(store, first)
        advance(store, 6)
        store.save()
        advance(store, 9)
        store.withdraw(6, FIRST)
        assert store.save() == 4
        (tmp_path / "state" / "step-old.pt").touch()  # somebody else's
    with Store(tmp_path / "state", TRAINING) as again:
        assert opened(again, first) == Opened(full=4, redone=1, torn=None)
        check(again, tmp_path, 5)


@pytest.mark.parametrize("calls", range(4))
def test_a_kill_while_steps_are_taken_back_leaves_none_of_them(
    first: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calls: int
) -> None:
    """Full states of steps 8 and 4, gradients of 5 to 9: killed at each removal but the last of all."""
    with Store(tmp_path / "state", TRAINING) as store:
        opened(store, first)
        advance(store, 8)
        store.save()
        advance(store, 9)
        left = [calls]

        def killed(remove: Callable[[Path], None]) -> Callable[[Path], None]:
            def call(path: Path) -> None:
                left[0] -= 1
                if left[0] < 0:
                    raise KeyboardInterrupt
                remove(path)

            return call

        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", killed(Path.unlink))
            patch.setattr(shutil, "rmtree", killed(shutil.rmtree))
            with pytest.raises(KeyboardInterrupt):
                store.withdraw(6, FIRST)
    found = newest_full(tmp_path / "state")
    assert found is not None
    assert found["step"] == 4
    with Store(tmp_path / "state", TRAINING) as again:
        assert opened(again, first) == Opened(full=4, redone=1, torn=None)
        check(again, tmp_path, 5)
    assert not (tmp_path / "state" / "withdrawn.json").exists()


def test_one_process_at_a_time_and_only_for_the_same_job(first: Path, tmp_path: Path) -> None:
    one = Identity("plan", LAYOUT.digest, SPEC.digest, FIRST, {"dp0": 0})
    with Store(tmp_path / "state", TRAINING) as store:
        opened(store, first)
        store.claim(one)
        store.claim(one)
        with pytest.raises(OutputError, match="another process"):
            Store(tmp_path / "state", TRAINING)
        other = Identity("plan", LAYOUT.digest, SPEC.digest, FIRST, {"dp0": 1})
        with pytest.raises(OutputError, match="lives was"):
            store.claim(other)
