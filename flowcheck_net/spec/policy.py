"""``policy.yaml``: how safe the observation must be, and what it may use."""

from typing import Annotated, Literal

from pydantic import Field

from flowcheck_net.spec.base import Rate, Spec, Version, gbps

PortGlob = Annotated[str, Field(pattern=r"^[^\s:]+:\S+$", description="switch:port, with * ? [..] as in a shell")]
MeasuredPort = Annotated[str, Field(pattern=r"^[^\s:]+:\S+:(rx|tx)$")]


class Monitor(Spec):
    """How the load of a capture port is reckoned."""

    rate_model: Literal["line_rate", "average", "measured"] = "line_rate"
    """``line_rate``: a mirrored port counts with its speed. ``average``: with the job's bytes over the iteration time.
    ``measured``: with the rate under ``measured``, else with its speed."""
    headroom: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of a capture port's speed that stays free, 0 to below 1."""
    measured: dict[MeasuredPort, Rate] = Field(default_factory=dict)
    """Peak rates, ``switch:port:rx`` or ``:tx`` to a rate such as ``120G``. Only with ``rate_model: measured``."""

    @property
    def measured_gbps(self) -> dict[str, float]:
        """``switch:port:direction`` -> Gbit/s."""
        return {place: gbps(rate) for place, rate in self.measured.items()}


class FailureDomains(Spec):
    """What copies must not share."""

    copies_apart: tuple[str, ...] = ()
    """Globs of failure domains, such as ``rack-*``: copies of one ring share no domain that one of them names."""
    checkpoint_apart: bool = True
    """True: a checkpoint node shares no failure domain with a host whose gradients it receives."""


class Remote(Spec):
    """May copies cross the fabric, encapsulated, to a checkpoint node on another switch?"""

    over_fabric: bool = False
    """True: they may, where the platform can (ERSPAN) and the capture NIC has an address."""
    uplink_share: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Share of the speed of each link between switches that copies may use."""


class Policy(Spec):
    """What the plan must reach and may use."""

    version: Version
    copies: Annotated[int, Field(ge=1, le=1024)] = 2
    """Distinct hops that show every fully reduced byte; a ring needs one watched hop more."""
    monitor: Monitor = Monitor()
    failure_domains: FailureDomains = FailureDomains()
    allowed_ports: Annotated[tuple[PortGlob, ...], Field(min_length=1)] = ("*:*",)
    """Globs of ``switch:port`` that may be watched; default: all."""
    remote: Remote = Remote()
    """Copies that leave their switch."""
    cuts: bool = False
    """True: where a hop may take several equal paths, all ports of a stage together may be watched in place of one."""
    survive: Annotated[int, Field(ge=0, le=1)] = 0
    """1: every ring is still complete after the loss of any one observation switch, capture port or checkpoint node."""
    strategy: Literal["port", "reduced", "exact"] = "port"
    """``port``: every packet of a watched port. ``reduced``: only fully reduced messages. ``exact``: each fully reduced
    chunk ``copies`` times and no more. The last two need platforms that can follow messages."""
