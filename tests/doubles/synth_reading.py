"""Plans to synthesize from, and a naive reader of synthesized captures that shares no code with writer or C core."""

import struct
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from flowcheck_net.ids import CapturePort, PortName, SessionName, SwitchName
from flowcheck_net.intent import Direction, FlowFilter, MirrorSession, MirrorSource
from flowcheck_net.model.job import Nccl
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import Plan, PlannedSession
from flowcheck_net.receive.synth import synthesize
from flowcheck_net.receive.synth_faults import parse_fault
from flowcheck_net.receive.synth_report import SynthReport
from flowcheck_net.spec.load import load_specs, spec_paths

TOPOLOGIES = Path(__file__).resolve().parents[2] / "topologies"
EXTENSIONS = {6: 16, 7: 0, 8: 0, 9: 4, 10: 16, 11: 20, 17: 4}


@cache
def example(name: str) -> Plan:
    return make_plan(load_specs(*spec_paths(TOPOLOGIES / name)))


def watching(plan: Plan, *sources: tuple[str, str, Direction], filters: tuple[FlowFilter, ...] = ()) -> Plan:
    """The plan with one session a switch, on these sources, to port ``all:cap0``."""
    by_switch: defaultdict[str, list[MirrorSource]] = defaultdict(list)
    for switch, port, direction in sources:
        by_switch[switch].append(MirrorSource(PortName(port), direction))
    sessions = tuple(
        PlannedSession(
            SwitchName(switch),
            MirrorSession(SessionName("fcn-x-1"), tuple(found), PortName("mon"), filters),
            CapturePort("all:cap0"),
        )
        for switch, found in sorted(by_switch.items())
    )
    return replace(plan, sessions=sessions)


def every_host_port(plan: Plan, direction: Direction = Direction.RX) -> Plan:
    hosts = set(plan.picture.hosts)
    ends = [(b, bp) for a, _, b, bp in plan.picture.links if a in hosts]
    ends += [(a, ap) for a, ap, b, _ in plan.picture.links if b in hosts]
    return watching(plan, *((switch, port, direction) for switch, port in ends))


def with_nccl(plan: Plan, **changes: object) -> Plan:
    nccl: Nccl = replace(plan.job.wire.nccl, **changes)  # type: ignore[arg-type]
    return replace(plan, job=replace(plan.job, wire=replace(plan.job.wire, nccl=nccl)))


@dataclass(frozen=True)
class Seen:
    interface: str
    time: int
    frame: bytes
    source: str
    destination: str
    hop_limit: int
    opcode: int
    dest_qp: int
    psn: int
    length: int | None
    immediate: bytes | None
    payload: bytes

    @property
    def key(self) -> tuple[str, str, int]:
        return self.source, self.destination, self.dest_qp

    @property
    def data(self) -> bool:
        """Not an answer and not a clear-to-send write (none of these tests has other writes without immediate)."""
        return self.opcode not in (17, 10)


def read(path: Path) -> tuple[list[Seen], dict[str, tuple[int, int]]]:
    """All packets, and (received, dropped) of the statistics of each interface."""
    data = path.read_bytes()
    names: list[str] = []
    statistics: dict[str, tuple[int, int]] = {}
    packets: list[Seen] = []
    place = 0
    while place < len(data):
        kind, length = struct.unpack_from("<II", data, place)
        body = data[place + 8 : place + length - 4]
        assert struct.unpack_from("<I", data, place + length - 4) == (length,)
        if kind == 1:
            size = struct.unpack_from("<H", body, 10)[0]
            names.append(body[12 : 12 + size].decode())
        elif kind == 6:
            interface, high, low, size = struct.unpack_from("<IIII", body)
            packets.append(parse(names[interface], high << 32 | low, body[20 : 20 + size]))
        elif kind == 5:
            received, dropped = body.index(struct.pack("<HH", 4, 8)), body.index(struct.pack("<HH", 5, 8))
            counts = struct.unpack_from("<Q", body, received + 4)[0], struct.unpack_from("<Q", body, dropped + 4)[0]
            statistics[names[struct.unpack_from("<I", body)[0]]] = counts
        place += length
    return packets, statistics


def parse(interface: str, time: int, frame: bytes) -> Seen:
    four = frame[12:14] == b"\x08\x00"
    source, destination = (frame[26:30], frame[30:34]) if four else (frame[22:38], frame[38:54])
    bth = frame[42:] if four else frame[62:]
    opcode, extension = bth[0], EXTENSIONS[bth[0]]
    rest = bth[12 : 12 + extension]
    return Seen(
        interface=interface,
        time=time,
        frame=frame,
        source=str(ip_address(source)),
        destination=str(ip_address(destination)),
        hop_limit=frame[22 if four else 21],
        opcode=opcode,
        dest_qp=int.from_bytes(bth[5:8], "big"),
        psn=int.from_bytes(bth[9:12], "big"),
        length=int.from_bytes(rest[12:16], "big") if opcode in (6, 10, 11) else None,
        immediate=rest[-4:] if opcode in (9, 11) else None,
        payload=bth[12 + extension : -4 - (bth[1] >> 4 & 3) or None],
    )


def written(
    plan: Plan, tmp_path: Path, *faults: str, iterations: int = 2, senders: bool = False, **options: Any
) -> tuple[list[Seen], SynthReport]:
    out = tmp_path / "mirror.pcapng"
    asked = [parse_fault(f) for f in faults]
    report = synthesize(plan, out, iterations=iterations, faults=asked, senders=senders, **options)
    packets, _ = read(out)
    assert len(packets) == report.packets
    times: dict[str, int] = {}
    for packet in packets:
        assert packet.time >= times.get(packet.interface, 0)
        times[packet.interface] = packet.time
    return packets, report


def messages(packets: list[Seen]) -> list[tuple[int, bytes | None, bytes, int]]:
    """(length, immediate, payload, first PSN) of the writes of one flow; each must be whole and in order."""
    found: list[tuple[int, bytes | None, bytes, int]] = []
    open_length, payload, first = 0, b"", 0
    for packet in packets:
        if packet.length is not None:
            open_length, payload, first = packet.length, b"", packet.psn
        payload += packet.payload
        if packet.opcode in (8, 9, 10, 11):
            assert len(payload) == open_length
            found.append((open_length, packet.immediate, payload, first))
    return found


def of_flow(packets: list[Seen], key: tuple[str, str, int]) -> list[Seen]:
    return [packet for packet in packets if packet.key == key and packet.opcode != 17]
