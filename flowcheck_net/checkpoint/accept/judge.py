"""What came of an experiment, by the trainer's own state alone."""

from collections.abc import Callable
from typing import Any

from flowcheck_net.checkpoint.accept import store
from flowcheck_net.checkpoint.accept.course import Course
from flowcheck_net.checkpoint.accept.draw import Experiment
from flowcheck_net.checkpoint.accept.node import Task
from flowcheck_net.checkpoint.accept.trainer import differences
from flowcheck_net.checkpoint.accept.words import Outcome, Restored
from flowcheck_net.checkpoint.store import folder_of
from flowcheck_net.errors import FlowcheckError

GoOn = Callable[[dict[str, Any]], tuple[Any, Any]]


def judge(experiment: Experiment, course: Course, task: Task, lives: int, go_on: GoOn) -> Outcome:
    """Compare all that is offered with the trainer, and every step that is not with what the node said."""
    said = list(task.said())
    wrong = [f"the node crashed: {each['why']}" for each in said if each["event"] == "crashed"]
    offered = store.offered(task.published)
    # a node that was killed behind the renaming had no time to say so: what counts is what is there
    published = sorted({each["step"] for each in said if each["event"] == "published"} | set(offered))
    last = offered[-1] if offered else 0
    wrong += [f"step {step} was published, and the disk did not take it" for step in _unsafe(task, said, offered)]
    restored, told = _restore(course, task, offered, go_on)
    wrong += told
    damaged = {each["step"]: each["why"] for each in said if each["event"] == "damaged"}
    gone = [step for step in published if step not in offered]
    wrong += [f"step {step} was published, and is not offered any more" for step in gone if step not in damaged]
    due = range(task.every, task.steps + 1, task.every)
    why = _reasons(said, task.steps) | damaged
    unpublished = {step: why.get(step, "") for step in due if step not in offered}
    wrong += [f"no reason why step {step} is not published" for step, reason in unpublished.items() if not reason]
    spoilt = experiment.spoilt
    spared = [] if spoilt is None else [step for step in unpublished if step not in spoilt]
    if spared:
        wrong.append(f"steps {spared} are not published, and nothing stood against it")
    replica = max((each["step"] for each in said if each["event"] in ("replica", "begun", "resumed")), default=0)
    return Outcome(
        experiment.number,
        experiment.seed,
        experiment.setting.name,
        experiment.kind,
        experiment.texts,
        task.steps,
        replica,
        last,
        restored,
        tuple(published),
        unpublished,
        tuple(gone),
        lives,
        tuple(wrong),
    )


def _restore(course: Course, task: Task, offered: tuple[int, ...], go_on: GoOn) -> tuple[Restored, list[str]]:
    """Load all that is offered; train on from the newest."""
    wrong = []
    found: dict[str, Any] = {}
    for step in offered:
        try:
            found = store.load(task.published, step)
            plain = store.load_as_torch_does(task.published, step, course.states[step])
        except (FlowcheckError, OSError, RuntimeError, ValueError, KeyError) as error:
            return Restored.FAILED, [f"step {step} is offered and cannot be loaded: {error}"]
        told = differences(found, course.states[step]) + differences(plain, course.states[step])
        wrong += [f"the published step {step} is not the trainer's: {told[0]}"] if told else []
    if not offered:
        return Restored.NOTHING, []
    if wrong:
        return Restored.DIFFERS, wrong
    mine, theirs = go_on(found)
    told = differences(mine, theirs)
    if told:
        return Restored.DIFFERS, [f"training on from step {offered[-1]} goes elsewhere: {told[0]}"]
    return Restored.EQUAL, []


def _unsafe(task: Task, said: list[dict[str, Any]], offered: tuple[int, ...]) -> list[int]:
    """Checkpoints that got their name after fsync had begun to fail: they are in the page cache, and nowhere else."""
    there = [each["why"].split() for each in said if each["event"] == "fsync-failed"]
    return [step for step in offered if there and folder_of(task.published, step).name not in there[0]]


def _reasons(said: list[dict[str, Any]], steps: int) -> dict[int, str]:
    """Step -> why there is no checkpoint of it: what was refused holds until the replica stands beyond it again."""
    found: dict[int, str] = {}
    for number, each in enumerate(said):
        if each["event"] == "unpublished":
            found.setdefault(each["step"], each["why"])
        if each["event"] == "refused":
            later = (e["step"] for e in said[number + 1 :] if e["event"] in ("replica", "begun", "resumed"))
            end = max(each["step"], next(later, steps))
            for step in range(each["step"], end + 1):
                found.setdefault(step, each["why"])
    return found
