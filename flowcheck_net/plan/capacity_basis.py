"""What all sections of a capacity report are reckoned from."""

from dataclasses import dataclass

from flowcheck_net.ids import CapturePort
from flowcheck_net.model.job import BucketKind
from flowcheck_net.plan.capacity_given import Givens
from flowcheck_net.plan.capacity_laws import loss_chance, stale_seconds
from flowcheck_net.plan.capacity_traffic import Load, Traffic, base_group, traffic
from flowcheck_net.plan.plan import CaptureLoad, Plan


@dataclass(frozen=True, slots=True)
class Node:
    """A checkpoint node with what one step brings and what it keeps."""

    name: str
    load: Load
    line_bits: float
    """bit/s of its capture ports in use, headroom taken off."""
    parameters: int
    """Of the groups whose state lives here."""


class Basis:
    """Plan, given numbers and traffic, and the rates that several sections show."""

    def __init__(self, plan: Plan, given: Givens) -> None:
        self.plan = plan
        self.given = given
        self.traffic: Traffic = traffic(plan)
        self.seconds = plan.job.iteration_time
        self.window = plan.job.iteration_time * given["window_share"]
        """Seconds of an iteration in which gradients flow."""
        self.parameters = _parameters(plan)
        """Data-parallel group -> its parameters."""
        self.port_loads: dict[CapturePort, CaptureLoad] = {load.capture: load for load in plan.loads}
        self.state_bytes = given["weight_bytes"] + given["master_bytes"] + given["moment_bytes"]
        """Of one parameter."""
        self.nodes = self._make_nodes()

    def receiver_rate(self, node: Node) -> float:
        """Steps a second that the receiving cores of a node can take in."""
        by_bits = self.given["core_bits"] / (8 * node.load.bytes)
        by_packets = self.given["core_packets"] / node.load.packets
        return float(self.given["receiver_cores"] * min(by_bits, by_packets))

    def memory_rate(self, node: Node) -> float:
        """Steps a second that the memory of a node can receive and apply."""
        moved = self.given["receive_touches"] * node.load.bytes + self.given["replay_bytes"] * node.parameters
        return self.given["memory_bandwidth"] / moved

    def memory_bytes(self, node: Node) -> float:
        """State and gradient buffers of a node."""
        return self.dump_bytes(node) + node.parameters * self.given["gradient_bytes"] * self.given["buffered_steps"]

    def dump_bytes(self, node: Node) -> float:
        """State of a node, as it is dumped."""
        return node.parameters * self.state_bytes

    def dump_seconds(self) -> float:
        """Of the fullest node."""
        return max(self.dump_bytes(node) for node in self.nodes) / self.given["storage_rate"]

    def lost(self) -> float:
        """Chance that an update is lost in the mirror for good."""
        return loss_chance(self.traffic.packets_by_copies.items(), self.given["mirror_loss"])

    def replica_age(self) -> float | None:
        """Mean seconds from training to the replica; None where a node cannot keep up: it grows without end."""
        if any(min(self.memory_rate(n), self.receiver_rate(n)) < 1 / self.seconds for n in self.nodes):
            return None
        stale = stale_seconds(self.lost() / self.seconds, self.given["anchor_interval"])
        return self.seconds * self.given["lag_steps"] + stale

    def _make_nodes(self) -> tuple[Node, ...]:
        line: dict[str, float] = {}
        for port, load in self.port_loads.items():
            name = port.partition(":")[0]
            line[name] = line.get(name, 0.0) + load.capacity * 1e6
        lives: dict[str, int] = {}
        for group, name in self.traffic.homes.items():
            lives[name] = lives.get(name, 0) + self.parameters[group]
        return tuple(
            Node(name, load, line[name], lives.get(name, 0)) for name, load in sorted(self.traffic.nodes.items())
        )


def _parameters(plan: Plan) -> dict[str, int]:
    """Data-parallel group -> elements that it reduces in a step."""
    elements = {kind: sum(b.elements for b in plan.job.wire.buckets if b.kind is kind) for kind in BucketKind}
    return {base_group(lane.group): sum(elements[kind] for kind in lane.carries) for lane in plan.job.lanes}
