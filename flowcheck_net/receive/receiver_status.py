"""What the receiver's C program says of itself: one JSON object a line (receiver/app/status.c)."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flowcheck_net.ids import CapturePort


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """One queue of the device."""

    fill_most: int | None
    """Most packets that ever waited in it; None: the driver does not say."""
    size: int


@dataclass(frozen=True, slots=True)
class RingStatus:
    """What the core that deals packets has put before one worker."""

    fill_most: int | None
    size: int
    dropped: int
    """Packets that found it full."""


@dataclass(frozen=True, slots=True)
class WrittenStatus:
    """Of a port's packets, in pcapng files."""

    packets: int
    dropped: int
    """Packets that the writer had no time or no place for. They are counted as all others."""
    fill_most: int
    size: int
    error: str
    """Why nothing is written any more; empty: all is well."""


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """One worker: of a queue, or of a ring."""

    packets: int
    flows: int
    sleeps: int
    """How often it found nothing and slept."""
    sequence_gaps: int
    """Sequence numbers of ERSPAN and GRE never seen."""
    segmented: int
    """Frames longer than a buffer, of which only the first part was looked at."""
    uncounted: int
    """Frames for which there was no memory."""
    ring: RingStatus | None


@dataclass(frozen=True, slots=True)
class PortStatus:
    """What a capture port has counted so far. None: the device does not say, which is not 0."""

    name: CapturePort
    driver: str
    spread: str
    """How its packets come to workers: ``one``, ``rules``, ``rss``, ``software``."""
    sleep_us: int
    """How long one that polls and finds nothing sleeps; 0: it polls on."""
    packets: int
    bytes: int
    rocev2: int
    last_time: int
    device_packets: int | None
    """Packets that the device says it handed over."""
    loss: dict[str, int | None]
    """Everything that tells of loss, by name (docs/receiver.md)."""
    no_flow_control: bool
    """It asks nobody to pause. False: that could not be done, or it has no such thing."""
    promiscuous: bool
    queues: tuple[QueueStatus, ...]
    workers: tuple[WorkerStatus, ...]
    written: WrittenStatus | None = None
    """None: no file was asked for."""

    @property
    def dropped(self) -> int | None:
        """Packets that arrived and came to nobody's count."""
        return self.loss["dropped"]

    @property
    def segmented(self) -> int:
        """Of all workers."""
        return sum(worker.segmented for worker in self.workers)

    @property
    def uncounted(self) -> int:
        """Of all workers."""
        return sum(worker.uncounted for worker in self.workers)


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """Payload of one group, as far as the receiver can tell: the audit judges."""

    name: str
    newest: int | None
    """The last iteration that was begun."""
    complete: int | None
    """The last iteration of which every byte is there."""
    complete_time: int
    """When: nanoseconds since the epoch; 0: unknown."""
    no_room: int
    """How often packets found no memory for their iteration."""
    overwritten: int
    """Iterations overwritten that no reader had taken."""
    readers_gone: int
    """Readers that died while they held a slot, or kept the board: what they held was given back."""


@dataclass(frozen=True, slots=True)
class Status:
    """What the receiver said last."""

    event: str
    """``started``, ``status``, ``stopped``."""
    runtime: Path
    """DPDK's folder of this receiver, with the socket of its telemetry."""
    ports: tuple[PortStatus, ...]
    groups: tuple[GroupStatus, ...] = ()
    """Whose payload is placed."""
    placed: Mapping[str, int] = field(default_factory=dict)
    """Of ``stopped``: what became of the packets, all workers together, by the names of docs/receiver.md."""


def said(line: bytes) -> dict[str, Any] | None:
    """What was said; None for a line of somebody else's, or one that was cut by a death."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and "event" in found else None


def status_of(names: Sequence[CapturePort], found: dict[str, Any]) -> Status:
    """A status; ``names`` are those of its ports in their order."""
    ports = zip(names, found["ports"], strict=True)
    return Status(
        event=found["event"],
        runtime=Path(found["runtime"]),
        ports=tuple(_port_status(name, port) for name, port in ports),
        groups=tuple(map(_group_status, found.get("groups", ()))),
        placed=_placed(found.get("placed", ())),
    )


def _placed(workers: Iterable[dict[str, Any]]) -> Mapping[str, int]:
    total: Counter[str] = Counter()
    for worker in workers:
        total.update(dict(_named(worker)))
    return dict(total)


def _named(worker: dict[str, Any]) -> Iterator[tuple[str, int]]:
    for name, value in worker.items():
        if name == "findings":  # of packets in ``places.conflict``
            continue
        if isinstance(value, dict):
            yield from ((f"{name}.{kind}", count) for kind, count in value.items())
        else:
            yield name, value


def _group_status(found: dict[str, Any]) -> GroupStatus:
    return GroupStatus(
        name=found["name"],
        newest=None if found["newest"] < 0 else found["newest"],
        complete=None if found["complete"] < 0 else found["complete"],
        complete_time=found["complete_time"],
        no_room=found["no_room"],
        overwritten=found["overwritten"],
        readers_gone=found["readers_gone"],
    )


def _port_status(name: CapturePort, found: dict[str, Any]) -> PortStatus:
    return PortStatus(
        name=name,
        driver=found["driver"],
        spread=found["spread"],
        sleep_us=found["sleep_us"],
        packets=found["packets"],
        bytes=found["bytes"],
        rocev2=found["rocev2"],
        last_time=found["last_time"],
        device_packets=found["device_packets"],
        loss=found["loss"],
        no_flow_control=found["no_flow_control"],
        promiscuous=found["promiscuous"],
        queues=tuple(QueueStatus(**queue) for queue in found["queues"]),
        workers=tuple(map(_worker_status, found["workers"])),
        written=WrittenStatus(**found["written"]) if found["written"] is not None else None,
    )


def _worker_status(found: dict[str, Any]) -> WorkerStatus:
    ring = found.pop("ring")
    return WorkerStatus(**found, ring=RingStatus(**ring) if ring is not None else None)
