"""The ranges and forms of values that the input files and the plan file share, without pydantic."""

import ipaddress

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
PORT_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._/:-]*$"
NAME_LENGTH = 63
"""Characters of a device, NIC, bucket or port name at the most."""
JOB_PATTERN = r"^[a-z0-9]+(-[a-z0-9]+)*$"
JOB_LENGTH = 40
GROUP_PATTERN = r"^(dp|edp|inst|rep)[0-9]{1,9}$"
MANAGEMENT_PATTERN = r"^[a-z][a-z0-9_-]*:[^\s@]+$"
MANAGEMENT_LENGTH = 255

COUNT_END = 2**31
"""Ranks and sizes of parallel axes stay below it."""
QPN_FIRST, QPN_END = 2, 2**24
"""Queue pair numbers have 24 bits; 0 and 1 are for management."""
MTUS = (256, 512, 1024, 2048, 4096)
"""RoCE path MTUs in bytes."""
MOST_CHANNELS = 64
MOST_QPS = 128
"""Queue pairs of a connection."""
MOST_HEADS = 32
"""NVLS heads of a host that a job file may name."""
MOST_ELEMENTS = 2**40
MOST_BROADCAST_BYTES = 2**44
MOST_SECONDS = 1e9

OLDEST_NCCL = (2, 8)
NEWEST_NCCL = (2, 30)
LEAST_THREADS, THREAD_STEP = 64, 32
MAX_THREADS = {"LL": 512, "LL128": 640, "Simple": 640}
"""NCCL_LL_MAX_NTHREADS, NCCL_LL128_MAX_NTHREADS and the largest block of any protocol (``src/include/device.h``)."""


def canonical_address(text: str) -> str:
    """The one text form of an IPv4 or IPv6 address (RFC 5952); an IPv4-mapped IPv6 address (a RoCE GID) is IPv4.

    Raises:
        ValueError: not an address of a NIC.
    """
    if "/" in text:
        raise ValueError("must be an address without a prefix length")
    if "%" in text:
        raise ValueError("must be an address without a zone")
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise ValueError("must be an IPv4 or IPv6 address") from None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if address.is_multicast or address.is_unspecified:
        raise ValueError("must be the address of one NIC")
    return str(address)
