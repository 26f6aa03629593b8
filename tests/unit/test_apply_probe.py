"""Marked probes: written, mirrored as the plan says (and not so), replayed by the C core, judged point by point."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from flowcheck_net.apply.effect import Effect, PointEffect
from flowcheck_net.audit.probe import judge_probes
from flowcheck_net.errors import PlanError
from flowcheck_net.ids import CapturePort, Qpn
from flowcheck_net.plan.make import make_plan
from flowcheck_net.plan.plan import Plan
from flowcheck_net.receive.pcapng_write import PcapngWriter
from flowcheck_net.receive.probe import FIRST_QP, MARK, probes, write_probes
from flowcheck_net.receive.records import Records
from flowcheck_net.receive.replay import replay
from flowcheck_net.spec.load import load_specs, spec_paths
from tests.bench.measure import ROOT

COUNT = 20
Copy = Callable[[int, int, CapturePort], int]
"""(hop number, packet number, capture port) -> copies that arrive."""


@pytest.fixture(scope="module")
def plan() -> Plan:
    return make_plan(load_specs(*spec_paths(ROOT / "topologies" / "four-host")))


def frames(path: Path) -> Iterator[bytes]:
    """The frames of a pcapng file, read by hand: enhanced packet blocks, 28 bytes before the frame."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        kind, length = (int.from_bytes(data[at + n : at + n + 4], "little") for n in (0, 4))
        if kind == 6:
            size = int.from_bytes(data[at + 20 : at + 24], "little")
            yield data[at + 28 : at + 28 + size]
        at += length


def mirrored(plan: Plan, folder: Path, copy: Copy) -> Records:
    """Send the probes through a fabric that mirrors them as ``copy`` says."""
    captures = {point.id: point.capture for point in plan.points}
    ports = sorted(set(captures.values()))
    at = 0
    with PcapngWriter(folder / "mirror.pcapng", ports, "test") as writer:
        for path in write_probes(plan, folder / "probes", COUNT):
            for frame in frames(path):
                # Ethernet 14, IPv4 20, UDP 8; BTH bytes 5..7 are the queue pair, 9..11 the PSN.
                hop = int.from_bytes(frame[47:50], "big") - FIRST_QP
                number = int.from_bytes(frame[51:54], "big")
                for capture in {captures[p] for p in (plan.hops[hop].point, *plan.hops[hop].also)}:
                    for _ in range(copy(hop, number, capture)):
                        at += 1_000
                        writer.write(ports.index(capture), at, frame)
    return replay([folder / "mirror.pcapng"])


def effects(plan: Plan, records: Records) -> list[Effect]:
    return [e.effect for e in judge_probes(plan, records, COUNT)]


def test_probes_are_marked_and_outside_the_jobs_queue_pairs(plan: Plan, tmp_path: Path):
    files = write_probes(plan, tmp_path, 3, mac=bytes(range(6)))
    every = [frame for path in files for frame in frames(path)]
    assert len(every) == 3 * len(plan.hops)
    assert all(frame[:6] == bytes(range(6)) and MARK in frame for frame in every)
    assert sorted({int.from_bytes(f[47:50], "big") for f in every}) == [FIRST_QP + n for n in range(len(plan.hops))]
    assert {f[42] for f in every} == {0x24}
    assert [p.dest_qp for p in probes(plan)] == [p.dest_qp for p in probes(plan)]


def test_all_probes_in_planned_copies_is_working(plan: Plan, tmp_path: Path):
    records = mirrored(plan, tmp_path, lambda *_: 1)
    assert {flow.packets["send"] for flow in records.flows} == {COUNT}
    assert set(effects(plan, records)) == {Effect.WORKING}
    assert judge_probes(plan, records, COUNT)[0].text.endswith("copies in all, as planned")


def broken(plan: Plan, tmp_path: Path, copy: Copy) -> list[PointEffect]:
    """The points that do not work when the first one's capture port is treated as ``copy`` says."""
    return [e for e in judge_probes(plan, mirrored(plan, tmp_path, copy), COUNT) if e.effect is not Effect.WORKING]


def test_one_lost_copy_is_too_few_at_that_point_alone(plan: Plan, tmp_path: Path):
    (found,) = broken(plan, tmp_path, lambda hop, number, _: int((hop, number) != (0, 7)))
    assert (found.effect, found.point.id) == (Effect.TOO_FEW, plan.hops[0].point)
    assert f"{COUNT - 1} of {COUNT}" in found.text or f"of {COUNT * 2} probes" in found.text


