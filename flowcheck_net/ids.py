"""The names and numbers that identify things, so that mypy keeps them apart."""

from typing import NewType

SwitchName = NewType("SwitchName", str)
PortName = NewType("PortName", str)
HostName = NewType("HostName", str)
NicName = NewType("NicName", str)
NodeName = NewType("NodeName", str)
"""A checkpoint node."""
SessionName = NewType("SessionName", str)
GroupName = NewType("GroupName", str)
"""A data-parallel group, such as ``dp0``."""
Rank = NewType("Rank", int)
"""Global rank of a process of the training job."""
Channel = NewType("Channel", int)
"""NCCL channel number."""
Qpn = NewType("Qpn", int)
"""24-bit RoCE queue pair number."""
Address = NewType("Address", str)
"""An IPv4 or IPv6 address in its canonical text form (RFC 5952 for IPv6)."""
CapturePort = NewType("CapturePort", str)
"""``node:nic`` of a checkpoint node: where mirrored packets arrive. Also the interface name in capture files."""
