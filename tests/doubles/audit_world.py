"""A job and the records that a receiver would write of its packets: hand-made, without any code of receive or audit."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flowcheck_net.ids import Address, CapturePort, Channel, GroupName, HostName, NicName, Qpn, Rank
from flowcheck_net.model.expect import Expectation, expect
from flowcheck_net.model.job import Broadcast, Bucket, Dtype, Job, Nccl, Protocol, RankPlace, Ring, Wire
from flowcheck_net.receive.records import Capture, Cause, Flow, Message, Missing, Records

if TYPE_CHECKING:
    from flowcheck_net.audit.result import AuditReport
    from flowcheck_net.audit.verdict import Verdict

PORT = CapturePort("ckpt1:cap0")
SECOND = 1_000_000_000


def address(rank: int) -> Address:
    return Address(f"10.0.0.{rank + 1}")


def job(
    ranks: int = 2,
    elements: Sequence[int] = (5000,),
    channels: int = 1,
    *,
    extra: bool = False,
    protocol: Protocol = Protocol.LL,
    version: tuple[int, int, int] = (2, 18, 3),
    mtu: int = 1024,
    broadcasts: Sequence[int] = (),
    qpns: Mapping[int, Sequence[int]] | None = None,
    qps: int = 1,
) -> Job:
    """One group; ``qpns``: channel -> destination queue pair of each hop."""
    nccl = Nccl(version, protocol, channels, 512, extra, qps, True, False, 8192)
    buckets = tuple(Bucket(f"bucket{i}", count, Dtype.FP32) for i, count in enumerate(elements))
    wire = Wire(nccl, mtu, buckets, tuple(Broadcast(b) for b in broadcasts))
    places = tuple(RankPlace(Rank(r), HostName(f"host{r + 1}"), NicName("mlx5_0"), address(r)) for r in range(ranks))
    order = tuple(Rank(r) for r in range(ranks))
    rings = tuple(
        Ring(GroupName("dp0"), Channel(c), order, tuple((Qpn(q),) for q in (qpns or {}).get(c, ())))
        for c in range(channels)
    )
    return Job("test", wire, places, rings, 0.5)


def planned(job_: Job, hops: Collection[int], copies: int = 1, port: CapturePort = PORT) -> Expectation:
    """Every ring watched at these hops."""
    return expect(job_, {(r.group, r.channel, h): ((port,), copies) for r in job_.rings for h in hops})


@dataclass
class Sent:
    """A message on the wire."""

    position: int
    size: int
    packets: int
    time: int
    immediate: int | None


@dataclass
class Line:
    """One queue pair: what was sent on it, and which packets never reached the capture."""

    source: Address
    destination: Address
    qpn: int
    mtu: int = 1024
    position: int = 0
    capture: CapturePort = PORT
    sent: list[Sent] = field(default_factory=list)
    lost: set[int] = field(default_factory=set)
    doubled: dict[int, int] = field(default_factory=dict)

    def send(self, size: int, time: int, immediate: int | None = None) -> range:
        """One message; returns its positions."""
        packets = max(1, -(-size // self.mtu))
        self.sent.append(Sent(self.position, size, packets, time, size if immediate is None else immediate))
        self.position += packets
        return range(self.position - packets, self.position)

    def flow(self) -> Flow:
        """What a receiver would record."""
        ordered = sorted(self.sent, key=lambda each: each.position)
        every = [p for m in ordered for p in range(m.position, m.position + m.packets)]
        seen = [p for p in every if p not in self.lost]
        messages = tuple(m for s in ordered if (m := self._message(s)) is not None)
        missing = tuple(
            Missing(p, p & 0xFFFFFF, p & 0xFFFFFF, 1, Cause.LOST)
            for p in every
            if p in self.lost and seen and seen[0] < p < seen[-1]
        )
        return Flow(
            capture=self.capture,
            source=self.source,
            destination=self.destination,
            dest_qp=Qpn(self.qpn),
            packets={"write": len(seen) + sum(self.doubled.values())},
            bytes=sum(m.size for m in self.sent),
            mtu=self.mtu,
            seen=_ranges(seen),
            repeats=tuple(sorted(self.doubled.items())),
            retransmitted=0,
            duplicated=sum(self.doubled.values()),
            reordered=0,
            missing=missing,
            gaps=(),
            messages=messages,
        )

    def _message(self, sent: Sent) -> Message | None:
        here = [p for p in range(sent.position, sent.position + sent.packets) if p not in self.lost]
        if not here:
            return None
        headed = here[0] == sent.position
        tailed = here[-1] == sent.position + sent.packets - 1
        return Message(
            position=sent.position if headed else here[0],
            first_psn=(sent.position if headed else here[0]) & 0xFFFFFF,
            bytes=sent.size if headed else None,
            packets=len(here),
            expected_packets=sent.packets if headed else None,
            immediate=sent.immediate if tailed else None,
            opcode=6,
            first_time=sent.time,
            last_time=sent.time + 1000,
            ll_flag=None,
            icrc_sum=None,
        )


def _ranges(positions: Sequence[int]) -> tuple[tuple[int, int], ...]:
    out: list[tuple[int, int]] = []
    for p in positions:
        if out and out[-1][1] == p - 1:
            out[-1] = (out[-1][0], p)
        else:
            out.append((p, p))
    return tuple(out)


def lines(expectation: Expectation, start: int = 0) -> dict[tuple[int, int], Line]:
    """(channel, hop) -> an empty queue pair; numbers ascend with (channel, hop)."""
    mtu = expectation.wire.mtu
    return {
        (h.channel, h.index): Line(
            h.source, h.destination, int(h.qpns[0]) if h.qpns else 0x100 + 64 * h.channel + h.index, mtu, start
        )
        for h in expectation.hops
    }


def iterate(expectation: Expectation, wires: Mapping[tuple[int, int], Line], time: int) -> None:
    """One iteration on every queue pair."""
    for h in expectation.hops:
        for number, m in enumerate(h.messages):
            wires[h.channel, h.index].send(m.wire_bytes, time + number * 10_000)


def run(iterations: int = 2, **kwargs: Any) -> tuple[Expectation, dict[tuple[int, int], Line]]:
    """Some iterations, both hops of each ring of two ranks watched; ``kwargs`` of ``job``.

    5 000 floats, LL, 2 ranks, 1 channel: chunk 0 has 3 072 floats = 24 576 B on the wire = 24 packets of 1 024 B,
    chunk 1 has 1 928 floats = 15 424 B = 16 packets. Hop 0->1 sends chunk 1 as a partial sum, then chunk 0 fully
    reduced; hop 1->0 sends chunk 0 as a partial sum, then chunk 1 fully reduced. 40 packets and 40 000 B on each.
    """
    expectation = planned(job(**kwargs), [0, 1])
    wires = lines(expectation)
    for number in range(iterations):
        iterate(expectation, wires, number * SECOND)
    return expectation, wires


def verdicts(report: "AuditReport") -> "list[Verdict]":
    """Of each ring and iteration."""
    return [ring.verdict for ring in report.rings]


def records(found: Collection[Line], dropped: int | None = None) -> Records:
    """The records of these queue pairs; one that shows nothing has no flow."""
    flows = tuple(line.flow() for line in found)
    flows = tuple(sorted((f for f in flows if f.seen), key=lambda f: (f.capture, f.source, f.destination, f.dest_qp)))
    times = [t for f in flows for m in f.messages for t in (m.first_time, m.last_time)] or [0]
    ports = sorted({line.capture for line in found}) or [PORT]
    captures = tuple(_capture(port, min(times), max(times), dropped) for port in ports)
    return Records(("test.pcapng",), (), captures, flows)


def _capture(port: CapturePort, first: int, last: int, dropped: int | None) -> Capture:
    return Capture(port, packets=0, bytes=0, frames={}, first_time=first, last_time=last, dropped=dropped)


def copy_at(line: Line, port: CapturePort) -> Line:
    """The same queue pair seen at another capture port."""
    return replace(line, capture=port, sent=list(line.sent), lost=set(), doubled={})
