"""A ring or tree on one leaf whose switch follows queue pairs: planned with message windows, synthesized, replayed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.result import AuditReport
from flowcheck_net.intent import WindowRule
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import Plan, expectation
from flowcheck_net.receive.replay import replay
from flowcheck_net.receive.synth import synthesize
from flowcheck_net.receive.synth_faults import parse_faults
from tests.oracle.plan_specs import Raw, leaf_fabric, policy, ring_job, to_specs

LL = {"version": "2.19.3", "protocol": "LL", "channels": 1, "threads": 512}
SIMPLE = {"version": "2.22.3", "protocol": "Simple", "channels": 1, "threads": 512}


def windowed_plan(
    strategy: str = "reduced", *, size: int = 4, copies: int = 1, tree: bool = False, named: bool = True, **job: Any
) -> Plan:
    """Hosts h0, h1, ... under one leaf, capture ports enough.

    Args:
        strategy: Of the policy.
        size: Ranks.
        copies: Of the policy.
        tree: A chain 0 - 1 - 2 - ... instead of a ring.
        named: Does the job name the queue pairs?
        job: More fields of the job.
    """
    hosts = {f"h{n}": "leaf1" for n in range(size)}
    made: Raw = ring_job([list(hosts)])
    if tree:
        edges = [[n, n + 1] for n in range(size - 1)]
        made |= {"collective": {"algorithm": "tree"}, "trees": [{"group": "dp0", "channel": 0, "edges": edges}]}
        del made["rings"]
        if named:
            made["trees"][0]["down_qpns"] = [[0x200 + n] for n in range(size - 1)]
            made["trees"][0]["up_qpns"] = [[0x300 + n] for n in range(size - 1)]
    else:
        made["rings"] = [{"group": "dp0", "channel": 0, "order": list(range(size))}]
        if named:
            made["rings"][0]["qpns"] = [[0x100 + n] for n in range(size)]
    topology = leaf_fabric(hosts, [("n", "leaf1", "800G")] * (copies + 1))
    return make_plan(to_specs(topology, {**made, **job}, {**policy(copies=copies), "strategy": strategy}))


def turned(plan: Plan, count: int) -> Plan:
    """The same plan on switches that count ``count`` messages too many."""

    def turn(rule: WindowRule) -> WindowRule:
        low, high = ((bound - count) % rule.period for bound in (rule.low, rule.high))
        return replace(rule, low=low, high=high)

    sessions = tuple(
        replace(p, session=replace(p.session, windows=tuple(turn(r) for r in p.session.windows))) for p in plan.sessions
    )
    return replace(plan, sessions=sessions)


@dataclass(frozen=True, slots=True)
class World:
    """Where captures go."""

    folder: Path

    def capture(self, plan: Plan, *, faults: Sequence[str] = (), iterations: int = 3, start_psn: int = 0) -> Path:
        """What the plan's capture ports receive."""
        path = self.folder / f"mirror-{len(list(self.folder.iterdir()))}.pcapng"
        synthesize(plan, path, iterations=iterations, faults=parse_faults(faults), start_psn=start_psn)
        return path

    def audited(self, plan: Plan, by: Plan | None = None, **options: Any) -> AuditReport:
        """The audit of what the switches of ``plan`` mirror, against plan ``by``."""
        return audit(expectation(by or plan), replay([self.capture(plan, **options)]))
