"""The harness can fail: with the code broken on purpose in one place, it finds a checkpoint that must not be."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")

from flowcheck_net.checkpoint import assemble, gate, guarded, optimizer, state, store  # noqa: E402
from flowcheck_net.checkpoint.accept import node, run  # noqa: E402
from flowcheck_net.checkpoint.accept.draw import Belief, Change, Disk, Experiment, Silence  # noqa: E402
from flowcheck_net.checkpoint.accept.trainer import SETTINGS  # noqa: E402
from flowcheck_net.checkpoint.accept.words import Kind, Outcome  # noqa: E402

EXAMPLE = Path(__file__).resolve().parents[2] / "topologies" / "four-host"
ADAMW, MASTER, NESTEROV, _ = SETTINGS
LOST = tuple(f"loss:hop=dp0/0/{hop},iteration=2,rate=1" for hop in (0, 1, 3))


@pytest.fixture(scope="module")
def acceptance() -> Iterator[run.Acceptance]:
    threads = torch.get_num_threads()
    with tempfile.TemporaryDirectory(dir=run.MEMORY) as place:
        yield run.Acceptance(EXAMPLE, Path(place), steps=4, every=2)
    torch.set_num_threads(threads)


def tried(acceptance: run.Acceptance, experiments: Sequence[Experiment]) -> list[Outcome]:
    return [acceptance.experiment(each) for each in experiments]


def check_right(outcomes: Sequence[Outcome]) -> None:
    assert [each.wrong for each in outcomes if each.wrong] == []


def check_found(outcomes: Sequence[Outcome], text: str) -> None:
    assert any(text in each for outcome in outcomes for each in outcome.wrong), [each.wrong for each in outcomes]


def test_a_gradient_with_holes_is_applied(acceptance: run.Acceptance, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = [Experiment(0, 1, NESTEROV, Kind.LOSS, mirror=LOST)]
    check_right(tried(acceptance, lost))
    monkeypatch.setattr(assemble, "_refuse_gaps", lambda *_: None)
    monkeypatch.setattr(assemble.Assembly, "_refuse_unproven", lambda *_: None)
    monkeypatch.setattr(assemble, "Verdict", lambda _: assemble_verdict())
    check_found(tried(acceptance, lost), "is not the trainer's")


def assemble_verdict() -> Any:
    from flowcheck_net.audit.verdict import Verdict

    return Verdict.COVERED


def test_a_changed_optimizer_is_not_looked_at(acceptance: run.Acceptance, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = [Experiment(0, 1, MASTER, Kind.OPTIMIZER, change=(3, Change.DECAY))]
    check_right(tried(acceptance, changed))
    monkeypatch.setattr(optimizer.Replay, "_refuse_contradicted", lambda *_: None)
    check_found(tried(acceptance, changed), "is not the trainer's")


def test_a_step_without_side_values_is_applied(acceptance: run.Acceptance, monkeypatch: pytest.MonkeyPatch) -> None:
    once = [Experiment(0, 1, NESTEROV, Kind.OPTIMIZER, change=(3, Change.RATE_ONCE), announced=False)]
    check_right(tried(acceptance, once))
    monkeypatch.setattr(guarded, "told", lambda _: True)
    assert [each.wrong for each in tried(acceptance, once) if each.wrong] == []  # publishing asks once more
    monkeypatch.setattr(gate, "told", lambda _: True)
    check_found(tried(acceptance, once), "is not the trainer's")


def believe(replay: guarded.Guarded) -> None:
    """As if it had been tried."""
    replay.trial = guarded.Trial(replay.step, identical=True)


def test_a_description_is_believed_untried(acceptance: run.Acceptance, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = [
        Experiment(0, 1, NESTEROV, Kind.PLAN, belief=Belief.SLOTS),
        Experiment(1, 1, NESTEROV, Kind.PLAN, belief=Belief.OFFSET),
    ]
    check_right(tried(acceptance, wrong))
    monkeypatch.setattr(guarded.Guarded, "attempt", believe)
    outcomes = tried(acceptance, wrong)
    check_found(outcomes[:1], "is not the trainer's")
    check_found(outcomes[1:], "is not the trainer's")


def test_a_replica_whose_process_died_in_a_step_is_taken_up(
    acceptance: run.Acceptance, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills = [Experiment(n, 1, ADAMW, Kind.RESTART, kills=((n / 7, True),)) for n in (2, 3, 5, 6)]
    check_right(tried(acceptance, kills[:2]))
    monkeypatch.setattr(state.ReplicaState, "begin", lambda *_: None)
    # what is taken up is tried against a regular checkpoint as well, which would find it
    monkeypatch.setattr(guarded.Guarded, "attempt", believe)
    outcomes = tried(acceptance, kills)
    assert any(each.lives == 2 for each in outcomes)
    check_found(outcomes, "is not")


@pytest.mark.parametrize("how", [Disk.FLIPPED, Disk.TORN, Disk.REMOVED])
def test_files_are_offered_unchecked(acceptance: run.Acceptance, monkeypatch: pytest.MonkeyPatch, how: Disk) -> None:
    damaged = [Experiment(0, seed, NESTEROV, Kind.STORAGE, disk=(0.5, how)) for seed in (1, 2)]
    monkeypatch.setattr(store, "check_files", lambda *_: None)
    outcomes = tried(acceptance, damaged)
    assert [each for each in outcomes if each.wrong] != []


def test_a_node_that_never_publishes_is_not_right(acceptance: run.Acceptance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.Life, "_publish_due", lambda *_: None)
    outcomes = tried(acceptance, [Experiment(0, 1, NESTEROV, Kind.NONE)])
    check_found(outcomes, "no reason why step 2 is not published")
    check_found(outcomes, "nothing stood against it")


@pytest.mark.parametrize("how", list(Silence))
def test_each_silence_stops_the_replica_at_its_step(acceptance: run.Acceptance, how: Silence) -> None:
    (outcome,) = tried(acceptance, [Experiment(0, 5, MASTER, Kind.SIDE, silence=(4, how))])
    check_right([outcome])
    assert outcome.published == (2,)
    assert outcome.unpublished.keys() == {4}
