"""SIGKILL at every moment of an apply, a rollback and a resume: what is left is finished or undone exactly.

A driver joins by a line in ``conftest.BEDS``; see ``crash.py``.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flowcheck_net.apply.confirm import undo_overdue
from flowcheck_net.apply.engine import apply_plan, resume_plan
from flowcheck_net.apply.rollback import rollback
from flowcheck_net.intent import Direction, MirrorSession, MirrorSource
from flowcheck_net.plan.plan import Plan
from tests.conformance.crash import Bed, Scene
from tests.doubles.switches import plan_for, session

Action = Callable[[Scene], None]


class Wish:
    """Two plans for the four switches of a bed: between them sessions are made, moved and removed."""

    def __init__(self, bed: Bed) -> None:
        def made(number: int, to: int, *places: tuple[int, Direction]) -> MirrorSession:
            plain = session(f"fcn-gpt-{number}", to=bed.destinations[to])
            sources = tuple(MirrorSource(bed.sources[place], direction) for place, direction in places)
            return MirrorSession(plain.name, sources, plain.destination)

        one = made(0, 0, (0, Direction.RX), (0, Direction.TX))
        other = made(1, 1, (1, Direction.RX))
        moved = made(0, 0, (2, Direction.RX))
        first, second, third, fourth = bed.names
        self.former: Plan = plan_for({first: [moved], second: [other], fourth: [one]})
        self.plan: Plan = plan_for({first: [one, other], second: [one, other], third: [one]})
        self.former_state = [(moved,), (other,), (), (one,)]
        self.planned_state = [(one, other), (one, other), (one,), ()]

    def apply(self, scene: Scene) -> None:
        with scene.journal() as journal:
            apply_plan(self.plan, "d1", journal, scene.reach())

    def apply_to_confirm(self, scene: Scene) -> None:
        with scene.journal() as journal:
            apply_plan(self.plan, "d1", journal, scene.reach(), confirm_within=300)

    def resume(self, scene: Scene) -> None:
        with scene.journal() as journal:
            if journal.open_run():
                resume_plan(self.plan, "d1", journal, scene.reach())
            else:
                apply_plan(self.plan, "d1", journal, scene.reach())

    def undo(self, scene: Scene) -> None:
        with scene.journal() as journal:
            newest = journal.last_run("gpt")
            if newest is not None and newest.plan_digest == "d1":
                rollback(journal, scene.reach)


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
    """What a kill at every moment of ``action`` leaves behind, once: equal remains have equal consequences."""
    start = scene.save(scratch / f"{action.__name__}-start")
    known = set()
    for point in range(1000):
        scene.load(start)
        if not scene.killed_at(point, action):
            assert point > 60, "the moments were not hit"
            return
        if (remains := scene.remains()) not in known:
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
    assert len(seen) > 4


def test_after_a_crash_in_rollback_it_can_be_finished_or_the_plan_restored(scene: Scene, wish: Wish, scratch: Path):
    foreign = scene.bed.foreign_bytes()
    wish.apply(scene)
    for left in every_crash(wish.undo, scene, scratch):
        check(scene, left, wish.undo, wish.former_state, foreign)
        check(scene, left, wish.resume, wish.planned_state, foreign)


def test_a_crash_in_the_resume_of_a_crashed_apply_is_no_worse(scene: Scene, wish: Wish, scratch: Path):
    foreign = scene.bed.foreign_bytes()
    start = scene.save(scratch / "before")
    for point in range(40, 1000, 3):
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
