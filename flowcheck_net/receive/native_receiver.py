"""The door to the spool of the receiver's C program: kinds, layouts and names (receiver/app/spool.h)."""

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any

from flowcheck_net._native import ffi, lib

VERSION: int = lib.SPOOL_VERSION


class SpoolKind(IntEnum):
    """What a block of a spool holds, beside the kinds of the records container."""

    HEAD = lib.SPOOL_HEAD
    WORKER = lib.SPOOL_WORKER
    KEY = lib.SPOOL_KEY
    CAPTURE = lib.SPOOL_CAPTURE
    FLOW = lib.SPOOL_FLOW
    TUNNELS = lib.SPOOL_TUNNELS
    LOSS = lib.SPOOL_LOSS
    END = lib.SPOOL_END


def _names(name_of: Callable[[int], Any], count: int) -> tuple[str, ...]:
    return tuple(ffi.string(name_of(number)).decode() for number in range(count))


FRAMES = _names(lib.fck_frame_name, lib.FCK_FRAME_KINDS)
ATTRIBUTES = _names(lib.fck_attribute_name, lib.FCK_ATTRIBUTES)
CLASSES = _names(lib.fck_class_name, lib.FCK_CLASSES)
TUNNELS = _names(lib.fck_tunnel_name, lib.FCK_TUNNEL_KINDS)


def _checked(layout: str, name: str) -> struct.Struct:
    made = struct.Struct(layout)
    if made.size != ffi.sizeof(name):
        raise TypeError(f"{name} is not what it was when this module was written")
    return made


HEAD = _checked("<4I", "struct spool_head")
"""Version, and how many frame kinds, attributes and classes there are."""
FLOW = _checked(f"<II16s16sII{len(CLASSES)}Q5Q", "struct spool_flow")
"""Capture, family, source, destination, QP, MTU, packets by class, truncated, bytes, retransmitted, duplicated and
reordered."""
CAPTURE = _checked(f"<4Q{len(FRAMES)}Q{len(ATTRIBUTES)}Q", "struct spool_capture")
"""Packets, bytes, first and last time, frames by kind, attributes."""
TUNNEL = _checked("<II16sI4xqQq", "struct fck_tunnel")
"""Capture, family, source, kind, session, packets, sequence gaps."""
COUNTER = _checked("<80sq", "struct spool_counter")
"""Name and value; -1: unknown."""
COUNTS = (len(FRAMES), len(ATTRIBUTES), len(CLASSES))
