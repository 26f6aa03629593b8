"""What the hosts send: the job's all-reduce from ``synth``, and RDMA beside it that no ring carries."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from flowcheck_net.ids import Address
from flowcheck_net.lab.blueprint import Blueprint, End
from flowcheck_net.model.job import Job
from flowcheck_net.plan.plan import Plan
from flowcheck_net.receive import synth_frames as roce
from flowcheck_net.receive.pcapng_write import PcapngWriter
from flowcheck_net.receive.synth import EPOCH, synthesize
from flowcheck_net.receive.synth_frames import Endpoints, FrameMaker

_FILL = 0.3
"""Part of an iteration's time that its packets are spread over: software switches lose bursts at line rate, and what is
late is still long before the next iteration."""
_TENSOR_PACKETS = 3
"""Packets of a write of the tensor-parallel kind: no bucket of the examples has such messages."""
_FOREIGN_PACKETS = 16
_WRITES = 8
"""Of a flow in the time of an iteration, so that a job that is given more time sends less of everything a second."""


@dataclass(frozen=True, slots=True)
class Flow:
    """RDMA writes from one NIC to an address."""

    at: End
    source: Address
    destination: Address
    dest_qp: int
    packets: int
    """Of a write."""


@dataclass(frozen=True, slots=True)
class Sending:
    """Files and which of their ports leaves by which NIC."""

    files: tuple[Path, ...]
    ports: tuple[tuple[str, End], ...]


def sending(
    plan: Plan, drawn: Blueprint, folder: Path, iterations: int, *, tenant: bool, gradients: Path | None = None
) -> Sending:
    """Write the captures that the hosts are to send.

    Args:
        plan: its job sends; beside it each host of the job to the next one, as tensor parallelism over the network
            does, and hosts without a rank to one another.
        drawn: where they are.
        folder: for the files.
        iterations: of the job.
        tenant: another tenant's machine on the first host of the job sends too, to one on the last.
        gradients: directory of those that the job is to send (``synth --gradients``); None: made up.
    """
    job, beside = folder / "job.pcapng", folder / "beside.pcapng"
    report = synthesize(plan, job, iterations=iterations, senders=True, fill=_FILL, gradients=gradients)
    flows = [*_tensor(plan.job, drawn), *_foreign(plan.job, drawn, tenant=tenant)]
    duration = round(iterations * plan.job.iteration_time * 1e9)
    total = iterations * _WRITES
    names = [f"{flow.at.node}:{flow.at.interface}#{flow.dest_qp:x}" for flow in flows]
    with PcapngWriter(beside, names, "flowcheck-net lab") as writer:
        for time, number, frame in _writes(flows, plan.job.wire.mtu, range(0, duration, duration // total)):
            writer.write(number, EPOCH + time, frame)
    cards = {f"{end.node}:{end.interface}": end for end in drawn.cards}
    ports = [(str(one.name), cards[one.name]) for one in report.captures if one.packets]
    return Sending((job, beside), (*ports, *((name, flow.at) for name, flow in zip(names, flows, strict=True))))


def _tensor(job: Job, drawn: Blueprint) -> Iterator[Flow]:
    """From each host of the job to the next one and back."""
    places = {place.host: place for place in job.places}
    numbers = iter(range(0x7E00, 0x7F00))
    homes = {address: end for end, addresses in drawn.cards.items() for address in addresses}
    for one, other in pairwise(places.values()):
        for source, destination in ((one, other), (other, one)):
            yield Flow(homes[source.address], source.address, destination.address, next(numbers), _TENSOR_PACKETS)


def _foreign(job: Job, drawn: Blueprint, *, tenant: bool) -> Iterator[Flow]:
    numbers = iter(range(0x7F00, 0x8000))
    ours = [place.host for place in job.places]
    others = [(end, addresses[0]) for end, addresses in drawn.cards.items() if end.node not in ours and addresses]
    for (at, source), (_, destination) in pairwise(others):
        yield Flow(at, source, destination, next(numbers), _FOREIGN_PACKETS)
    guests = {guest.at.node: guest for guest in drawn.guests}
    if tenant:
        yield Flow(
            guests[ours[0]].at, guests[ours[0]].address, guests[ours[-1]].address, next(numbers), _FOREIGN_PACKETS
        )


def _writes(flows: Sequence[Flow], mtu: int, times: Iterable[int]) -> Iterator[tuple[int, int, bytes]]:
    """(nanoseconds, flow, frame) in order of time."""
    makers = [FrameMaker(Endpoints(f.source, f.destination, 0xC000 | f.dest_qp & 0xFFF, f.dest_qp)) for f in flows]
    for write, time in enumerate(times):
        for number, (flow, maker) in enumerate(zip(flows, makers, strict=True)):
            last = flow.packets - 1
            for packet in range(flow.packets):
                head = roce.reth(0x7F00_0000_0000, 0x1234, flow.packets * mtu) if packet == 0 else b""
                opcode = {0: roce.WRITE_FIRST, last: roce.WRITE_LAST}.get(packet, roce.WRITE_MIDDLE)
                psn = write * flow.packets + packet & roce.PSN_MASK
                payload = (flow.dest_qp << 32 | psn).to_bytes(8, "big") * (mtu // 8)
                yield time, number, maker.frame(opcode, psn, head, payload, ack=packet == last)
