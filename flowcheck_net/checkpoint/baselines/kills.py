"""Kill everything at a random moment, restore from storage, and compare with what the trainer had recorded."""

import json
import random
import time
from functools import partial
from pathlib import Path

from flowcheck_net.checkpoint.baselines import processes
from flowcheck_net.checkpoint.baselines.ledger import read_events
from flowcheck_net.checkpoint.baselines.restore import restore
from flowcheck_net.checkpoint.baselines.words import Durable, Failure, Method, Setup, StepDone
from flowcheck_net.checkpoint.baselines.world import WARM, Planned, start
from flowcheck_net.errors import FlowcheckError

_PATIENCE = 600.0
"""Seconds that a training may take to reach the step at which it is killed."""
_LOOK = 0.002


def fail_once(setup: Setup, method: Method, place: Path, memory: Path, chance: random.Random) -> Failure:
    """One failure of one method.

    Args:
        setup: The model and the rest.
        method: Not the control.
        place: An empty directory of this failure.
        memory: Shared memory, as empty.
        chance: Decides when.

    Raises:
        FlowcheckError: A process failed by itself, or none got as far in ten minutes.
    """
    cycle = setup.interval * setup.full_every
    target = WARM + setup.interval + chance.randrange(cycle)
    fraction = chance.random()
    planned = Planned(method, 0, place / "run", None, record=True)
    children = start(setup, place, memory, [planned])
    try:
        _await(planned.place / "events" / "rank-0.jsonl", target, children, place, fraction)
    finally:
        processes.kill(children)
    killed = time.monotonic()
    child = processes.fork("restore", place, partial(_restore, method, planned.place, place / "restored.json"))
    processes.wait([child], place)
    return judge(method, planned.place, killed, json.loads((place / "restored.json").read_text(encoding="utf-8")))


def _await(path: Path, target: int, children: list[int], place: Path, fraction: float) -> None:
    """Until the trainer has made step ``target``, and a random part of a step more."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        made = [each for each in read_events(path) if isinstance(each, StepDone)]
        if made and made[-1].step >= target:
            time.sleep(fraction * (made[-1].end - made[-2].end))
            return
        if processes.ended(children):
            raise FlowcheckError(f"a process of the comparison failed: {processes.reason(place)}")
        if time.monotonic() > deadline:
            raise FlowcheckError(f"the training did not reach step {target} in {_PATIENCE:.0f} s")
        time.sleep(_LOOK)


def _restore(method: Method, place: Path, out: Path) -> None:
    """In a process of its own: what was in memory must not help."""
    import torch

    from flowcheck_net.checkpoint.baselines.gpt import digest

    torch.set_num_threads(1)
    begin = time.monotonic()
    told: dict[str, object]
    try:
        step, flat = restore(method, place)
    except Exception as error:  # noqa: BLE001 - whatever a reader raises: nothing was restored, which is the result
        told = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
    else:
        told = {"step": step}
    told["seconds"] = time.monotonic() - begin
    if "step" in told:
        told["digest"] = digest(step, flat)
    out.write_text(json.dumps(told), encoding="utf-8")


def judge(method: Method, place: Path, killed: float, told: dict[str, object]) -> Failure:
    """Compare what was restored with what was recorded and promised.

    Args:
        method: The method.
        place: Of the stretch.
        killed: Moment of the kill.
        told: ``step`` and ``digest``, or ``error``; and ``seconds``.
    """
    events = [each for path in sorted((place / "events").iterdir()) for each in read_events(path)]
    made = {each.step: each for each in events if isinstance(each, StepDone)}
    last = max(made)
    promised = max((each.step for each in events if isinstance(each, Durable)), default=0)
    seconds = float(str(told["seconds"]))
    if "error" in told:
        return Failure(method, last, promised, None, None, seconds, f"nothing could be restored: {told['error']}")
    step = int(str(told["step"]))
    wrong = ""
    if step not in made:
        wrong = f"step {step} was restored, which the trainer has not recorded"
    elif made[step].digest != told["digest"]:
        wrong = f"the restored state of step {step} is not the trainer's"
    elif step < promised:
        wrong = f"step {step} was restored, but {promised} had been told to be on storage"
    lost = killed - made[step].end if step in made else None
    return Failure(method, last, promised, step, lost, seconds, wrong)
