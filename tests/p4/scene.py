"""One switch with everything on, and traffic for it: what the twin and the compiled program are compared by."""

import random

from tests.doubles.p4_twin import Sent, Twin
from tests.doubles.p4_twin_frame import read_frame
from tests.doubles.p4_twin_tables import Entry, exact
from tests.p4.frames import ACK, mapped, roce
from tests.p4.test_windows import LOST_AFTER, LOST_BEFORE, PASS, at_the_switch, stream
from tests.p4.twins import IN, MONITOR, OUT, follow, forwarding, rule

PLAIN_MONITOR = 4
PORTS = (IN, OUT, MONITOR, PLAIN_MONITOR)
HEADER = {"dst_mac": 0x02AABBCCDDEE, "src_mac": 0x020000000099, "switch_id": 0x0102}


def equipped() -> Twin:
    """Windows on three queue pairs (one IPv6, one over the wrap), a plain rule, losses; headers at one monitor port."""
    twin = forwarding()
    twin.clone_sessions[6] = [(PLAIN_MONITOR, 1)]
    acl = twin.tables["fc.ingress_acl"].entries
    acl += [
        rule(IN, windowed=1, point=2, priority=3, udp_dst=4791),
        rule(IN, point=9, src=mapped("10.0.0.77"), priority=8),
    ]
    twin.tables["fc.egress_acl"].entries.append(rule(OUT, session=6, windowed=1))
    twin.tables["fc.flows"].entries += [
        follow(period=6, low=3, high=6, index=0, qp=0x11),
        follow(period=5, low=4, high=2, index=7, qp=0x12, anchor=0xFFFFF0, destination="fd00::2"),
        follow(period=4, low=2, high=4, index=4095, qp=0x13, anchor=None),
    ]
    described = Entry(exact(session=5), "fc.describe", {"job_tag": 0xCAFEBABE, "session_number": 12})
    twin.tables["fc.sessions"].entries.append(described)
    twin.tables["fc.monitor_ports"].entries.append(Entry(exact(port=MONITOR), "fc.with_header", HEADER))
    losses = [(1, 0, 5, 2), (2, 1, 3, 1), (3, 2, 8, 4)]
    for index, at, first, number in losses:
        parameters = {"index": index, "at": at, "first": first, "number": number}
        twin.tables["fc.loss"].entries.append(Entry(exact(qp=0x20 + index), "fc.lose", parameters, 1))
    return twin


def traffic(seed: int) -> list[tuple[int, bytes]]:
    """Go-back-N streams of several queue pairs, mixed with other packets."""
    draw = random.Random(seed)
    flows = [
        (0x11, "10.0.0.1", "10.0.0.2", 0),
        (0x12, "fd00::1", "fd00::2", 0xFFFFF0),
        (0x13, "10.0.0.1", "10.0.0.2", 77),
    ]
    streams = []
    for qp, source, destination, start in flows:
        fates = draw.choices([PASS, LOST_BEFORE, LOST_AFTER], [8, 1, 1], k=200)
        seen = at_the_switch(stream([draw.randint(1, 4) for _ in range(25)]), fates, [True, True, False, True], 6)
        streams.append(
            [
                roce(
                    (start + p.number) % (1 << 24),
                    draw.choice((9, 11)) if p.end else draw.choice((6, 7, 8, 10)),
                    source=source,
                    destination=destination,
                    qp=qp,
                    payload=draw.randbytes(draw.randint(0, 64)),
                    tags=((0x8100, 5),) if qp == 0x13 else (),
                    acknowledge=draw.random() < 0.5,
                )
                for p in seen
            ]
        )
    far = [roce(psn, 11, qp=0x11) for psn in (5, 16_383, 70_000, 20, 16_385)]
    streams[0] += [*far, *(roce(psn, 11, qp=0x11) for psn in range(60, 64))]
    other = [roce(n, opcode, qp=0x20 + n % 4) for n in range(60) for opcode in (7, ACK, 12, 0x81)]
    other += [roce(n, 7, source="10.0.0.77") for n in range(5)] + [roce(n, 7, udp_dst=53) for n in range(5)]
    other += [b"\xff" * 12 + b"\x08\x06" + bytes(28), roce(0)[:40], roce(0, tags=((0x88A8, 1), (0x8100, 2)))]
    streams.append(other)
    mixed = []
    while any(streams):
        chosen = draw.choice([s for s in streams if s])
        mixed.append((OUT if draw.random() < 0.05 and chosen is other else IN, chosen.pop(0)))
    return mixed


def once_at_the_anchor(packets: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """Without repeats of the first packet of a queue pair: what they are depends on a clock that nobody sets."""
    seen = set[tuple[int, int]]()
    kept = []
    for port, frame in packets:
        facts = read_frame(frame)
        place = (facts.qp, facts.psn) if facts else (0, 0)
        if place not in ((0x11, 0), (0x12, 0xFFFFF0)) or place not in seen:
            kept.append((port, frame))
        seen.add(place)
    return kept


def timed(seed: int) -> list[tuple[int, int, bytes]]:
    """(microseconds, port, frame): the same traffic twice, as of a job that restarts, with silences in it."""
    draw, now, found = random.Random(seed), 0, []
    for life in range(2):
        for port, frame in traffic(seed + 100 * life):
            now += draw.choice((0, 1, 7, 1 << 18, 1 << 21)) if draw.random() < 0.1 else 1
            found.append((now, port, frame))
        now += 3 << 20
    return found


def without_time(sent: Sent) -> Sent:
    """The mirror header with its timestamp at 0."""
    frame = sent.frame
    return Sent(sent.port, frame[:32] + bytes(6) + frame[38:]) if sent.port == MONITOR else sent


def by_port(sent: list[Sent]) -> list[list[bytes]]:
    return [[without_time(s).frame for s in sent if s.port == port] for port in PORTS]
