"""``topology.yaml``: switches, hosts, checkpoint nodes and the links between them."""

from typing import Annotated, Literal

from pydantic import Field

from flowcheck_net.spec.base import IpAddress, Name, Port, Spec, Version
from flowcheck_net.spec.ranges import MANAGEMENT_LENGTH, MANAGEMENT_PATTERN

Speed = Literal["10G", "25G", "40G", "50G", "100G", "200G", "400G", "800G"]
LinkEnd = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*:[A-Za-z0-9][A-Za-z0-9._/:-]*$", description="device:port")
]
ForeignSource = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:-]*:(rx|tx|both)$")]
Management = Annotated[str, Field(pattern=MANAGEMENT_PATTERN, max_length=MANAGEMENT_LENGTH)]


class SwitchPort(Spec):
    """A front-panel port of a switch."""

    name: Port
    """Name as the switch itself writes it, such as ``Ethernet1/1``."""
    speed: Speed
    """Line rate in each direction."""
    shared: bool = False
    """True where traffic of other tenants crosses this port; such a port is mirrored only through a filter."""
    slice: Name | None = None
    """Slice (pipe, forwarding engine) of the switch's ASIC that serves the port; ports without one share a slice."""

    @property
    def gbps(self) -> int:
        """Line rate in Gbit/s, one direction."""
        return int(self.speed.removesuffix("G"))


class ForeignSession(Spec):
    """A mirror session of somebody else: it uses up limits, and its ports are taken."""

    name: Annotated[str, Field(min_length=1, max_length=255)]
    """As the switch shows it."""
    sources: tuple[ForeignSource, ...] = ()
    """``port:rx``, ``port:tx`` or ``port:both``."""
    destination: Port
    """The port that its copies go to."""


class SessionLimits(Spec):
    """One limit on mirror sessions."""

    counts: Literal["sessions", "rx", "tx", "directions"]
    """``directions``: a session that watches both directions counts twice."""
    most: Annotated[int, Field(ge=0, le=65536)]
    """So many and no more."""
    per_slice: bool = False
    """True: in each slice for itself."""


class Limits(Spec):
    """What this very switch can mirror, where it differs from its platform's table or has none."""

    max_sessions: Annotated[int, Field(ge=0, le=65536)] | None = None
    """Mirror sessions of the whole switch, other owners' included."""
    max_sources_per_session: Annotated[int, Field(ge=1, le=65536)] | None = None
    """Watched (port, direction) of one session."""
    directions: tuple[Literal["rx", "tx"], ...] | None = None
    """Directions that it can mirror."""
    filters: bool | None = None
    """Can a session be limited to given address pairs?"""
    source_in_many_sessions: bool | None = None
    """May one (port, direction) be a source of two sessions?"""
    split_directions: bool | None = None
    """May the two directions of one port be watched by two sessions?"""
    session_limits: tuple[SessionLimits, ...] | None = None
    """Limits by slice and by direction."""
    shared_destinations: bool | None = None
    """May two sessions send to one port?"""
    filter_families: tuple[Literal[4, 6], ...] | None = None
    """IP versions that a filter can match."""
    filter_directions: tuple[Literal["rx", "tx"], ...] | None = None
    """Directions in which filters work."""
    max_filter_entries: Annotated[int, Field(ge=0)] | None = None
    """Address pairs of all sessions together."""
    filter_entries_by_source: bool | None = None
    """True: it has so many rules in each direction, and every source takes one for each address pair of its session."""
    encapsulation_bytes: Annotated[int, Field(ge=0, le=256)] | None = None
    """Bytes that sending a copy to another switch adds (ERSPAN)."""
    one_copy_per_output: bool | None = None
    """True: a packet goes to one mirror port once, however many sources select it."""
    message_window: bool | None = None
    """Can it mirror a window of the messages of each loop?"""


class Switch(Spec):
    """A switch that can mirror."""

    name: Name
    """Unique among all devices."""
    platform: Name
    """Name of a capability table, such as ``fake``."""
    asic: Name | None = None
    """Family of its chip, such as ``broadcom-tomahawk4``: its table speaks where the platform's is silent."""
    management: Management
    """``kind:reference``, how the driver finds the switch. A reference only: no user, no password."""
    failure_domains: tuple[Name, ...] = ()
    """What fails together with this switch: rack, power feed, room."""
    ports: Annotated[tuple[SwitchPort, ...], Field(min_length=1)]
    """The ports that links use."""
    limits: Limits = Limits()
    """What this switch can mirror, where its platform's table is wrong or missing."""
    foreign_sessions: tuple[ForeignSession, ...] = ()
    """Mirror sessions of other owners."""


class HostNic(Spec):
    """A NIC of a training host."""

    name: Name
    """RDMA device name, such as ``mlx5_0``."""
    speed: Speed
    """Line rate in each direction."""
    addresses: Annotated[tuple[IpAddress, ...], Field(min_length=1)]
    """IPv4 or IPv6 addresses of its RoCE GIDs. Ranks send from the first."""
    lag: Name | None = None
    """NICs of a host with the same name here are one bond: traffic of each of them may take any of their cables."""

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
    address: IpAddress | None = None
    """Where encapsulated copies (ERSPAN) from other switches reach it; without: only copies of its own switch."""

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
