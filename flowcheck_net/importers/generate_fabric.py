"""Four kinds of fabric, each as switches with cabled ports.

Rail-optimised: a pod has one leaf a rail, NIC ``r`` of each of its hosts hangs on leaf ``r``, and the leaves of one
rail share that rail's spines; rails meet inside the hosts only. Leaf-spine: all NICs of a host hang on one leaf.
Fat-tree: the three-tier tree of Al-Fares et al. (2008), ``k`` pods of ``k/2`` edge and ``k/2`` aggregation switches,
``(k/2)^2`` cores. Dragonfly: Kim et al. (2008), balanced: groups of ``2h`` routers, each with ``h`` NICs and ``h``
global links, one global link between any two groups.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from flowcheck_net.importers.generate_shape import Shape, ShapeError


class FabricBuilder:
    """Switches, hosts and cables as they are put together; ports are numbered as they are used."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._ports: dict[str, list[dict[str, str]]] = {}
        self._domain: dict[str, str] = {}
        self._links: list[tuple[str, str]] = []
        self._hosts: list[dict[str, Any]] = []
        self._nodes: dict[str, list[dict[str, str]]] = {}
        self.leaf_of: dict[tuple[int, int], str] = {}
        """(host number, NIC number) -> the switch that it hangs on."""

    def switch(self, name: str, domain: str) -> str:
        """Add a switch; what shares ``domain`` fails together. Returns its name."""
        self._ports[name] = []
        self._domain[name] = domain
        return name

    def host(self, number: int, leaves: Sequence[str]) -> None:
        """Add a host whose NIC ``n`` hangs on ``leaves[n]``."""
        name = host_name(number)
        first = number * len(leaves)
        self._hosts.append(
            {
                "name": name,
                "failure_domains": tuple(dict.fromkeys(self._domain[leaf] for leaf in leaves)),
                "nics": tuple(
                    {"name": nic_name(n), "speed": self._shape.speed, "addresses": (_address(first + n),)}
                    for n in range(len(leaves))
                ),
            }
        )
        for n, leaf in enumerate(leaves):
            self.leaf_of[number, n] = leaf
            self._links.append((f"{name}:{nic_name(n)}", self._port(leaf, self._shape.speed)))

    def cable(self, one: str, other: str) -> None:
        """Add a link between two switches."""
        self._links.append((self._port(one, self._shape.speed), self._port(other, self._shape.speed)))

    def add_captures(self, count: int) -> None:
        """Hang ``count`` capture NICs on each switch with hosts; a failure domain shares one checkpoint node."""
        speed = self._shape.capture_speed
        for leaf in dict.fromkeys(self.leaf_of.values()):
            node = f"ckpt-{self._domain[leaf]}"
            nics = self._nodes.setdefault(node, [])
            for _ in range(count):
                name = f"cap{len(nics)}"
                nics.append({"name": name, "speed": speed})
                self._links.append((f"{node}:{name}", self._port(leaf, speed)))

    def document(self, name: str) -> dict[str, Any]:
        """The topology file."""
        return {
            "version": 1,
            "name": name,
            "switches": tuple(
                {
                    "name": switch,
                    "platform": self._shape.platform,
                    "management": f"{self._shape.platform}:{switch}",
                    "failure_domains": (self._domain[switch],),
                    "ports": tuple(ports),
                }
                for switch, ports in self._ports.items()
                if ports
            ),
            "hosts": tuple(self._hosts),
            "checkpoint_nodes": tuple(
                {"name": node, "failure_domains": (node,), "nics": tuple(nics)} for node, nics in self._nodes.items()
            ),
            "links": tuple(self._links),
        }

    def _port(self, switch: str, speed: str) -> str:
        ports = self._ports[switch]
        ports.append({"name": f"Ethernet{len(ports) + 1}", "speed": speed})
        return f"{switch}:{ports[-1]['name']}"


def host_name(number: int) -> str:
    """``host0``, ``host1``, ..."""
    return f"host{number}"


def nic_name(number: int) -> str:
    """``mlx5_0``, ``mlx5_1``, ..."""
    return f"mlx5_{number}"


