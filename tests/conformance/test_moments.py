"""A process killed at any moment leaves what can be finished or undone exactly: all moments, every command line.

See ``moments.py``.
"""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from flowcheck_net.apply.confirm import undo_overdue
from flowcheck_net.apply.engine import apply_plan
from flowcheck_net.errors import RolledBack
from flowcheck_net.intent import MirrorSession
from tests.conformance.bench_numbered import ComwareBench, CumulusBench, Os10Bench, VrpBench
from tests.conformance.bench_ssh import EosBench, JunosBench, NxosBench, SshBench
from tests.conformance.crash import Scene
from tests.conformance.moments import Left, TypedBed, TypedScene
from tests.conformance.wish import Wish
from tests.doubles.os10_box import Os10Box

BENCHES: dict[str, type[SshBench]] = {
    "comware": ComwareBench,
    "cumulus": CumulusBench,
    "dell-os10": Os10Bench,
    "eos": EosBench,
    "junos": JunosBench,
    "nxos": NxosBench,
    "vrp": VrpBench,
}
Action = Callable[[Scene], None]
EVERY = 1 if "FLOWCHECK_CRASH" in os.environ else 12
"""All moments under `make crash`, some by the way."""


@pytest.fixture(params=sorted(BENCHES))
def bed(request: pytest.FixtureRequest) -> TypedBed:
    return TypedBed(BENCHES[request.param])


@pytest.fixture
def wish(bed: TypedBed) -> Wish:
    return Wish(bed)


@pytest.fixture
def scene(bed: TypedBed, wish: Wish, scratch: Path) -> TypedScene:
    """The former plan is applied."""
    made = TypedScene(bed, scratch / "state")
    with made.journal() as journal:
        apply_plan(wish.former, "d0", journal, made.reach())
    assert made.owned() == wish.former_state
    return made


def next_start(later: Scene) -> None:
    with later.journal() as journal:
        undo_overdue(journal, later.reach, lambda: time.time() + 301)


def check(scene: TypedScene, lefts: tuple[Left, ...], cure: Action, expected: list[tuple[MirrorSession, ...]]) -> None:
    foreign = scene.bed.foreign_bytes()
    tried = list(enumerate(lefts))[::EVERY]
    print(f"{cure.__name__}: {len(tried)} of {len(lefts)} moments")  # noqa: T201 - for make crash
    for number, left in tried:
        scene.put(left)
        where = f"{cure.__name__}, moment {number} of {len(lefts)}"
        try:
            cure(scene)
        except RolledBack as refused:
            _help(scene, refused.message)
            cure(scene)
        except Exception as error:
            raise AssertionError(where) from error
        assert scene.owned() == expected, where
        assert scene.bed.foreign_bytes() == foreign, where


def _help(scene: TypedScene, refusal: str) -> None:
    """OS10: a session cut off before its first word has no owner. It is named, and nothing was written."""
    number = re.search(r"`no monitor session ([0-9]+)`", refusal)
    assert number is not None, refusal
    for box in scene.bed.boxes.values():
        assert isinstance(box, Os10Box)
        there = box.monitors.get(int(number[1]))
        if there is not None and not there.description:
            del box.monitors[int(number[1])]
    scene.bed.forget()


def test_after_any_moment_of_an_apply_resume_gives_the_plan_and_rollback_the_former_state(
    scene: TypedScene, wish: Wish
):
    lefts = scene.moments(wish.apply)
    check(scene, lefts, wish.resume, wish.planned_state)
    check(scene, lefts, wish.undo, wish.former_state)


def test_after_any_moment_of_a_rollback_it_can_be_finished_or_the_plan_restored(scene: TypedScene, wish: Wish):
    wish.apply(scene)
    lefts = scene.moments(wish.undo)
    check(scene, lefts, wish.undo, wish.former_state)
    check(scene, lefts, wish.resume, wish.planned_state)


def test_any_moment_of_a_change_that_was_to_be_confirmed_is_undone_by_the_next_start(scene: TypedScene, wish: Wish):
    lefts = scene.moments(wish.apply_to_confirm)
    check(scene, lefts, next_start, wish.former_state)
