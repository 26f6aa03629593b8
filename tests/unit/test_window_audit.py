"""Audit of windowed plans on synthesized captures: covered, lost, repeated, counted wrongly, not told."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.result import AuditReport, HopResult, RingResult
from flowcheck_net.audit.verdict import Finding, FindingKind, Verdict
from flowcheck_net.plan.plan import Plan, expectation
from flowcheck_net.receive.pcapng_write import PcapngWriter
from flowcheck_net.receive.records import Flow, Records
from flowcheck_net.receive.replay import replay
from tests.doubles.synth_reading import read
from tests.doubles.window_world import LL, SIMPLE, World, turned, windowed_plan

UNEQUAL: dict[str, Any] = {"mtu": 1024, "buckets": [{"name": "b", "elements": 70001, "dtype": "fp32"}]}
"""Chunks of several lengths: no iteration looks like a shifted one."""
EQUAL: dict[str, Any] = {"mtu": 4096}
"""Twelve messages of one length an iteration (see ``ring_job``)."""
KINDS: list[dict[str, Any]] = [
    {"nccl": SIMPLE, **EQUAL},
    {"nccl": SIMPLE, **UNEQUAL},
    {"nccl": LL, **UNEQUAL},
    {"tree": True, "nccl": SIMPLE, **UNEQUAL},
    {"tree": True, "nccl": LL, **UNEQUAL},
]


def verdicts(report: AuditReport) -> list[Verdict]:
    return [ring.verdict for ring in report.rings]


def of_kind(report: AuditReport, kind: FindingKind) -> list[Finding]:
    return [finding for finding in report.findings if finding.kind is kind]


def hop_of(ring: RingResult, plan: Plan, place: int = 0) -> HopResult:
    (found,) = [hop for hop in ring.hops if hop.index == counted(plan)[place].index]
    return found


def counted(plan: Plan) -> list[Any]:
    return [hop for hop in plan.hops if hop.counted]


def name_of(plan: Plan, place: int = 0) -> str:
    hop = counted(plan)[place]
    return f"{hop.group}/{hop.channel}/{hop.index}"


def window_start(plan: Plan, place: int = 0) -> int:
    """Packets of the iteration before the first that is mirrored."""
    hop = counted(plan)[place]
    (found,) = [
        h for h in expectation(plan).hops if (h.group, h.channel, h.index) == (hop.group, hop.channel, hop.index)
    ]
    assert found.window is not None
    return sum(m.packets for m in found.messages[: min(found.window.inside)])


@pytest.mark.parametrize("strategy", ["reduced", "exact"])
@pytest.mark.parametrize("kind", KINDS)
def test_clean_is_covered(tmp_path: Path, kind: dict[str, Any], strategy: str) -> None:
    plan = windowed_plan(strategy, **kind)
    report = World(tmp_path).audited(plan)
    assert verdicts(report) == [Verdict.COVERED] * 3
    assert report.verdict is Verdict.COVERED
    assert all(finding.verdict is None for finding in report.findings)
    assert all(hop.beyond == 0 for ring in report.rings for hop in ring.hops)


def test_the_numbers_of_a_hop_are_those_of_its_window(tmp_path: Path) -> None:
    """A ring of 4 in 2 slices: 12 messages an iteration, 6 of them fully reduced."""
    ring = World(tmp_path).audited(windowed_plan(nccl=SIMPLE, **EQUAL)).rings[0]
    watched = [hop for hop in ring.hops if hop.planned]
    assert [hop.expected.messages for hop in watched] == [6, 6]
    assert [hop.seen for hop in watched] == [hop.expected for hop in watched]
    assert "counts equal" in ring.reason


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_lost_in_the_mirror_is_a_gap_where_no_other_hop_shows_it(tmp_path: Path, kind: dict[str, Any]) -> None:
    plan = windowed_plan("exact", **kind)
    packet = window_start(plan, -1)
    report = World(tmp_path).audited(plan, faults=[f"loss:hop={name_of(plan, -1)},iteration=1,packet={packet}"])
    one_copy = [Verdict.COVERED, Verdict.GAP, Verdict.COVERED]
    spare = [Verdict.COVERED, Verdict.RECOVERED, Verdict.COVERED]  # the plan may watch two edges of a tree
    assert verdicts(report) == (spare if kind.get("tree") and len(counted(plan)) > 1 else one_copy)
    lost = hop_of(report.rings[1], plan, -1)
    assert lost.missing_reduced == 1
    assert [gone.packets for gone in lost.missing] == [1]
    assert of_kind(report, FindingKind.WINDOW_SHIFTED) == []


def test_a_hop_whose_window_has_not_the_chunk_did_not_lose_it(tmp_path: Path) -> None:
    """The last chunk of the first hop's window passes the second hop reduced as well, outside of its window."""
    plan = windowed_plan("exact", nccl=SIMPLE, **EQUAL)
    (hop,) = [h for h in expectation(plan).hops if h.index == counted(plan)[0].index]
    last = sum(m.packets for m in hop.messages) - 1
    report = World(tmp_path).audited(plan, faults=[f"loss:hop={name_of(plan)},iteration=1,packet={last}"])
    (chunk,) = report.rings[1].chunks_missing
    assert chunk.carriers == (hop_of(report.rings[1], plan).label,)
    assert hop_of(report.rings[1], plan, 1).label in chunk.unobserved


