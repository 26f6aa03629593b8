"""The v1model program in Python: frames in, frames out. The test server forwards by it; BMv2 is compared with it.

Written from p4/README.md, not from the programs; it shares no code with what it tests.
"""

from dataclasses import dataclass, field

from tests.doubles.p4_twin_follow import COPIED, UNKNOWN_MESSAGE, Follower, Following, Verdict
from tests.doubles.p4_twin_frame import Facts, read_frame
from tests.doubles.p4_twin_tables import Entry, Table

TABLES = (
    "fc.ingress_acl",
    "fc.egress_acl",
    "fc.flows",
    "fc.sessions",
    "fc.monitor_ports",
    "fc.forward",
    "fc.loss",
)
BEFORE, AFTER, OF_COPY = 0, 1, 2
"""``at`` of ``fc.lose``."""
DROP_PORT = 511
"""simple_switch: a packet for this port is dropped."""


@dataclass(frozen=True, slots=True, order=True)
class Sent:
    """A frame that leaves at a port."""

    port: int
    frame: bytes


@dataclass(frozen=True, slots=True)
class _Copy:
    session: int
    point: int
    verdict: Verdict
    message: int
    timestamp: int
    lost: bool


@dataclass(slots=True)
class Twin:
    """One switch. The owner fills ``tables``, ``clone_sessions`` and ``groups``; counters are read where they stand."""

    tables: dict[str, Table] = field(default_factory=lambda: {name: Table() for name in TABLES})
    clone_sessions: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """Session -> replicas (port, instance)."""
    groups: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """Multicast group -> replicas (port, instance)."""
    default_forward: Entry = field(default_factory=lambda: Entry({}, "fc.drop", {}))
    counters: dict[str, dict[int, list[int]]] = field(default_factory=dict)
    """``fc.ingress_copies``, ``fc.egress_copies``, ``fc.sent_copies``, ``fc.lost``: index -> [packets, bytes]."""
    follower: Follower = field(default_factory=Follower)
    sequence: dict[int, int] = field(default_factory=dict)
    """``fc.sequence``: monitor port -> last number sent."""
    loss_seen: dict[int, int] = field(default_factory=dict)

    def receive(self, port: int, frame: bytes, now: int = 0) -> list[Sent]:
        """What leaves when this frame enters at ``port`` at ``now`` (microseconds): forwarded frames and copies."""
        facts = read_frame(frame)
        if facts is None:
            facts = Facts(0)
        lost = self._loss(port, facts)
        if lost == BEFORE:
            return []
        fields = _fields(facts)
        flow = self.tables["fc.flows"].hit(fields, len(frame)) if facts.request else None
        entry = Following(**flow.parameters) if flow else None
        view = self.follower.judge(facts, entry, now)
        sent: list[Sent] = []
        copy = self._mirror("ingress", port, frame, fields, view, now, lost == OF_COPY)
        if copy is not None:
            sent += self._send_copy(copy, frame)
        if lost == AFTER:
            return sent
        for out in self._forward(port, facts):
            sent.append(Sent(out, frame))
            copy = self._mirror("egress", out, frame, fields, view, now, lost == OF_COPY)
            if copy is not None:
                sent += self._send_copy(copy, frame)
        return sent

    def _loss(self, port: int, facts: Facts) -> int | None:
        values = {
            "port": port,
            "dst": facts.destination,
            "qp": facts.qp,
            "opcode": facts.opcode,
            "psn8": facts.psn << 8,
        }
        entry = self.tables["fc.loss"].lookup(values)
        if entry is None:
            return None
        index = entry.parameters["index"]
        number = self.loss_seen.get(index, 0)
        self.loss_seen[index] = number + 1
        if not entry.parameters["first"] <= number < entry.parameters["first"] + entry.parameters["number"]:
            return None
        self._count("fc.lost", index, 0)
        return entry.parameters["at"]

    def _mirror(
        self,
        gress: str,
        port: int,
        frame: bytes,
        fields: dict[str, int],
        view: tuple[Verdict, int],
        now: int,
        lost: bool,
    ) -> _Copy | None:
        rule = self.tables[f"fc.{gress}_acl"].hit({**fields, "port": port}, len(frame))
        if rule is None:
            return None
        verdict, message = view
        if not rule.parameters["windowed"]:
            verdict = Verdict.RULE
        if verdict not in COPIED:
            return None
        session = rule.parameters["session"]
        self._count(f"fc.{gress}_copies", session, len(frame))
        return _Copy(session, rule.parameters["point"], verdict, message, now, lost)

    def _send_copy(self, copy: _Copy, frame: bytes) -> list[Sent]:
        sent = []
        for port, _instance in self.clone_sessions.get(copy.session, []):
            self._count("fc.sent_copies", copy.session, len(frame))
            outer = self._header(port, copy)
            if not copy.lost:
                sent.append(Sent(port, outer + frame))
        return sent

    def _header(self, port: int, copy: _Copy) -> bytes:
        found = self.tables["fc.monitor_ports"].lookup({"port": port})
        if found is None:
            return b""
        described = self.tables["fc.sessions"].lookup({"session": copy.session})
        whose = described.parameters if described else {"job_tag": 0, "session_number": 0}
        self.sequence[port] = (self.sequence.get(port, 0) + 1) & 0xFFFFFFFF
        parts = (
            (found.parameters["dst_mac"], 6),
            (found.parameters["src_mac"], 6),
            (0x88B5, 2),
            (1, 1),
            (int(copy.verdict), 1),
            (found.parameters["switch_id"], 2),
            (whose["session_number"], 2),
            (copy.point, 2),
            (whose["job_tag"], 4),
            (self.sequence[port], 4),
            (copy.message, 2),
            (copy.timestamp, 6),
        )
        return b"".join(value.to_bytes(size, "big") for value, size in parts)

    def _forward(self, port: int, facts: Facts) -> list[int]:
        found = self.tables["fc.forward"].lookup({"port": port, "ether_dst": facts.ether_dst}) or self.default_forward
        if found.action == "fc.to_port":
            out = found.parameters["port"]
            return [] if out == DROP_PORT else [out]
        if found.action == "fc.to_group":
            return [out for out, _instance in self.groups.get(found.parameters["group"], [])]
        return []

    def _count(self, counter: str, index: int, octets: int) -> None:
        cell = self.counters.setdefault(counter, {}).setdefault(index, [0, 0])
        cell[0] += 1
        cell[1] += octets


def _fields(facts: Facts) -> dict[str, int]:
    return {"src": facts.source, "dst": facts.destination, "udp_dst": facts.udp_dst, "qp": facts.qp}


__all__ = ["TABLES", "UNKNOWN_MESSAGE", "Sent", "Twin", "Verdict"]
