"""A P4 switch in the lab that mirrors the reduced half only: of each gradient byte one copy, and no partial sum."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowcheck_net.lab.build import Lab, missing
from flowcheck_net.receive.records_read import read_records
from tests.dpdk.receiving import needs_receiver
from tests.netns.lab_running import heard, made

ITERATIONS = 8
_WHY_NOT = missing(("bmv2",))

pytestmark = [pytest.mark.alone, pytest.mark.skipif(bool(_WHY_NOT), reason=_WHY_NOT or "not skipped")]


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with made("lab-p4-window") as up:
        yield up


def followed(lab: Lab) -> set[tuple[str, str]]:
    """The entries of ``fc.flows`` of all switches, as BMv2 tells them."""
    from flowcheck_net.drivers.p4runtime_client import Client
    from flowcheck_net.drivers.p4runtime_entries import picture_of, queries
    from flowcheck_net.drivers.p4runtime_reference import parse_reference
    from flowcheck_net.drivers.p4runtime_schema import schema_of

    found = set()
    for name, switch in lab.switches.items():
        client = Client(parse_reference(switch.reference))
        try:
            pipeline = client.get_pipeline()
            assert pipeline is not None
            schema = schema_of(pipeline[0])
            picture = picture_of(schema, client.read_all(queries(schema)))
        finally:
            client.close()
        found |= {(name, str(flow)) for flow in picture.flows}
    return found


@needs_receiver
def test_windows_bring_each_reduced_packet_once_and_nothing_else(lab: Lab, tmp_path: Path):
    report, ears = heard(lab, tmp_path, ITERATIONS, live=True)
    truth = ears.truth(ITERATIONS)
    assert len(truth.watched) == 2
    for packets in truth.by_iteration():
        reduced = truth.reduced(packets)
        assert len(reduced) == 24  # 6 000 elements of 4 bytes in 4 chunks of 6 packets of 1 024 (the last one shorter)
        copied = Counter(packet.payload for packet in packets if packet in truth.arrived and packet.payload)
        assert copied == Counter(reduced)
    assert [iteration.verdict.value for iteration in report.audit.iterations] == ["COVERED"] * ITERATIONS
    # A send ends with a write without data: three of four chunks come from one hop, the fourth from another one.
    seen = sorted(
        sum(hop.seen.packets for hop in hops)
        for hops in zip(*([h for h in r.hops if h.planned] for r in report.audit.rings), strict=True)
    )
    assert seen == sorted(Counter(packet.flow for packet in truth.arrived).values())
    assert sum(seen) == ITERATIONS * (24 + 4)
    assert report.received == sum(len(ears.frames[end]) for end in ears.captures)
    assert all(capture.dropped == 0 for capture in read_records(tmp_path / "records.fcr").captures)


def test_a_job_that_restarts_is_followed_though_nobody_tells_the_switch(lab: Lab, tmp_path: Path):
    """The second run has the queue pairs of the first, at PSN 0 again; nothing is written in between."""
    (tmp_path / "first").mkdir()
    heard(lab, tmp_path / "first", 2)
    before = followed(lab)
    assert before
    report, ears = heard(lab, tmp_path, ITERATIONS)
    assert followed(lab) == before, "the epochs are those of the first run"
    truth = ears.truth(ITERATIONS)
    for packets in truth.by_iteration():
        copied = Counter(packet.payload for packet in packets if packet in truth.arrived and packet.payload)
        assert copied == Counter(truth.reduced(packets))
    assert [iteration.verdict.value for iteration in report.audit.iterations] == ["COVERED"] * ITERATIONS


def test_a_second_job_begins_at_psn_0_again_and_a_restarted_switch_copies_nothing(lab: Lab, tmp_path: Path):
    """Another run in this lab. BMv2 comes back without its sessions."""
    report, ears = heard(lab, tmp_path, ITERATIONS, "restart:switch=leaf1,at=0.4,for=0.1")
    truth = ears.truth(ITERATIONS)
    whole = [
        truth.reduced(packets) == {p.payload for p in packets if p in truth.arrived and p.payload}
        for packets in truth.by_iteration()
    ]
    assert whole == sorted(whole, reverse=True)
    assert 1 < sum(whole) < ITERATIONS - 1
    covered = [iteration.verdict.value == "COVERED" for iteration in report.audit.iterations]
    assert covered[: sum(whole)] == [True] * sum(whole)
    assert not any(covered[sum(whole) :])
    assert report.verdict.value in ("GAP", "UNKNOWN")
