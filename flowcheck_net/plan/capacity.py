"""How much a plan asks of ports, receivers, memory and storage, how fast each can follow, and what a failure costs.

Pure arithmetic. Every figure carries its ground, its formula and where its numbers come from. Units are decimal.
"""

from collections.abc import Iterator

from flowcheck_net.plan.capacity_basis import Basis
from flowcheck_net.plan.capacity_given import Givens
from flowcheck_net.plan.capacity_nodes import memory, receivers, storage
from flowcheck_net.plan.capacity_recovery import loss, recovery
from flowcheck_net.plan.capacity_report import CapacityReport, Figure, Heading
from flowcheck_net.plan.plan import Plan


def capacity(plan: Plan, given: Givens | None = None) -> CapacityReport:
    """The report of a plan under the given numbers (default: those of ``capacity_given``)."""
    numbers = given if given is not None else Givens()
    basis = Basis(plan, numbers)
    sections = (state, points, monitor, receivers, memory, storage, rates, backlog, loss, recovery)
    figures = tuple(figure for section in sections for figure in section(basis))
    return CapacityReport(plan.job.name, numbers.entries(), figures)


def state(basis: Basis) -> Iterator[Figure]:
    """What there is to keep, and what a step brings."""
    head = Heading("state")
    count = sum(basis.parameters.values())
    source = "job.yaml: buckets, layout"
    formula = "sum over groups of bucket elements; a weight that tensor-parallel ranks repeat counts each time"
    yield head.figure("parameters", count, "", formula, source)
    for name in ("weight", "master", "moment"):
        each = f"{name}_bytes"
        yield head.figure(f"{name}s", count * basis.given[each], "B", f"parameters x {each}", f"given {each}")
    yield head.figure("state", count * basis.state_bytes, "B", "weights + masters + moments", "the lines above")
    gradient = basis.plan.cost.gradient_bytes
    yield head.figure("gradient a step", gradient, "B", "sum over groups of bucket elements x size", source)
    mirrored = sum(load.bytes for load in basis.traffic.points.values())
    yield head.figure(
        "mirrored a step",
        mirrored,
        "B",
        "sum of the observation points, headers and gaps included",
        "observation points",
    )
    yield head.figure("mirrored per gradient byte", mirrored / gradient, "", "mirrored / gradient", "the lines above")


def points(basis: Basis) -> Iterator[Figure]:
    """Bytes a step at each observation point."""
    formula = "sum over hops of payload + packets x headers and gap + messages x (RETH + immediate)"
    for name, load in sorted(basis.traffic.points.items()):
        yield Heading("observation points", name).figure("bytes a step", load.bytes, "B", formula, "plan: hops, wire")


def monitor(basis: Basis) -> Iterator[Figure]:
    """Use of capture ports: what exceeds one is lost in the mirror, not queued."""
    for port, load in sorted(basis.traffic.captures.items()):
        head = Heading("monitor ports", port)
        planned = basis.port_loads[port]
        line = planned.capacity * 1e6
        mean, burst = 8 * load.bytes / basis.seconds, 8 * load.bytes / basis.window
        source = "plan: loads (headroom taken off)"
        yield head.figure("mean rate", mean, "bit/s", "8 x bytes a step / iteration time", "plan: hops, wire")
        yield head.figure("mean use", mean / line, "", "mean rate / capacity", source)
        yield head.figure("burst rate", burst, "bit/s", "mean rate / window_share", "given window_share")
        yield head.figure("burst use", burst / line, "", "burst rate / capacity", source)
        formula = "rate of its sources by the policy's rate model / capacity"
        yield head.figure("planned use", planned.load / planned.capacity, "", formula, source)


def rates(basis: Basis) -> Iterator[Figure]:
    """Iterations a second that each stage can follow, and the slowest of those that every step must pass."""
    job = Heading("iteration rates")
    yield job.figure("training", 1 / basis.seconds, "1/s", "1 / iteration time", "job.yaml")
    ports = min(
        basis.port_loads[port].capacity * 1e6 / (8 * load.bytes) for port, load in basis.traffic.captures.items()
    )
    stages = {
        "monitor ports": (ports, "least capacity / (8 x bytes a step), as if spread evenly", "plan: loads, hops"),
        "receivers": (
            min(basis.receiver_rate(node) for node in basis.nodes),
            "receiver_cores x least of core_bits / (8 x bytes), core_packets / packets",
            "given receiver_cores, core_bits, core_packets",
        ),
        "memory bandwidth": (
            min(basis.memory_rate(node) for node in basis.nodes),
            "memory_bandwidth / (receive_touches x bytes + replay_bytes x parameters)",
            "given memory_bandwidth, receive_touches, replay_bytes",
        ),
    }
    for stage, (rate, formula, source) in stages.items():
        yield Heading("iteration rates", stage).figure("largest rate", rate, "1/s", formula, source)
    slowest = min(stages, key=lambda stage: stages[stage][0])
    yield job.figure("largest rate", stages[slowest][0], "1/s", f"the slowest stage: {slowest}", "the lines above")
    formula = "storage_rate / state of the fullest node; steps in between are not dumped"
    yield job.figure("largest rate of dumps", 1 / basis.dump_seconds(), "1/s", formula, "given storage_rate")


def backlog(basis: Basis) -> Iterator[Figure]:
    """What queues up in a node's memory where applying is slower than training."""
    for node in basis.nodes:
        head = Heading("backlog", node.name)
        growth = max(0.0, 1 / basis.seconds - basis.memory_rate(node))
        size = growth * node.parameters * basis.given["gradient_bytes"]
        formula = "max(0, 1 / iteration time - its memory bandwidth's largest rate)"
        yield head.figure("growth", growth, "1/s", formula, "iteration rates")
        formula = "growth x parameters x gradient_bytes"
        yield head.figure("growth in bytes", size, "B/s", formula, "given gradient_bytes")
        free = max(0.0, basis.given["memory"] - basis.memory_bytes(node))
        formula = "(memory - memory wanted) / growth in bytes"
        yield head.figure("time until full", free / size if size else None, "s", formula, "given memory")
