"""The capture ports of ``flowcheck-net receive``: what the plan asks for, and what ``--port`` says where each is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from flowcheck_net.ids import CapturePort
    from flowcheck_net.plan.plan import Plan
    from flowcheck_net.receive.receiver_device import Port

_RDMA_MTU = 4096
"""The largest there is, where no plan says."""
_AROUND_PAYLOAD = 160
"""IPv6, UDP, BTH, RETH, immediate, ICRC (92 bytes), and an outer IPv4, GRE, ERSPAN and Ethernet header with tags."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is the same for all ports."""

    mtu: int | None
    workers: int
    descriptors: int
    spread: str
    sleep_us: int | None


def planned_ports(plan: "Plan", name: str, node: str, named: Sequence[str], wishes: Wishes) -> "tuple[Port, ...]":
    """The ports of a node. ``name``: of the plan."""
    found = _planned(plan, name, node)
    return _ports(found.captures, named, _maker(found, wishes))


def unplanned_ports(named: Sequence[str], wishes: Wishes) -> "tuple[Port, ...]":
    """The ports that the user names."""
    return _ports((), named, _maker(_Planned((), _RDMA_MTU, tunnelled=True), wishes))


@dataclass(frozen=True, slots=True)
class _Planned:
    """What a plan says of a node."""

    captures: "tuple[CapturePort, ...]"
    mtu: int
    tunnelled: bool
    """Switches send copies over the fabric."""


def _planned(plan: "Plan", name: str, node: str) -> _Planned:
    """The capture ports of a node, sorted, and how packets come to them."""
    from flowcheck_net.errors import PlanError
    from flowcheck_net.plan.places import REMOTE

    found = tuple(sorted({planned.capture for planned in plan.sessions if planned.capture.partition(":")[0] == node}))
    if not found:
        nodes = sorted({planned.capture.partition(":")[0] for planned in plan.sessions})
        raise PlanError(f"{name} mirrors nothing to a node {node!r}", hint=f"its nodes are {', '.join(nodes)}")
    return _Planned(found, plan.job.wire.mtu, any(load.port.startswith(REMOTE) for load in plan.loads))


def _maker(found: _Planned, wishes: Wishes) -> "Callable[[CapturePort, str, int], Port]":
    """What makes a port of its name, its device as written, and its number."""
    from flowcheck_net.receive.receiver_device import Port, device_of

    mtu = wishes.mtu or found.mtu + _AROUND_PAYLOAD

    def made(name: "CapturePort", device: str, number: int) -> Port:
        return Port(
            name,
            device_of(device, number, mtu),
            mtu,
            wishes.workers,
            wishes.descriptors,
            wishes.spread,
            wishes.sleep_us,
            found.tunnelled,
        )

    return made


def _ports(
    wanted: "Sequence[CapturePort]", named: Sequence[str], made: "Callable[[CapturePort, str, int], Port]"
) -> "tuple[Port, ...]":
    from flowcheck_net.ids import CapturePort

    devices: dict[CapturePort, str] = {}
    for option in named:
        name, equals, device = option.partition("=")
        if not equals or not name or not device:
            raise click.BadParameter(f"{option!r} is not NAME=DEVICE", param_hint="--port")
        port = _full_name(name, wanted)
        if port in devices:
            raise click.BadParameter(f"{port} has two devices", param_hint="--port")
        devices[port] = device
    missing = [port for port in wanted if port not in devices]
    if missing or not devices:
        listed = " ".join(f"--port {port}=DEVICE" for port in missing or [CapturePort("NAME")])
        raise click.UsageError(f"no device is given for {', '.join(missing) or 'any capture port'}: add {listed}")
    return tuple(made(name, text, number) for number, (name, text) in enumerate(sorted(devices.items())))


def _full_name(name: str, wanted: "Sequence[CapturePort]") -> "CapturePort":
    from flowcheck_net.ids import CapturePort

    if not wanted:
        return CapturePort(name)
    for port in wanted:
        if name in (port, port.partition(":")[2]):
            return port
    raise click.BadParameter(
        f"the plan gives this node no capture port {name!r}; it has {', '.join(wanted)}", param_hint="--port"
    )
