"""``topology.yaml``: switches, hosts, checkpoint nodes and the links between them."""

from typing import Annotated, Literal

from pydantic import Field

from flowcheck_net.spec.base import IpAddress, Name, Port, Spec, Version

Speed = Literal["10G", "25G", "40G", "50G", "100G", "200G", "400G", "800G"]
LinkEnd = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*:[A-Za-z0-9][A-Za-z0-9._/:-]*$", description="device:port")
]
Management = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]*:[^\s@]+$", max_length=255)]


class SwitchPort(Spec):
    """A front-panel port of a switch."""

    name: Port
    """Name as the switch itself writes it, such as ``Ethernet1/1``."""
    speed: Speed
    """Line rate in each direction."""
    shared: bool = False
    """True where traffic of other tenants crosses this port; such a port is mirrored only through a filter."""

    @property
    def gbps(self) -> int:
        """Line rate in Gbit/s, one direction."""
        return int(self.speed.removesuffix("G"))


class Switch(Spec):
    """A switch that can mirror."""

    name: Name
    """Unique among all devices."""
    platform: Name
    """Name of a capability table, such as ``fake``."""
    management: Management
    """``kind:reference``, how the driver finds the switch. A reference only: no user, no password."""
    failure_domains: tuple[Name, ...] = ()
    """What fails together with this switch: rack, power feed, room."""
    ports: Annotated[tuple[SwitchPort, ...], Field(min_length=1)]
    """The ports that links use."""


class HostNic(Spec):
    """A NIC of a training host."""

    name: Name
    """RDMA device name, such as ``mlx5_0``."""
    speed: Speed
    """Line rate in each direction."""
    addresses: Annotated[tuple[IpAddress, ...], Field(min_length=1)]
    """IPv4 or IPv6 addresses of its RoCE GIDs. Ranks send from the first."""

    @property
    def gbps(self) -> int:
        """Line rate in Gbit/s, one direction."""
        return int(self.speed.removesuffix("G"))


class Host(Spec):
    """A training host."""

    name: Name
    """Unique among all devices."""
    failure_domains: tuple[Name, ...] = ()
    """What fails together with this host: rack, power feed, room."""
    shared: bool = False
    """True where traffic of other tenants crosses its NICs."""
    nics: Annotated[tuple[HostNic, ...], Field(min_length=1)]
    """Its NICs on the training network."""


class CaptureNic(Spec):
    """A NIC that receives mirrored packets."""

    name: Name
    """Also the interface name in capture files, as ``node:nic``."""
    speed: Speed
    """Line rate: the budget of the mirror sessions that end here."""

    @property
    def gbps(self) -> int:
        """Line rate in Gbit/s, one direction."""
        return int(self.speed.removesuffix("G"))


class CheckpointNode(Spec):
    """A node that receives mirrored packets."""

    name: Name
    """Unique among all devices."""
    failure_domains: tuple[Name, ...] = ()
    """What fails together with this node: it should share nothing with the hosts that it protects."""
    nics: Annotated[tuple[CaptureNic, ...], Field(min_length=1)]
    """Its capture NICs."""


class Topology(Spec):
    """The fabric: what is there and how it is cabled."""

    version: Version
    name: Name
    """A name for people."""
    switches: Annotated[tuple[Switch, ...], Field(min_length=1)]
    """Every switch on a path of the job or with a capture NIC."""
    hosts: Annotated[tuple[Host, ...], Field(min_length=1)]
    """Every host of the job."""
    checkpoint_nodes: Annotated[tuple[CheckpointNode, ...], Field(min_length=1)]
    """Where mirrored packets may go."""
    links: Annotated[tuple[tuple[LinkEnd, LinkEnd], ...], Field(min_length=1)]
    """Cables, each a pair ``[device:port, device:port]``; for hosts and checkpoint nodes the port is the NIC."""
