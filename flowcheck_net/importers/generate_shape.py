"""The numbers of a made-up cluster."""

from dataclasses import dataclass

from flowcheck_net.errors import FlowcheckError


class ShapeError(FlowcheckError):
    """No such cluster can be: the message says which numbers do not go together."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Shape:
    """How large a generated cluster is, and how its job is laid out."""

    hosts: int
    gpus_per_host: int = 8
    """Also NICs of a host: every GPU has one of its own."""
    tp: int = 8
    """Tensor-parallel size."""
    pp: int = 1
    """Pipeline-parallel size; the data-parallel size is what remains."""
    channels: int = 2
    """NCCL channels: each group has so many rings."""
    copies: int = 2
    """``policy.copies``."""
    speed: str = "400G"
    """Of NICs, and of links between switches."""
    capture_speed: str = "800G"
    """Of capture NICs."""
    capture_ports: int | None = None
    """Capture NICs on each switch that hosts hang on; None: as many as are needed."""
    hosts_per_leaf: int | None = None
    """Hosts of a pod (rail-optimised, None: 16) or a leaf (leaf-spine, None: 2). The others follow from the NICs."""
    spines: int = 4
    """Spines of a rail (rail-optimised) or of the fabric (leaf-spine); so many uplinks has each leaf."""
    k: int | None = None
    """Ports of a fat-tree's switch, even; None: the smallest that holds all NICs."""
    shuffle: bool = False
    """True: ranks are placed on hosts at random, so that groups are scattered over the fabric."""
    seed: int = 0
    """Of ``shuffle``."""
    platform: str = "fake"
    """Capability table of all switches."""
    rate_model: str | None = None
    """``policy.monitor.rate_model``; None: line_rate where the platform has sessions enough for it, else average."""
    elements: int = 40_000_000
    """Gradient elements of a GPU (fp32), one bucket. Megatron's bucket holds at least so many."""
    iteration_time: float = 10.0
    """Seconds."""

    @property
    def gbps(self) -> int:
        """Gbit/s of a NIC."""
        return int(self.speed.removesuffix("G"))

    @property
    def capture_gbps(self) -> int:
        """Gbit/s of a capture NIC."""
        return int(self.capture_speed.removesuffix("G"))

    def per_leaf(self, usual: int) -> int:
        """Hosts of a pod or leaf, ``usual`` where nothing is said."""
        return usual if self.hosts_per_leaf is None else self.hosts_per_leaf