def test_a_port_that_shows_nothing_is_silent(plan: Plan, tmp_path: Path):
    silent = next(p for p in plan.points if p.id == plan.hops[0].point)
    found = broken(
        plan, tmp_path, lambda hop, _, __: int(silent.id not in (plan.hops[hop].point, *plan.hops[hop].also))
    )
    assert [(e.point, e.effect) for e in found] == [(silent, Effect.SILENT)]


def test_a_copy_too_many_is_named_with_its_hop(plan: Plan, tmp_path: Path):
    (found,) = broken(plan, tmp_path, lambda hop, number, _: 2 if (hop, number) == (0, 3) else 1)
    assert found.effect is Effect.TOO_MANY
    hop = plan.hops[0]
    assert f"{COUNT + 1} copies of hop {hop.group}/{hop.channel}/{hop.index}" in found.text


def test_drops_of_the_capture_itself_prove_nothing_against_the_switch(plan: Plan, tmp_path: Path):
    records = mirrored(plan, tmp_path, lambda hop, number, _: int((hop, number) != (0, 7)))
    lossy = replace(records, captures=tuple(replace(c, dropped=1) for c in records.captures))
    assert Effect.UNKNOWN in effects(plan, lossy)
    assert Effect.TOO_FEW not in effects(plan, lossy)


def test_points_of_a_cut_share_a_hop(plan: Plan, tmp_path: Path):
    """Two points of which a packet crosses either: together they show all, each alone a part or nothing."""
    first, second = plan.points[0], plan.points[1]
    hop = replace(plan.hops[0], point=first.id, also=(second.id,), copies=1)
    cut = replace(plan, points=(first, second), hops=(hop,))
    halves = mirrored(cut, tmp_path, lambda _, number, capture: int((capture == first.capture) == (number % 2 == 0)))
    assert effects(cut, halves) == [Effect.WORKING] * 2
    other = mirrored(cut, tmp_path, lambda _, __, capture: int(capture == first.capture))
    assert effects(cut, other) == [Effect.WORKING, Effect.ACCEPTED]
    lost = mirrored(cut, tmp_path, lambda _, number, capture: int(capture == first.capture and number > 0))
    assert effects(cut, lost) == [Effect.TOO_FEW, Effect.SILENT]


def test_a_job_that_uses_our_queue_pairs_is_refused(plan: Plan):
    ring = plan.job.rings[0]
    rings = (replace(ring, qpns=((Qpn(FIRST_QP + 5),),) * ring.size), *plan.job.rings[1:])
    with pytest.raises(PlanError, match="0xfc0005, which is kept for probes"):
        probes(replace(plan, job=replace(plan.job, rings=rings)))


def test_probe_and_verify_as_a_user_runs_them(plan: Plan, tmp_path: Path, monkeypatch, capsys):
    from flowcheck_net.cli.main import run
    from flowcheck_net.plan.plan import plan_to_json
    from flowcheck_net.receive.records_json import records_to_json

    file, state = tmp_path / "plan.json", tmp_path / "state"
    file.write_text(plan_to_json(plan))
    records = tmp_path / "records.json"

    def call(*words: str) -> tuple[int, str]:
        monkeypatch.setattr("sys.argv", ["flowcheck-net", *words])
        with pytest.raises(SystemExit) as ended:
            run()
        return int(ended.value.code or 0), capsys.readouterr().out

    assert call("probe", str(file), "-o", str(tmp_path / "out"), "--mac", "nonsense")[0] == 2
    code, out = call("probe", str(file), "-o", str(tmp_path / "out"), "--json")
    assert code == 0
    assert len(json.loads(out)["hops"]) == len(plan.hops)
    call("apply", str(file), "--state-dir", str(state))
    words = ("verify", str(file), "--state-dir", str(state), "--records", str(records), "--count", str(COUNT))
    records.write_text(records_to_json(mirrored(plan, tmp_path, lambda *_: 1)))
    code, out = call(*words)
    assert (code, out.splitlines()[-1]) == (0, f"verdict: working: counted at {len(plan.points)} observation points")
    records.write_text(records_to_json(mirrored(plan, tmp_path, lambda hop, *_: int(hop > 0))))
    code, out = call(*words)
    assert code == 4
    assert "verdict: incomplete: " in out
    code, out = call("verify", str(file), "--state-dir", str(state), "--probe", "--window", "0s", "--json")
    assert code == 10
    assert {p["effect"] for p in json.loads(out)["points"]} == {"accepted"}
