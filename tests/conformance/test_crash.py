"""SIGKILL at every moment of an apply, a rollback and a resume: what is left is finished or undone exactly.

All moments of the platforms with a command line are in ``test_moments.py``. A driver joins by a line in
``conftest.BEDS``; see ``crash.py``.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flowcheck_net.apply.confirm import undo_overdue
from flowcheck_net.apply.engine import apply_plan
from flowcheck_net.intent import MirrorSession
from tests.conformance.crash import Bed, Scene
from tests.conformance.wish import Wish

Action = Callable[[Scene], None]


@pytest.fixture
def wish(bed: Bed) -> Wish:
    return Wish(bed)


@pytest.fixture
def scene(bed: Bed, wish: Wish, scratch: Path) -> Scene:
    """The former plan is applied."""
    made = Scene(bed, scratch / "state")
    with made.journal() as journal:
        apply_plan(wish.former, "d0", journal, made.reach())
    assert made.owned() == wish.former_state
    return made


def every_crash(action: Action, scene: Scene, scratch: Path) -> Iterator[Path]:
    """What a kill at the moments of ``action`` leaves behind, once: equal remains have equal consequences."""
    start = scene.save(scratch / f"{action.__name__}-start")
    known, clean, untouched = set[str](), True, scene.remains()
    for kills, point in enumerate(range(0, 5000, scene.bed.stride)):
        if not clean:
            scene.load(start)
        if not scene.killed_at(point, action):
            assert point > 60, "the moments were not hit"
            print(f"{action.__name__}: {kills} kills, {len(known)} different remains")  # noqa: T201 - for make crash
            return
        remains = scene.remains()
        clean = remains == untouched and remains in known
        if remains not in known:
            known.add(remains)
            yield scene.save(scratch / f"{action.__name__}-{point}")
    pytest.fail("the action never ends")


def check(scene: Scene, left: Path, cure: Action, expected: list[tuple[MirrorSession, ...]], foreign: bytes) -> None:
    scene.load(left)
    cure(scene)
    assert scene.owned() == expected, f"{left.name}, {cure.__name__}"
    assert scene.bed.foreign_bytes() == foreign, left.name


def test_after_a_crash_in_apply_resume_gives_the_plan_and_rollback_the_former_state(
    scene: Scene, wish: Wish, scratch: Path
):
    foreign = scene.bed.foreign_bytes()
    seen = set()
    for left in every_crash(wish.apply, scene, scratch):
        seen.add(str(scene.owned()))
        check(scene, left, wish.resume, wish.planned_state, foreign)
        check(scene, left, wish.undo, wish.former_state, foreign)
    # The kills really fell between the writes: more states were left than the two good ones.
    assert len(seen) > (4 if scene.bed.stride == 1 else 1)


def test_after_a_crash_in_rollback_it_can_be_finished_or_the_plan_restored(scene: Scene, wish: Wish, scratch: Path):
    foreign = scene.bed.foreign_bytes()
    wish.apply(scene)
    for left in every_crash(wish.undo, scene, scratch):
        check(scene, left, wish.undo, wish.former_state, foreign)
        check(scene, left, wish.resume, wish.planned_state, foreign)


def test_a_crash_in_the_resume_of_a_crashed_apply_is_no_worse(scene: Scene, wish: Wish, scratch: Path):
    foreign = scene.bed.foreign_bytes()
    start = scene.save(scratch / "before")
    for point in range(40, 5000, 17):
        scene.load(start)
        assert scene.killed_at(point, wish.apply)
        if scene.owned() not in (wish.former_state, wish.planned_state):
            break
    for left in every_crash(wish.resume, scene, scratch):
        check(scene, left, wish.resume, wish.planned_state, foreign)
        check(scene, left, wish.undo, wish.former_state, foreign)


def test_a_crashed_change_that_was_to_be_confirmed_is_undone_by_the_next_start(scene: Scene, wish: Wish, scratch: Path):
    foreign = scene.bed.foreign_bytes()

    def next_start(later: Scene) -> None:
        with later.journal() as journal:
            undo_overdue(journal, later.reach, lambda: time.time() + 301)

    for left in every_crash(wish.apply_to_confirm, scene, scratch):
        check(scene, left, next_start, wish.former_state, foreign)
