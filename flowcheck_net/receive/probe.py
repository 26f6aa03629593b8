"""Marked packets that no job sends: from the source of a planned hop to its destination, counted where copies arrive.

They are UC SEND ONLY packets to UDP port 4791, one queue pair number a hop from a range of our own: a network card has
no such queue pair and drops them without an answer, switches forward and mirror them like the job's. Packet n of a hop
bears PSN n and, in its payload, the mark, the hop's queue pair and n again.
"""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from flowcheck_net.errors import OutputError, PlanError
from flowcheck_net.ids import Address, HostName, NicName, Qpn
from flowcheck_net.plan.plan import Plan, PlannedHop
from flowcheck_net.receive.pcapng_write import PcapngWriter
from flowcheck_net.receive.synth_frames import Endpoints, FrameMaker

FIRST_QP = 0xFC0000
"""Probes use 0xFC0000 .. 0xFCFFFF. Cards number queue pairs upwards from small numbers."""
QPS = 0x10000
UC_SEND_ONLY = 0x24
"""BTH opcode: transport 001 (UC), operation 00100 (SEND only); IBTA 1.x table 38."""
MARK = b"flowcheck-net probe "
INTERVAL = 100_000
"""Nanoseconds between two packets of a file: 10 000 a second disturb no fabric."""
SOURCE_PORT = 0xFC00
MAC_BYTES = 6


@dataclass(frozen=True, slots=True)
class Probe:
    """The probes of one hop."""

    hop: PlannedHop
    host: HostName
    """Where they are to be sent from."""
    nic: NicName
    source: Address
    destination: Address
    dest_qp: Qpn


def probes(plan: Plan) -> tuple[Probe, ...]:
    """One for each hop that the plan sees, in its order: the same plan gives the same numbers.

    Raises:
        PlanError: the job uses queue pairs of our range, or has more hops than the range numbers.
    """
    lanes = {(lane.group, lane.channel): lane for lane in plan.job.lanes}
    used = {qpn for lane in plan.job.lanes for hop in range(lane.hop_count) for qpn in lane.hop_qpns(hop)}
    if taken := [qpn for qpn in used if FIRST_QP <= qpn < FIRST_QP + QPS]:
        raise PlanError(f"the job uses queue pair {min(taken):#x}, which is kept for probes")
    if len(plan.hops) > QPS:
        raise PlanError(f"the plan sees {len(plan.hops)} hops, probes tell {QPS} apart", hint="probe a smaller job")
    made = []
    for number, hop in enumerate(plan.hops):
        source, destination = plan.job.ends(lanes[hop.group, hop.channel], hop.index)
        addresses = source.address, destination.address
        made.append(Probe(hop, source.host, source.nic, *addresses, Qpn(FIRST_QP + number)))
    return tuple(made)


def write_probes(plan: Plan, folder: Path, count: int, mac: bytes | None = None) -> tuple[Path, ...]:
    """Write ``HOST-NIC.pcapng`` for each NIC that is to send, ``count`` packets a hop; the files, sorted.

    Args:
        plan: whose hops are probed.
        folder: is made where it is not there.
        count: packets of each hop.
        mac: 6 bytes, destination MAC address of all frames: the gateway's; None: one made from the address.

    Raises:
        PlanError: as ``probes``.
        OutputError: the folder cannot be written.
    """
    by_nic: dict[tuple[HostName, NicName], list[Probe]] = defaultdict(list)
    for probe in probes(plan):
        by_nic[probe.host, probe.nic].append(probe)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return tuple(
            _write(folder / f"{host}-{nic}.pcapng", of_nic, count, mac)
            for (host, nic), of_nic in sorted(by_nic.items())
        )
    except OSError as fault:
        raise OutputError(f"{folder} cannot be written: {fault.strerror}", hint="choose another place") from fault


def _write(path: Path, of_nic: list[Probe], count: int, mac: bytes | None) -> Path:
    makers = [FrameMaker(Endpoints(p.source, p.destination, SOURCE_PORT, p.dest_qp)) for p in of_nic]
    with PcapngWriter(path, [path.stem], "flowcheck-net probe") as writer:
        for number in range(count):
            for place, (probe, maker) in enumerate(zip(of_nic, makers, strict=True)):
                payload = MARK + probe.dest_qp.to_bytes(4, "big") + number.to_bytes(8, "big")
                frame = maker.frame(UC_SEND_ONLY, number, b"", payload, ack=False)
                time_ns = (number * len(of_nic) + place) * INTERVAL
                writer.write(0, time_ns, mac + frame[MAC_BYTES:] if mac else frame)
        writer.statistics(0, 0)
    return path