def build_rail(shape: Shape) -> FabricBuilder:
    """Rail-optimised: see the head of the module.

    Raises:
        ShapeError: a data-parallel group would have ranks on several rails, between which no switch forwards.
    """
    if shape.tp % shape.gpus_per_host:
        raise ShapeError(
            f"with tp = {shape.tp} and {shape.gpus_per_host} GPUs a host, data-parallel groups would cross rails, "
            "which meet inside the hosts only",
            hint="take a tp that is a multiple of the GPUs of a host, or another kind of fabric",
        )
    fabric = FabricBuilder(shape)
    size = shape.per_leaf(16)
    rails, pods = range(shape.gpus_per_host), range(-(-shape.hosts // size))
    leaves = {(p, r): fabric.switch(f"leaf-p{p}-r{r}", f"pod{p}") for p in pods for r in rails}
    spines = {(r, s): fabric.switch(f"spine-r{r}-{s}", f"rail{r}") for r in rails for s in range(shape.spines)}
    for number in range(shape.hosts):
        fabric.host(number, [leaves[number // size, r] for r in rails])
    for (_, rail), leaf in leaves.items():
        for s in range(shape.spines if len(pods) > 1 else 0):
            fabric.cable(leaf, spines[rail, s])
    return fabric


def build_leaf_spine(shape: Shape) -> FabricBuilder:
    """Leaf-spine: see the head of the module."""
    fabric = FabricBuilder(shape)
    size = shape.per_leaf(2)
    count = -(-shape.hosts // size)
    leaves = [fabric.switch(f"leaf{n}", f"rack{n}") for n in range(count)]
    spines = [fabric.switch(f"spine{n}", "spines") for n in range(shape.spines)]
    for number in range(shape.hosts):
        fabric.host(number, [leaves[number // size]] * shape.gpus_per_host)
    for leaf in leaves if count > 1 else ():
        for spine in spines:
            fabric.cable(leaf, spine)
    return fabric


def build_fat_tree(shape: Shape) -> FabricBuilder:
    """Fat-tree of ``shape.k`` ports a switch (capture ports come on top): see the head of the module.

    Raises:
        ShapeError: ``k`` is odd or holds fewer NICs than there are.
    """
    nics = shape.hosts * shape.gpus_per_host
    k = shape.k if shape.k is not None else next(k for k in range(2, 2 * nics + 3, 2) if k**3 // 4 >= nics)
    if k < 2 or k % 2 or k**3 // 4 < nics:
        raise ShapeError(f"a fat-tree of k = {k} holds {max(k, 0) ** 3 // 4} NICs, k being even; there are {nics}")
    half = k // 2
    fabric = FabricBuilder(shape)
    used = -(-nics // (half * half))  # pods with hosts; an empty pod is left out
    edges = [fabric.switch(f"edge-p{p}-{e}", f"pod{p}") for p in range(used) for e in range(half)]
    for number in range(shape.hosts):
        first = number * shape.gpus_per_host
        fabric.host(number, [edges[n // half] for n in range(first, first + shape.gpus_per_host)])
    for p in range(used):
        uppers = [fabric.switch(f"agg-p{p}-{a}", f"pod{p}") for a in range(half)]
        for edge in edges[p * half : (p + 1) * half]:
            for upper in uppers:
                fabric.cable(edge, upper)
    for a in range(half):
        for c in range(half if used > 1 else 0):
            core = fabric.switch(f"core-{a}-{c}", "cores")
            for p in range(used):
                fabric.cable(f"agg-p{p}-{a}", core)
    return fabric


def build_dragonfly(shape: Shape) -> FabricBuilder:
    """Dragonfly with the smallest ``h`` that holds all NICs: see the head of the module."""
    nics = shape.hosts * shape.gpus_per_host
    h = next(h for h in range(1, nics + 1) if 2 * h * h * (2 * h * h + 1) >= nics)
    groups = -(-nics // (2 * h * h))
    fabric = FabricBuilder(shape)
    routers = [[fabric.switch(f"router-g{g}-{n}", f"group{g}") for n in range(2 * h)] for g in range(groups)]
    flat = [router for group in routers for router in group]
    for number in range(shape.hosts):
        first = number * shape.gpus_per_host
        fabric.host(number, [flat[n // h] for n in range(first, first + shape.gpus_per_host)])
    for group in routers:
        for one, other in combinations(group, 2):
            fabric.cable(one, other)
    for low, high in combinations(range(groups), 2):
        # Each group counts its links to the others from the next group on; h of them are on each of its routers.
        ahead, behind = high - low - 1, groups - 1 - (high - low)
        fabric.cable(routers[low][ahead // h], routers[high][behind // h])
    return fabric


def _address(number: int) -> str:
    """The ``number``-th address of 10.0.0.0/8, after 10.0.0.0."""
    value = number + 1
    return f"10.{value >> 16}.{value >> 8 & 255}.{value & 255}"
