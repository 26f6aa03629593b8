"""The inventory file of ``discover``: which devices to ask, and how they are reached."""

from typing import Annotated, Literal

from pydantic import Field

from flowcheck_net.spec.base import Name, Spec, Version
from flowcheck_net.spec.topology import Management


class InventoryDevice(Spec):
    """A device to ask."""

    name: Name
    """As the device calls itself by LLDP: neighbours are told apart by it."""
    platform: Name
    """Name of a capability table, such as ``eos``."""
    management: Management
    """``kind:reference``, as in a topology."""
    role: Literal["switch", "host", "checkpoint"] = "switch"
    """What it is in the topology."""


class Inventory(Spec):
    """Devices to ask."""

    version: Version
    devices: Annotated[tuple[InventoryDevice, ...], Field(min_length=1)]
    """All of them, each once."""
