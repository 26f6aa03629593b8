"""The door to the C sender: a packet socket that is handed the packets of capture files when they are due."""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Self

from flowcheck_net._native import ffi, lib
from flowcheck_net.errors import CaptureError, SendError

_PACKETS_A_CALL = 1 << 20
_ETHERNET = 1
_RIGHT_HINT = "run as root, give the program the capability CAP_NET_RAW, or try in a namespace of your own: unshare -rn"


class Pace(IntEnum):
    """What tells when a frame is due."""

    FULL = lib.FCK_PACE_FULL
    RECORDED = lib.FCK_PACE_RECORDED
    PACKETS = lib.FCK_PACE_PACKETS
    BITS = lib.FCK_PACE_BITS


@dataclass(frozen=True, slots=True)
class SendSettings:
    """How one interface is sent to."""

    pace: Pace
    rate: int
    """RECORDED: millionths of the recorded speed; PACKETS: millionths of a packet/s; BITS: bit/s; FULL: not used."""
    longest: int
    """Bytes of the longest frame without a VLAN tag that the interface takes."""
    bypass: bool
    """Around the queueing discipline of the interface, where it can."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """How long after their deadlines frames were given to the interface, in nanoseconds."""

    median: int
    """At most 1/16 too large, never too small; so is ``p99``."""
    p99: int
    max: int


@dataclass(frozen=True, slots=True)
class SendCounts:
    """What a sender did."""

    packets: int
    bytes: int
    refused: dict[str, int]
    """By name, zeros too."""
    waits: int
    """Times that the interface's queue was full."""
    duration_ns: int
    """From before the first packet to after the last."""
    late: Lateness | None
    """None: nothing had a deadline."""
    bypass: bool


REFUSALS = tuple(ffi.string(lib.fck_send_refusal_name(number)).decode() for number in range(lib.FCK_REFUSALS))


def now_ns() -> int:
    """The clock of the deadlines, CLOCK_MONOTONIC."""
    return int(lib.fck_send_now())


class Sender:
    """One interface. ``run`` and ``again`` belong to one thread; ``stop`` may come from any."""

    def __init__(self, interface: str, settings: SendSettings, *, start_ns: int, base_ns: int) -> None:
        """Open the interface.

        Args:
            interface: as the system calls it.
            settings: how to send.
            start_ns: when the first frame is due, by ``now_ns``.
            base_ns: RECORDED: the time in the recording that is due then.

        Raises:
            SendError: no right to, no such interface, or the kernel does not have packet sockets.
        """
        self._interface = interface
        config = ffi.new(
            "struct fck_send_config *",
            {
                "pace": settings.pace,
                "rate": settings.rate,
                "start_ns": start_ns,
                "base_ns": base_ns,
                "longest": settings.longest,
                "bypass": settings.bypass,
            },
        )
        out = ffi.new("struct fck_send **")
        error = -lib.fck_send_open(out, interface.encode(), config)
        if error in (errno.EPERM, errno.EACCES):
            raise SendError(f"{interface}: raw frames may not be sent by this user", hint=_RIGHT_HINT)
        if error:
            raise SendError(f"{interface}: {os.strerror(error)}", hint="ip link shows the interfaces that there are")
        self._send = out[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        lib.fck_send_close(self._send)
        self._send = ffi.NULL

    def stop(self) -> None:
        """Let ``run`` return within a tenth of a second."""
        lib.fck_send_stop(self._send)

    def again(self, start_ns: int, base_ns: int) -> None:
        """The recording begins again: ``base_ns`` is now due at ``start_ns``. A given rate goes on as it was."""
        lib.fck_send_again(self._send, start_ns, base_ns)

    def run(self, source: Path | bytes, chosen: Callable[[str], bool]) -> bool:
        """Send the packets of a capture file to its end, or to the place where it is cut off.

        Args:
            source: a regular file, or the content of one.
            chosen: from the name of an interface in the file ("" where it has none): are its packets to be sent?

        Returns:
            False: stopped before the end.

        Raises:
            SendError: the interface refused for good, such as a link that went down.
            CaptureError: the file cannot be opened.
        """
        out = ffi.new("struct fck_capfile **")
        if isinstance(source, bytes):
            content = ffi.from_buffer(source)
            error = lib.fck_capfile_buffer(out, content, len(source))
        else:
            error = lib.fck_capfile_open(out, os.fsencode(source))
        if error < 0:
            raise CaptureError(f"{source!s:.200}: {os.strerror(-error)}")
        try:
            return self._run(out[0], chosen)
        finally:
            lib.fck_capfile_close(out[0])

    def _run(self, file: Any, chosen: Callable[[str], bool]) -> bool:  # noqa: ANN401 - a cffi pointer
        sink = ffi.addressof(lib, "fck_send_frame")
        while True:
            result = lib.fck_capfile_run_to(file, sink, self._send, _PACKETS_A_CALL)
            # packets of the batch lie in the file's memory, which the next call may replace
            flushed = lib.fck_send_flush(self._send) if result >= 0 else 0
            worst = min(result, flushed)
            if worst == -errno.ECANCELED:
                return False
            if worst < 0:
                raise SendError(f"{self._interface}: {os.strerror(-worst)}", hint=_fault_hint(-worst, self._interface))
            if result == lib.FCK_RUN_END:
                return True
            if result == lib.FCK_RUN_INTERFACE:
                lib.fck_capfile_bind(file, self._capture_of(file, chosen))

    def _capture_of(self, file: Any, chosen: Callable[[str], bool]) -> int:  # noqa: ANN401 - a cffi pointer
        """What is to become of the packets of the newest interface."""
        newest = ffi.new("struct fck_capfile_interface *")
        lib.fck_capfile_interface(file, lib.fck_capfile_interfaces(file) - 1, newest)
        name = ffi.unpack(newest.name, newest.name_length) if newest.name else b""
        if not chosen(name.decode(errors="replace").replace("\0", "")):
            return int(lib.FCK_SEND_OTHER)
        return int(lib.FCK_SEND_CHOSEN if newest.link_type == _ETHERNET else lib.FCK_SEND_NOT_ETHERNET)

    def counts(self) -> SendCounts:
        """What was done so far; exact once ``run`` has returned."""
        report = lib.fck_send_report(self._send)
        late = Lateness(report.late_median_ns, report.late_p99_ns, report.late_max_ns) if report.timed else None
        return SendCounts(
            packets=report.packets,
            bytes=report.bytes,
            refused=dict(zip(REFUSALS, report.refused, strict=True)),
            waits=report.waits,
            duration_ns=report.last_ns - report.first_ns,
            late=late,
            bypass=bool(report.bypass),
        )


def _fault_hint(error: int, interface: str) -> str:
    if error == errno.ENETDOWN:
        return f"the link went down: ip link set dev {interface} up, and look at its other end; then start again"
    if error in (errno.ENXIO, errno.ENODEV):
        return "the interface was removed while frames were sent to it"
    return ""
