"""Which driver speaks to a switch: a fixed map and an entry-point group, loaded only when asked for.

The kind before the colon of ``SwitchAddress.management`` names the driver. A factory is called as
``factory(address, job, state_dir)`` and returns a ``Driver`` that is not connected yet. Module names never come from
user input.
"""

import importlib
import sys
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import cast

from flowcheck_net.drivers.base import Driver
from flowcheck_net.errors import DriverError
from flowcheck_net.intent import SwitchAddress

GROUP = "flowcheck_net.drivers"
BUILT_IN = {
    "fake": "flowcheck_net.drivers.fake:open_fake",
    "ovs": "flowcheck_net.drivers.ovs:open_ovs",
    "p4rt": "flowcheck_net.drivers.p4runtime:open_p4runtime",
    "tc": "flowcheck_net.drivers.tc:open_tc",
    "ssh": "flowcheck_net.drivers.ssh:open_ssh",
    "eapi": "flowcheck_net.drivers.eapi:open_eapi",
    "nxapi": "flowcheck_net.drivers.nxapi:open_nxapi",
    "netconf": "flowcheck_net.drivers.netconf:open_netconf",
    "sonic": "flowcheck_net.drivers.sonic:open_sonic",
}
EXTRAS = {"p4rt": "p4", "ssh": "vendor", "eapi": "vendor", "nxapi": "vendor", "netconf": "vendor", "sonic": "vendor"}
"""Driver -> the extra of the package that has what it needs."""

Factory = Callable[[SwitchAddress, str, Path], Driver]


def open_driver(address: SwitchAddress, job: str, state_dir: Path) -> Driver:
    """The driver for ``address``, not connected yet; sessions of ``job`` count as ours.

    Raises:
        DriverError: the driver is unknown, claimed twice, or cannot be loaded.
    """
    kind, _, _ = address.management.partition(":")
    return _load(address, kind)(address, job, state_dir)


def known_drivers() -> tuple[str, ...]:
    """Names of all drivers, built in and installed, sorted."""
    return tuple(sorted({*BUILT_IN, *(e.name for e in _installed(tuple(sys.path)))}))


def _load(address: SwitchAddress, kind: str) -> Factory:
    claims = _claims(kind)
    if not claims:
        raise DriverError(
            address.name,
            f"no driver named {kind!r} (management is {address.management!r})",
            hint=f"known drivers: {', '.join(known_drivers())}",
        )
    if len(claims) > 1:
        raise DriverError(
            address.name,
            f"driver {kind!r} is claimed twice: {' and '.join(claims)}",
            hint="uninstall one of the two packages",
        )
    module, _, attribute = claims[0].split(" ")[0].partition(":")
    try:
        factory = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        cure = f"pip install 'flowcheck-net[{EXTRAS[kind]}]'" if kind in EXTRAS else ""
        text = f"driver {kind!r} ({claims[0]}) cannot be loaded: {error}"
        raise DriverError(address.name, text, hint=cure) from error
    if not callable(factory):
        raise DriverError(address.name, f"driver {kind!r} ({claims[0]}) is not callable")
    return cast(Factory, factory)


def _claims(kind: str) -> list[str]:
    """Everyone who offers ``kind``, as ``module:callable (origin)``."""
    built_in = [f"{BUILT_IN[kind]} (built in)"] if kind in BUILT_IN else []
    installed = {f"{e.value} ({_origin(e)})" for e in _installed(tuple(sys.path)) if e.name == kind}
    return built_in + sorted(installed)


@cache
def _installed(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """What installed packages offer. Looking through all of them takes 50 ms, and a fabric has many switches."""
    del path
    return tuple(entry_points(group=GROUP))


def _origin(entry: EntryPoint) -> str:
    return f"package {entry.dist.name}" if entry.dist else "unknown package"
