"""One measurement of the planner in a process of its own: ``python -m tests.bench.plan_cases KIND GPUS``.

Prints one line of JSON. Times are CPU seconds of the process (``time.process_time``): the planner has one thread, and
the wall clock of a busy machine says nothing about it.
"""

import json
import random
import resource
import sys
import time
from collections import Counter
from typing import Any

from flowcheck_net.importers.generate import Documents, generate
from flowcheck_net.importers.generate_shape import Shape
from flowcheck_net.model.build import build_job
from flowcheck_net.model.fabric import Fabric
from flowcheck_net.plan.aggregate import OutlineProgramme, aggregate
from flowcheck_net.plan.candidates import build_problem
from flowcheck_net.plan.decompose import Index, regions
from flowcheck_net.plan.highs import Solver
from flowcheck_net.plan.linear import formulate
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.problem import PlanningProblem
from flowcheck_net.plan.programme import TIES, Component
from flowcheck_net.plan.solve import Solved, solve
from flowcheck_net.spec.job import JobSpec
from flowcheck_net.spec.load import Specs
from flowcheck_net.spec.policy import Policy
from flowcheck_net.spec.topology import Topology

_SCARCE = 28
"""Leaves of a rail's 64 that keep a capture port: 24 are needed where each takes two taps."""


def _specs(documents: Documents) -> Specs:
    return Specs(
        Topology.model_validate(documents.topology),
        JobSpec.model_validate(documents.job),
        Policy.model_validate(documents.policy),
    )


def _cluster(gpus: int, *, shuffled: bool) -> Specs:
    """8 GPUs a host, TP 8, PP 16, DP the rest, 2 channels; shuffled: hosts at random, capture ports scarce."""
    documents = generate("rail-optimised", Shape(hosts=gpus // 8, pp=16, channels=2, shuffle=shuffled))
    return _specs(_scarce(documents) if shuffled else documents)


def _scarce(documents: Documents) -> Documents:
    """One capture NIC on each of some leaves of every rail, drawn for each rail, so that no two rails are alike."""
    dice = random.Random(0)
    topology = documents.topology
    rails: dict[str, list[tuple[str, str]]] = {}
    seen: set[str] = set()
    for one, other in topology["links"]:
        leaf = other.split(":")[0]
        if one.startswith("ckpt") and leaf not in seen:
            seen.add(leaf)
            rails.setdefault(leaf.rsplit("-", 1)[1], []).append((one, other))
    kept = {link for links in rails.values() for link in dice.sample(links, _SCARCE)}
    nics = {one for one, _ in kept}
    nodes: list[dict[str, Any]] = [
        {**node, "nics": tuple(nic for nic in node["nics"] if f"{node['name']}:{nic['name']}" in nics)}
        for node in topology["checkpoint_nodes"]
    ]
    links = tuple(link for link in topology["links"] if not link[0].startswith("ckpt") or link in kept)
    scarce = {**topology, "links": links, "checkpoint_nodes": tuple(node for node in nodes if node["nics"])}
    return Documents(scarce, documents.job, documents.policy)


def _problem(specs: Specs) -> PlanningProblem:
    return build_problem(Fabric.from_spec(specs.topology), build_job(specs.job, specs.topology), specs.policy)


def _everything(problem: PlanningProblem) -> Component:
    return Component(tuple(range(len(problem.rings))), tuple(limits.name for limits in problem.switches))


def _answer(solved: Solved | None) -> dict[str, Any]:
    if solved is None:
        raise SystemExit("no plan exists")
    return {"gap": solved.proof.gap, "stages": [[stage.name, stage.value] for stage in solved.proof.stages]}


def whole_run(gpus: int) -> dict[str, Any]:
    """From in-memory specs to a checked plan."""
    specs = _cluster(gpus, shuffled=False)
    start, wall = time.process_time(), time.perf_counter()
    plan = make_plan(specs)
    return {
        "seconds": time.process_time() - start,
        "wall": time.perf_counter() - wall,
        "gap": plan.proof.gap,
        "points": len(plan.points),
        "sessions": len(plan.sessions),
    }


def ours(gpus: int, *, shuffled: bool) -> dict[str, Any]:
    """From the planning problem to the proven choice, our way."""
    problem = _problem(_cluster(gpus, shuffled=shuffled))
    start = time.process_time()
    found = solve(problem)
    return {"seconds": time.process_time() - start, **_answer(found)}


def monolith(gpus: int, *, shuffled: bool) -> dict[str, Any]:
    """The same question as one programme over the whole problem: no parts, no classes.

    Only the solver's own time counts, not that of writing the programme down; nor has it to break ties.
    """
    problem = _problem(_cluster(gpus, shuffled=shuffled))
    programme = formulate(problem, _everything(problem))
    solver = Solver(programme)
    stages: list[list[Any]] = []
    start = time.process_time()
    for name, terms in programme.stages:
        if name == TIES:
            continue
        found = solver.settle(terms)
        if found is None or found.value != found.bound:
            raise SystemExit(f"not proven: {name}")
        stages.append([name, found.value])
    return {"seconds": time.process_time() - start, "gap": 0.0, "stages": stages, "columns": len(programme.upper)}


def variables(gpus: int) -> dict[str, Any]:
    """Choices of a tap and a capture port, and the columns left of them once classes are merged and parts shared."""
    problem = _problem(_cluster(gpus, shuffled=False))
    ports = Counter(capture.switch for capture in problem.captures)
    index = Index(problem)
    outlines = {aggregate(index, region, fine=False).outline for region in regions(problem)}
    return {
        "choices": sum(ports[tap.switch] for tap in problem.taps if not tap.refusals),
        "merged": sum(len(OutlineProgramme(outline).programme.upper) for outline in outlines),
    }


def main(kind: str, gpus: int) -> dict[str, Any]:
    """Run one case; adds the peak memory of the process."""
    cases = {
        "whole": lambda: whole_run(gpus),
        "ours": lambda: ours(gpus, shuffled=False),
        "ours-shuffled": lambda: ours(gpus, shuffled=True),
        "monolith": lambda: monolith(gpus, shuffled=False),
        "monolith-shuffled": lambda: monolith(gpus, shuffled=True),
        "variables": lambda: variables(gpus),
    }
    found = cases[kind]()
    return {**found, "gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))  # noqa: T201
