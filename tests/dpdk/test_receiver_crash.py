"""The receiver is killed at random moments while a job runs: no iteration is called whole that did not arrive.

What was sent and when is heard by packet sockets of the test's own where the hosts' cables end; while there was no
receiver, nobody can have seen what was sent. Iterations that no death touched must come out COVERED: where this machine
is too busy for that, a round is done again at half the pace, and in the end fails. ``make crash`` kills 50 times.
"""

import os
import random
import statistics
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.plan.plan import expectation, plan_to_json
from flowcheck_net.receive.synth import synthesize
from tests.doubles.payload_world import plan_of, truth
from tests.dpdk.campaign import GROUP, Down, Truth, called_complete, heard, kill, watched
from tests.dpdk.placing import SEED
from tests.dpdk.receiving import Running, needs_receiver, read, spool_of, wait_until_idle
from tests.netns.veth import namespace, needs_namespaces

pytestmark = [pytest.mark.alone, needs_receiver, needs_namespaces]
KILLS = int(os.environ.get("FLOWCHECK_RECEIVER_KILLS", "2"))
A_ROUND = 10
"""Kills in one run of the command."""
DECLARED_S = 0.1
"""Iteration time of the job. The audit calls what comes in half of it, or half of what is usual, one iteration in two
places: the less is declared, the later a packet may be."""
SPEEDS = (0.2, 0.1, 0.05)
"""An iteration each 500 ms; slower where the machine does not hold that."""
MARGIN_ITERATIONS = 2
"""What comes so shortly before a death may not be written yet."""
SETTLED_S = 60
"""For the first complete iteration."""


@dataclass(frozen=True)
class Round:
    """What came of one run."""

    down: list[Down]
    sent: int
    hit: int
    untouched: int
    covered: int
    """Of those."""
    placed: int
    """Iterations that the receiver called complete."""
    why: str
    """Of the audit, where untouched ones are not COVERED."""


@pytest.mark.timeout(240 + 60 * KILLS)
def test_no_iteration_is_called_whole_that_did_not_arrive(tmp_path: Path) -> None:
    draw = random.Random(seed := int(os.environ.get("FLOWCHECK_SEED", str(os.getpid()))))
    print(f"FLOWCHECK_SEED={seed}")  # noqa: T201 - how to do the same again
    done: list[Round] = []
    pace = 0
    left = KILLS
    while left:
        kills = min(left, A_ROUND)
        work = tmp_path / f"{len(done)}-{pace}"
        work.mkdir()
        found = once(work, kills, SPEEDS[pace], draw)
        busy = found.covered < found.untouched or not found.untouched
        print(f"{kills} kills at {SPEEDS[pace]}: {summed([found])}{'; ' + found.why if busy else ''}")  # noqa: T201
        if busy:
            pace += 1
            assert pace < len(SPEEDS), "iterations that no death touched are not COVERED, however slowly they are sent"
            continue
        done.append(found)
        left -= kills
    print(summed(done))  # noqa: T201


def summed(rounds: list[Round]) -> str:
    """For a person."""
    times = [(each.up - each.killed) / 1e9 for found in rounds for each in found.down]
    total = {
        name: sum(getattr(found, name) for found in rounds)
        for name in ("sent", "hit", "untouched", "covered", "placed")
    }
    return (
        f"{len(times)} kills: {total['sent']} iterations sent, {total['hit']} of them hit, {total['covered']} of "
        f"{total['untouched']} untouched ones COVERED; {total['placed']} called complete by the receiver, "
        f"all confirmed; receiving again after {statistics.median(times):.2f} s, {max(times):.2f} s at most"
    )


def once(work: Path, kills: int, speed: float, draw: random.Random) -> Round:
    """One run with so many kills. What is called whole must be; how much is, the caller decides."""
    plan = plan_of("two-host")
    plan = replace(plan, job=replace(plan.job, iteration_time=DECLARED_S))
    period = plan.job.iteration_time / speed
    iterations = 60 + 24 * kills
    job, output, boards = work / "job.pcapng", work / "records.fcr", work / "boards"
    (work / "plan.json").write_text(plan_to_json(plan))
    synthesize(plan, job, iterations=iterations, seed=SEED)
    truths = {truth(plan, GROUP, number, SEED): number for number in range(iterations)}
    down: list[Down] = []
    with namespace() as place:
        for number in (0, 1):
            place.pair(f"na{number}", f"fa{number}")
        far = {place.run("ip", "-o", "link", "show", f"fa{number}").stdout.partition(":")[0] for number in (0, 1)}
        words: list[str | Path] = ["--plan", work / "plan.json", "--node", "ckpt1", "--interval", "0.05"]
        words += [word for number in (0, 1) for word in ("--port", f"cap{number}=af_packet:fa{number}")]
        words += ["--payload", boards, "--payload-slots", "16", "--no-hugepages"]
        targets = [word for number in (0, 1) for word in ("--to", f"ckpt1:cap{number}=na{number}")]
        with (
            watched(plan, boards, truths) as watcher,
            heard(place, "fa0", "fa1") as ears,
            Running(place, output, *words) as running,
        ):
            with place.start(*targets, job, "--speed", str(speed)) as sender:
                settled = time.monotonic() + SETTLED_S
                while not watcher.found:  # payload is placed: from now on there is something to break
                    assert time.monotonic() < settled, "no payload was placed"
                    time.sleep(0.1)
                for _ in range(kills):
                    time.sleep(period * (2 + 5 * draw.random()))
                    down.append(kill(running, far))
                time.sleep(4 * period)
                assert sender.poll() is None, "the job is too short"
                sender.terminate()
                sender.communicate()
            wait_until_idle(running.child())
            named = called_complete(boards, spool_of(output))
            code, _, err = running.end()
    assert code == 9, err
    cables = Truth(job, iterations, [each for ear in ears for each in ear.frames])
    confirmed(cables, down, [watcher.found.get(key) for key in named])
    report = audit(expectation(plan), read(output))
    claimed = {each.number: each.verdict for each in report.iterations if each.verdict.publishable}
    assert set(claimed) <= cables.sent()
    assert not set(claimed) & cables.unheard(down, reduced=True)
    assert not {n for n, verdict in claimed.items() if verdict is Verdict.COVERED} & cables.unheard(down, reduced=False)
    said = numbers(err.partition("iterations that are not whole: ")[2].partition(" (of ")[0])
    assert said == {each.number for each in report.iterations} - set(claimed)
    untouched = cables.untouched(down, int(MARGIN_ITERATIONS * period * 1e9))
    covered = {number for number in untouched if claimed.get(number) is Verdict.COVERED}
    lost = [each for each in report.iterations if each.number in untouched - covered]
    why = f"{[each.number for each in lost]}; {[each.text for each in report.findings if each.verdict]}"
    hit = cables.unheard(down, reduced=False)
    return Round(down, len(cables.sent()), len(hit), len(untouched), len(covered), len(named), why)


def confirmed(cables: Truth, down: list[Down], placed: list[int | None]) -> None:
    """What the receiver called complete has the bytes of one iteration, each another one, that it can have heard."""
    assert None not in placed
    assert len(set(placed)) == len(placed)
    assert set(placed) <= cables.sent()
    assert not set(placed) & cables.unheard(down, reduced=True)


def numbers(text: str) -> set[int]:
    """``3, 5-7`` as numbers."""
    spans = [each.partition("-") for each in text.split(", ") if each]
    return {number for first, _, last in spans for number in range(int(first), int(last or first) + 1)}
