"""Random losses on random rings: a packet-by-packet oracle decides, and the audit must agree."""

from hypothesis import given, settings
from hypothesis import strategies as st

from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.model.expect import Expectation, ExpectedHop
from tests.doubles import audit_world as world

# 10 000 floats on 2..4 ranks: chunks of unlike size, so that the pattern is not self-similar
RANKS = st.integers(2, 4)


def packet_names(hop: ExpectedHop) -> list[tuple[bool, tuple[int, ...]]]:
    """For each packet of one iteration in order: is it fully reduced data, and which piece of the gradient."""
    return [
        (m.reduced and m.data_bytes > 0, (m.bucket, m.loop, m.chunk, m.slice, number))
        for m in hop.messages
        for number in range(m.packets)
    ]


def oracle(expectation: Expectation, seen: dict[int, list[bool]]) -> Verdict:
    """``seen``: hop index -> for each packet of the iteration, did it arrive."""
    universe = {name for h in expectation.hops for reduced, name in packet_names(h) if reduced}
    got = {
        name
        for h in expectation.hops
        if h.index in seen
        for (reduced, name), here in zip(packet_names(h), seen[h.index], strict=True)
        if reduced and here
    }
    if got < universe:
        return Verdict.GAP
    return Verdict.COVERED if all(all(s) for s in seen.values()) else Verdict.RECOVERED


@st.composite
def cases(draw: st.DrawFn):
    ranks = draw(RANKS)
    job = world.job(ranks, elements=draw(st.sampled_from([(10_000,), (5_000, 3_000)])), extra=draw(st.booleans()))
    hops = draw(st.sets(st.integers(0, ranks - 1), min_size=1))
    start = draw(st.sampled_from([0, 7, (1 << 24) - 30]))
    iterations = draw(st.integers(2, 4))
    loss = st.tuples(st.sampled_from(sorted(hops)), st.integers(0, 10_000), st.integers(1, 30))
    losses = draw(st.lists(loss, max_size=6))
    return job, hops, start, iterations, losses


@settings(max_examples=120)
@given(cases())
def test_the_audit_agrees_with_a_packet_by_packet_oracle(case) -> None:
    job, hops, start, iterations, losses = case
    expectation = world.planned(job, hops)
    wires = world.lines(expectation, start)
    for number in range(iterations):
        world.iterate(expectation, wires, number * world.SECOND)
    spans = {h.index: sum(m.packets for m in h.messages) for h in expectation.hops}
    for hop, at, count in losses:
        # the last message of every hop stays, so that the end of the capture is known
        total = spans[hop] * iterations - expectation.hops[hop].messages[-1].packets
        wires[0, hop].lost |= {start + p for p in range(at % total, min(total, at % total + count))}
    # the first message of every hop stays: a flow must show where it begins
    for hop in hops:
        wires[0, hop].lost -= set(range(start, start + expectation.hops[hop].messages[0].packets))
    report = audit(expectation, world.records([wires[0, h] for h in hops]))
    assert [i.number for i in report.iterations] == list(range(iterations))
    for ring in report.rings:
        base = {h: start + (ring.iteration or 0) * spans[h] for h in hops}
        seen = {h: [base[h] + p not in wires[0, h].lost for p in range(spans[h])] for h in hops}
        assert ring.verdict == oracle(expectation, seen), ring.reason
        for hop in ring.hops:
            if hop.index in hops:
                assert hop.seen.packets == sum(seen[hop.index])
                assert sum(m.packets for m in hop.missing) == seen[hop.index].count(False)
                halves = [m.reduced for m in expectation.hops[hop.index].messages for _ in range(m.packets)]
                partial = sum(not r and not s for r, s in zip(halves, seen[hop.index], strict=True))
                assert hop.missing_partial == partial


@settings(max_examples=60)
@given(cases(), st.integers(0, 200), st.integers(0, 200))
def test_a_capture_that_starts_and_ends_anywhere_never_covers_too_much(case, head: int, tail: int) -> None:
    """Cut the head and the tail of every flow: whatever is called COVERED has all its packets."""
    job, hops, start, iterations, _ = case
    expectation = world.planned(job, hops)
    wires = world.lines(expectation, start)
    for number in range(iterations):
        world.iterate(expectation, wires, number * world.SECOND)
    for hop in hops:
        end = wires[0, hop].position
        wires[0, hop].lost = set(range(start, start + head)) | set(range(end - tail, end))
    report = audit(expectation, world.records([wires[0, h] for h in hops]))
    for ring in report.rings:
        for hop in ring.hops:
            for gone in hop.missing:
                assert gone.cause != "lost" or gone.first_psn is None
        if ring.verdict is Verdict.COVERED:
            assert all(h.seen == h.expected for h in ring.hops if h.index in hops)
            # a whole iteration has its own packets and no others: its hops begin at its own base
            for hop in ring.hops:
                assert hop.index not in hops or not hop.missing
    covered = sum(r.verdict is Verdict.COVERED for r in report.rings)
    spans = [sum(m.packets for m in expectation.hops[h].messages) for h in hops]
    whole = iterations - max(-(-head // s) for s in spans) - max(-(-tail // s) for s in spans)
    everything = {h: [True] * sum(m.packets for m in expectation.hops[h].messages) for h in hops}
    enough = oracle(expectation, everything) is Verdict.COVERED
    assert covered == (max(0, whole) if enough else 0)