@pytest.mark.parametrize("seen", ["yes", "no"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_sender_that_goes_back_takes_nothing(tmp_path: Path, kind: dict[str, Any], seen: str) -> None:
    """Before the window, in it, and at its border."""
    plan = windowed_plan("exact", **kind)
    start = window_start(plan)
    for packet in {0, max(0, start - 1), start, start + 1}:
        fault = f"retransmit:hop={name_of(plan)},iteration=1,packet={packet},window=9,seen={seen}"
        report = World(tmp_path).audited(plan, faults=[fault])
        assert verdicts(report) == [Verdict.COVERED] * 3, fault


def test_what_is_copied_beyond_the_window_is_named_and_no_duplicate(tmp_path: Path) -> None:
    """Packet 2 is lost before the switch: 3 to 6 pass ahead, so they are copied, outside the window or not."""
    plan = windowed_plan("reduced", nccl=SIMPLE, **EQUAL)
    fault = f"retransmit:hop={name_of(plan)},iteration=1,packet=2,window=4,seen=no"
    report = World(tmp_path).audited(plan, faults=[fault])
    hop = hop_of(report.rings[1], plan)
    assert (hop.beyond, hop.surplus, hop.repeats) == (4, 0, 0)
    (finding,) = of_kind(report, FindingKind.BEYOND_WINDOW)
    assert finding.verdict is None
    assert finding.text.startswith("4 packets outside its message window were copied")
    assert report.verdict is Verdict.COVERED


def test_a_switch_that_mirrors_the_whole_port_misses_nothing(tmp_path: Path) -> None:
    plan = windowed_plan("reduced", nccl=SIMPLE, **EQUAL)
    whole = replace(plan, sessions=tuple(replace(p, session=replace(p.session, windows=())) for p in plan.sessions))
    report = World(tmp_path).audited(whole, plan)
    assert verdicts(report) == [Verdict.COVERED] * 3
    assert len(of_kind(report, FindingKind.BEYOND_WINDOW)) == 2


def test_packets_mirrored_twice_are_duplicates_in_the_window_and_beyond(tmp_path: Path) -> None:
    plan = windowed_plan("reduced", nccl=SIMPLE, **EQUAL)
    start = window_start(plan)
    whole = replace(plan, sessions=tuple(replace(p, session=replace(p.session, windows=())) for p in plan.sessions))
    for packet in (start + 1, start - 1):
        fault = f"duplicate:hop={name_of(plan)},iteration=1,packet={packet}"
        report = World(tmp_path).audited(whole, plan, faults=[fault])
        assert verdicts(report)[1] is Verdict.DUPLICATE, packet
        assert hop_of(report.rings[1], plan).surplus == 1


@pytest.mark.parametrize("count", [1, 2, 5, 11])
@pytest.mark.parametrize("kind", [KINDS[0], KINDS[1]])
def test_a_count_that_is_off_is_told_with_its_cure(tmp_path: Path, kind: dict[str, Any], count: int) -> None:
    plan = windowed_plan("reduced", **kind)
    report = World(tmp_path).audited(turned(plan, count), plan)
    found = of_kind(report, FindingKind.WINDOW_SHIFTED)
    assert len(found) == len(plan.hops)
    assert all(f.verdict is Verdict.STALE for f in found)
    assert all(f"counts {count} of 12 messages too many" in f.text for f in found)
    assert all(f"Add {count} to low and high of its window, modulo 12" in f.text for f in found)
    assert not any(verdict is Verdict.COVERED for verdict in verdicts(report))


def test_the_cure_cures(tmp_path: Path) -> None:
    """Low and high plus k on the switch that counts k too many."""
    plan = windowed_plan("reduced", nccl=SIMPLE, **EQUAL)
    cured = turned(turned(plan, 3), -3)
    assert verdicts(World(tmp_path).audited(cured, plan)) == [Verdict.COVERED] * 3


@pytest.mark.parametrize("declared", [True, False])
def test_broadcasts_before_the_first_loop(tmp_path: Path, declared: bool) -> None:
    """Declared, they turn the window; else the switch counts them, here 2 messages of one slice each."""
    job: dict[str, Any] = {"nccl": SIMPLE, "broadcasts": [{"bytes": 3000}], **UNEQUAL}
    plan = windowed_plan("reduced", **job)
    if declared:
        assert verdicts(World(tmp_path).audited(plan)) == [Verdict.COVERED] * 3
        return
    without = windowed_plan("reduced", **{**job, "broadcasts": []})
    report = World(tmp_path).audited(replace(without, job=plan.job), without)
    found = of_kind(report, FindingKind.WINDOW_SHIFTED)
    assert found
    assert all("messages too many" in f.text for f in found)
    assert report.verdict is not Verdict.COVERED


def late(tmp_path: Path, plan: Plan, *, by: Plan | None = None) -> AuditReport:
    faults = ["late:iteration=1,at=0.0"]
    return World(tmp_path).audited(plan, by, faults=faults, iterations=4)


def test_a_late_capture_of_unequal_messages_finds_its_place(tmp_path: Path) -> None:
    """Two loops, the second one of other lengths."""
    report = late(tmp_path, windowed_plan("reduced", nccl=LL, **UNEQUAL))
    assert verdicts(report) == [Verdict.COVERED] * 3


@pytest.mark.parametrize("count", [0, 3])
def test_a_late_capture_of_equal_messages_proves_nothing(tmp_path: Path, count: int) -> None:
    """Partial sums look like fully reduced chunks: whether the count is right or not, it cannot be told."""
    plan = windowed_plan("reduced", nccl=SIMPLE, **EQUAL)
    report = late(tmp_path, turned(plan, count), by=plan)
    assert not {Verdict.COVERED, Verdict.RECOVERED} & set(verdicts(report))
    assert any("could not be told from fully reduced" in finding.text for finding in report.findings)


def test_drops_are_explained_by_what_is_missing_and_not_by_what_is_left_out(tmp_path: Path) -> None:
    plan = windowed_plan("reduced", nccl=SIMPLE, **EQUAL)
    records = replay([World(tmp_path).capture(plan)])
    dropping = replace(records, captures=tuple(replace(c, dropped=1) for c in records.captures))
    report = audit(expectation(plan), dropping)
    assert set(verdicts(report)) == {Verdict.UNKNOWN}
    assert isinstance(records, Records)


def test_the_oracle_counts_the_same(tmp_path: Path) -> None:
    """Packets of the capture by a naive reader, against those that the audit says it saw."""
    plan, world = windowed_plan("exact", nccl=LL, **UNEQUAL), World(tmp_path)
    capture = world.capture(plan)
    data = {(rule.destination, rule.qpn) for planned in plan.sessions for rule in planned.session.windows}
    packets = sum((p.destination, p.dest_qp) in data for p in read(capture)[0])
    report = audit(expectation(plan), replay([capture]))
    assert packets == sum(hop.seen.packets for ring in report.rings for hop in ring.hops)


@pytest.mark.parametrize(("packet", "sure"), [(0, True), (600, False)])
def test_a_small_psn_is_not_the_start_of_the_connection(tmp_path: Path, packet: int, sure: bool) -> None:
    """Two equal loops of 6 messages of 64 packets: a capture that begins in the second one may be of any iteration.

    PSNs come again every 2^24 packets, and nothing else tells these loops apart.
    """
    bucket = {"name": "b", "elements": 2 * 4 * 8192, "dtype": "fp32"}
    plan = windowed_plan("reduced", nccl=LL, mtu=1024, buckets=[bucket])
    faults = [f"late:hop={name_of(plan)},iteration=0,packet={packet}"] if packet else []
    report = World(tmp_path).audited(plan, faults=faults)
    assert (set(verdicts(report)) == {Verdict.COVERED}) is sure
    if not sure:
        assert not {Verdict.COVERED, Verdict.RECOVERED} & set(verdicts(report))


def begun_anew(flow: Flow, since: int, by: int) -> Flow:
    """The flow with all messages since a time ``by`` positions further on."""
    moved = [replace(m, position=m.position + by * (m.first_time >= since)) for m in flow.messages]
    seen = [(m.position, m.position + m.packets - 1) for m in moved]
    return replace(flow, messages=tuple(moved), seen=tuple(seen))


def test_a_connection_that_begins_anew_does_not_make_a_wrong_place_the_only_one(tmp_path: Path) -> None:
    """Two buckets whose messages lie 8 packets further on as well: only the start of a connection tells.

    The places that fit were counted over both connections at once, where none of them does, not even the right one.
    """
    buckets = [{"name": f"b{n}", "elements": n, "dtype": "fp32"} for n in (3001, 700)]
    plan = windowed_plan(nccl={**SIMPLE, "protocol": "LL128"}, mtu=512, buckets=buckets)
    records = replay([World(tmp_path).capture(plan, iterations=4)])
    assert verdicts(audit(expectation(plan), records)) == [Verdict.COVERED] * 4
    since = sorted({m.first_time // 10**8 for flow in records.flows for m in flow.messages})[2] * 10**8
    changed = replace(records, flows=tuple(begun_anew(flow, since, 4_402_901) for flow in records.flows))
    report = audit(expectation(plan), changed)
    assert set(verdicts(report)) == {Verdict.UNKNOWN}
    assert "it began anew" in report.rings[0].reason


@pytest.mark.parametrize("cut", [False, True])
def test_a_job_that_came_back_on_its_queue_pairs_in_one_file_is_unknown(tmp_path: Path, cut: bool) -> None:
    """The same positions twice, half a minute apart: the second job's packets would fill up the first one's."""
    plan = windowed_plan("reduced", nccl=SIMPLE, **UNEQUAL)
    world = World(tmp_path)
    faults = ["cut:iteration=3,at=0.6"] if cut else []
    first, second = (read(world.capture(plan, iterations=n, faults=f))[0] for n, f in ((5, faults), (6, [])))
    names = sorted({packet.interface for packet in second})
    both = tmp_path / "both.pcapng"
    with PcapngWriter(both, names, "test") as writer:
        for packets, later in ((first, 0), (second, 30 * 10**9)):
            for packet in packets:
                writer.write(names.index(packet.interface), packet.time + later, packet.frame)
    report = audit(expectation(plan), replay([both]))
    assert report.verdict is Verdict.UNKNOWN
    assert Verdict.COVERED not in verdicts(report)
    assert all("came again, whole" in ring.reason for ring in report.rings)
