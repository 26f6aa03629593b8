"""Receivers, memory and storage of checkpoint nodes."""

from collections.abc import Iterator

from flowcheck_net.plan.capacity_basis import Basis
from flowcheck_net.plan.capacity_report import Figure, Heading


def receivers(basis: Basis) -> Iterator[Figure]:
    """What arrives at each node, against its cores and NICs. What exceeds them is lost, not queued."""
    for node in basis.nodes:
        head = Heading("receivers", node.name)
        source = "plan: hops, wire"
        yield head.figure("bytes a step", node.load.bytes, "B", "sum of its capture ports", source)
        yield head.figure("packets a step", node.load.packets, "", "sum of its capture ports", source)
        mean = 1 / basis.seconds / basis.receiver_rate(node)
        formula = "largest of 8 x bytes / core_bits, packets / core_packets; over receiver_cores x iteration time"
        yield head.figure("mean use", mean, "", formula, "given receiver_cores, core_bits, core_packets")
        burst = mean / basis.given["window_share"]
        yield head.figure("burst use", burst, "", "mean use / window_share", "given window_share")
        line = 8 * node.load.bytes / basis.window / node.line_bits
        formula = "8 x bytes a step / (iteration time x window_share) / capacity of its capture ports in use"
        yield head.figure("NIC burst use", line, "", formula, "plan: loads")


def memory(basis: Basis) -> Iterator[Figure]:
    """State and buffers of each node."""
    for node in basis.nodes:
        head = Heading("memory", node.name)
        formula = "parameters of the groups that live here (the node that sees most hops of a group) x bytes of state"
        yield head.figure("state", node.parameters * basis.state_bytes, "B", formula, "state")
        buffers = basis.memory_bytes(node) - node.parameters * basis.state_bytes
        formula = "parameters x gradient_bytes x buffered_steps"
        yield head.figure("buffers", buffers, "B", formula, "given gradient_bytes, buffered_steps")
        wanted = basis.memory_bytes(node)
        yield head.figure("memory wanted", wanted, "B", "state + buffers", "the lines above")
        use = wanted / basis.given["memory"]
        yield head.figure("memory use", use, "", "memory wanted / memory", "given memory")


def storage(basis: Basis) -> Iterator[Figure]:
    """Durable dumps of each node's state."""
    for node in basis.nodes:
        head = Heading("storage", node.name)
        state = basis.dump_bytes(node)
        rate = state / basis.given["dump_interval"]
        disk = basis.given["storage_rate"]
        yield head.figure("a dump", state, "B", "its state", "memory")
        yield head.figure("time of a dump", state / disk, "s", "a dump / storage_rate", "given storage_rate")
        yield head.figure("rate wanted", rate, "B/s", "a dump / dump_interval", "given dump_interval")
        yield head.figure("storage use", rate / disk, "", "rate wanted / storage_rate", "given storage_rate")
