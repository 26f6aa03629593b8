"""Applying to many switches against the slowest chain of calls that the set concurrency allows.

Each call to a switch takes 50 ms. The calls of one switch follow one another:

* survey: connect, read: 2 calls, 200 switches, 32 at once: ceil(200 / 32) = 7 rounds, 7 * 2 = 14 calls
* canary, alone: connect, hold, read, write; read back over a new connection: connect, read: 6 calls
* the others: the same 6 calls, ceil(199 / 32) = 7 rounds, 7 * 6 = 42 calls

So the slowest chain is 14 + 6 + 42 = 62 calls of 50 ms = 3.1 s, in which no journal is written and nothing compared.
What is measured is the whole ``apply_plan`` with its journal on disk, divided by that.
"""

import shutil
import time
from math import ceil

from flowcheck_net.apply.engine import apply_plan
from flowcheck_net.apply.journal import Journal
from tests.bench.measure import BUILD, RUNS, Result
from tests.doubles.switches import FakeFabric, plan_for, session

SWITCHES = 200
WORKERS = 32
LATENCY = 0.05
SURVEY_CALLS = 2
WRITE_CALLS = 6
BAR = 1.5


def chain_seconds() -> float:
    """The slowest chain of calls."""
    survey = SURVEY_CALLS * ceil(SWITCHES / WORKERS)
    return LATENCY * (survey + WRITE_CALLS + WRITE_CALLS * ceil((SWITCHES - 1) / WORKERS))


def bench() -> list[Result]:
    """Best of three, each on a fresh fabric and a fresh journal."""
    plan = plan_for({f"leaf{n:03}": [session("fcn-gpt-0", "Ethernet1:rx")] for n in range(SWITCHES)})
    folder = BUILD / "apply"
    best = float("inf")
    for _ in range(RUNS):
        shutil.rmtree(folder, ignore_errors=True)
        fabric = FakeFabric()
        for address in plan.switches:
            with fabric.store(address.name).transaction() as switch:
                switch.latency = LATENCY
        with Journal(folder / "journal.sqlite") as journal:
            start = time.perf_counter()
            apply_plan(plan, "d", journal, fabric.reach(workers=WORKERS))
            best = min(best, time.perf_counter() - start)
    shutil.rmtree(folder)
    note = f"{SWITCHES} switches, {WORKERS} at once, {LATENCY * 1000:g} ms a call: {best:.2f} s"
    return [Result("apply_vs_chain", best / chain_seconds(), "x", BAR, higher_is_better=False, note=note)]
