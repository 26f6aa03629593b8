"""What the three input files share: the strict base class and the words for names and rates."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from flowcheck_net.spec.ranges import NAME_LENGTH, NAME_PATTERN, PORT_PATTERN, canonical_address

_RATE = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>[GM])")

Version = Annotated[int, Field(ge=1, le=1, description="Version of the file format: 1.")]
Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=NAME_LENGTH)]
"""A device, a NIC or a bucket: letters, digits, dot, underscore, dash; never a colon."""
Port = Annotated[str, Field(pattern=PORT_PATTERN, max_length=NAME_LENGTH)]
"""A switch port, such as ``Ethernet1/1`` or ``et-0/0/1:0``."""
Rate = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?[GM]$", max_length=20)]
"""Bits per second with a decimal unit, such as ``120G`` or ``800M``."""


IpAddress = Annotated[str, AfterValidator(canonical_address), Field(max_length=64)]
"""An IPv4 or IPv6 address, kept in its canonical form."""


class Spec(BaseModel):
    """Frozen, without unknown keys and without silent conversions."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


def gbps(rate: str) -> float:
    """Gigabits per second of a rate such as ``400G`` or ``800M``."""
    match = _RATE.fullmatch(rate)
    if match is None:
        raise ValueError(f"not a rate: {rate!r}")
    return float(match["number"]) * (1.0 if match["unit"] == "G" else 1e-3)


def split_end(end: str) -> tuple[str, str]:
    """``device:port`` -> (device, port). Only the first colon divides: port names may hold colons."""
    device, _, port = end.partition(":")
    return device, port
