"""Captures to gradients, end to end: every byte is what the synthesizer sent, and none is there that no hop showed."""

import json
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner

from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.checkpoint.payload import PayloadReport, Wanted
from flowcheck_net.cli.main import cli
from flowcheck_net.errors import CoverageUnknown, OutputError, RecordsCorrupt, Unobserved
from flowcheck_net.plan.plan import Plan, expectation, plan_to_json
from flowcheck_net.receive.gradient import Gradient, group_entry
from flowcheck_net.receive.lay import Layer
from flowcheck_net.receive.layout import lay_out
from flowcheck_net.receive.native import Core
from flowcheck_net.receive.native_track import ImmediateForm
from flowcheck_net.receive.synth import synthesize
from tests.doubles import payload_world as world
from tests.doubles import synth_reading

STEP = 997
"""Bytes read at once where something is missing."""


def groups(plan: Plan) -> list[str]:
    return sorted({lane.group for lane in plan.job.lanes})


def check_whole(plan: Plan, report: PayloadReport, numbers: list[int]) -> None:
    assert [w.iteration for w in report.written] == numbers
    for written in report.written:
        assert written.complete, written.why
        assert written.directory.name == f"iteration-{written.iteration:06d}"
        for group in groups(plan):
            expected = world.truth(plan, group, written.iteration)
            gradient = Gradient.open(written.directory, group)
            assert gradient.read(0, len(expected)) == expected
            assert (written.directory / f"{group}.gradient").read_bytes() == expected


def check_partial(plan: Plan, directory: Path, iteration: int) -> int:
    """Bytes that can be read are the truth; no other byte was written. Returns how many cannot be read."""
    lost = 0
    for group in groups(plan):
        expected = world.truth(plan, group, iteration)
        gradient = Gradient.open(directory, group)
        file = (directory / f"{group}.gradient").read_bytes()
        assert len(file) == len(expected)
        for start in range(0, len(expected), STEP):
            stop = min(start + STEP, len(expected))
            try:
                assert gradient.read(start, stop - start) == expected[start:stop]
            except Unobserved:
                lost += stop - start
        for mine, right in zip(file, expected, strict=True):
            assert mine in (0, right)
    return lost


@pytest.mark.parametrize("example", ["two-host", "four-host", "eight-host", "tree-four-host"])
def test_the_examples_give_back_what_was_sent(tmp_path: Path, example: str) -> None:
    plan = world.plan_of(example)
    check_whole(plan, world.laid(plan, tmp_path, iterations=2), [0, 1])


@pytest.mark.parametrize("protocol", ["Simple", "LL", "LL128"])
@pytest.mark.parametrize(
    "rest",
    [
        "version: 2.19.3",
        "version: 2.21.5, qps_per_connection: 4, split_data_on_qps: true",
        "version: 2.24.3, qps_per_connection: 4",
        "version: 2.29.2, qps_per_connection: 3, adaptive_routing: true",
    ],
)
@pytest.mark.parametrize("mtu", [1024, 4096])
def test_protocols_queue_pairs_and_forms(tmp_path: Path, protocol: str, rest: str, mtu: int) -> None:
    nccl = f"protocol: {protocol}, channels: 2, threads: 512, {rest}"
    job = world.job_file(tmp_path / "job.yaml", nccl, [20_011, 700, 3], mtu=mtu)
    plan = world.plan_of("two-host", job)
    check_whole(plan, world.laid(plan, tmp_path, iterations=4), [0, 1, 2, 3])


LOSSES = [
    "loss:hop=dp0/0/0,iteration=1,packet=2-5",
    "loss:hop=dp0/0/1,rate=0.2",
    "reorder:hop=dp0/0/0,rate=0.05,distance=4",
    "duplicate:hop=dp0/0/1,rate=0.05,distance=2",
]


@pytest.mark.parametrize("example", ["two-host", "four-host", "eight-host", "tree-four-host"])
def test_under_faults_what_can_be_read_is_true_and_the_rest_is_refused(tmp_path: Path, example: str) -> None:
    plan = world.plan_of(example)
    one, two = sorted(hop.index for hop in plan.hops if (hop.group, hop.channel) == ("dp0", 0))[:2]
    faults = [fault.replace("dp0/0/1", f"dp0/0/{two}").replace("dp0/0/0", f"dp0/0/{one}") for fault in LOSSES]
    faults.append(f"retransmit:hop=dp0/0/{one},iteration=0,packet=4")
    report = world.laid(plan, tmp_path, iterations=3, faults=faults)
    lost = [check_partial(plan, written.directory, written.iteration) for written in report.written]
    for written, count in zip(report.written, lost, strict=True):
        assert written.complete == (count == 0 and written.verdict.publishable)
        assert (count > 0) == bool(written.missing)
    assert example != "two-host" or all(lost)  # without a spare copy a fifth of a hop's packets is gone for good


@pytest.mark.parametrize("protocol", ["Simple", "LL", "LL128"])
@pytest.mark.parametrize("qps", ["4", "4, split_data_on_qps: true"])
def test_under_faults_on_several_queue_pairs(tmp_path: Path, protocol: str, qps: str) -> None:
    nccl = f"version: 2.20.5, protocol: {protocol}, channels: 1, threads: 512, qps_per_connection: {qps}"
    plan = world.plan_of("two-host", world.job_file(tmp_path / "job.yaml", nccl, [9_001, 700], mtu=512))
    report = world.laid(plan, tmp_path, iterations=4, faults=LOSSES, start_psn=0xFFFFF0)
    assert all(check_partial(plan, written.directory, written.iteration) for written in report.written)


def test_what_one_hop_lost_comes_from_another_and_is_called_recovered(tmp_path: Path) -> None:
    plan = world.plan_of("four-host")
    watched = sorted({hop.index for hop in plan.hops})
    (packets,) = {sum(m.packets for m in h.messages) for h in expectation(plan).hops if h.index == watched[0]}
    # the last packets of an iteration are fully reduced; the very last one is an empty slice
    lost = f"loss:hop=dp0/0/{watched[0]},iteration=1,packet={packets - 6}-{packets - 2}"
    report = world.laid(plan, tmp_path, iterations=2, faults=[lost])
    check_whole(plan, report, [0, 1])
    first, second = report.written
    assert not first.recovered
    (recovered,) = second.recovered
    assert recovered.hop.startswith(f"dp0/0/{watched[0]} ")
    assert 0 < recovered.units <= 5
    assert second.verdict is Verdict.RECOVERED
    manifest = json.loads((second.directory / "manifest.json").read_text())
    assert manifest["recovered"][0]["units"] == recovered.units


def test_queue_pairs_of_equal_channels_are_not_trusted_unless_asked(tmp_path: Path) -> None:
    nccl = "version: 2.18.3, protocol: LL, channels: 2, threads: 512"
    plan = world.plan_of("two-host", world.job_file(tmp_path / "job.yaml", nccl, [131_072]))
    report = world.laid(plan, tmp_path, iterations=1, trust_order=False)
    (written,) = report.written
    assert not written.complete
    assert "taken to ascend" in written.why[0]
    assert written.directory.name.endswith(".partial")


def test_only_the_iterations_asked_for_are_written_and_none_is_overwritten(tmp_path: Path) -> None:
    plan = world.plan_of("two-host")
    check_whole(plan, world.laid(plan, tmp_path, iterations=5, wanted=slice(1, 3)), [1, 2])
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["iteration-000001", "iteration-000002"]
    with pytest.raises(OutputError, match="iteration-000001 is there already"):
        world.laid(plan, tmp_path, iterations=5)


def test_more_buffers_than_may_be_open_take_several_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flowcheck_net.receive.lay.BATCH", 2)
    plan = world.plan_of("two-host")
    report = world.laid(plan, tmp_path, iterations=5)
    check_whole(plan, report, list(range(5)))
    assert report.laid.lays["laid"] == 5 * 40


def test_where_no_queue_pair_can_be_followed_nothing_is_laid_and_it_is_said(tmp_path: Path) -> None:
    """As where three queue pairs take turns and one was never captured, nor the beginning of the others."""
    nccl = "version: 2.29.2, protocol: LL, channels: 1, threads: 512, qps_per_connection: 3, adaptive_routing: true"
    plan = world.plan_of("two-host", world.job_file(tmp_path / "job.yaml", nccl, [5_011]))
    what = expectation(plan)
    layout = lay_out(what.wire, what.hops)
    (tmp_path / "out").mkdir()
    laid = Layer(what.wire, layout, (), ImmediateForm.LITTLE).lay(lambda _: None, [0], tmp_path / "out", Core)
    assert (laid.places, laid.lays, laid.contradictions) == ({}, {}, ())
    (entry,) = [group_entry(tmp_path / "out/iteration-000000.partial", g) for g in layout.groups.values()]
    assert (entry["complete"], entry["buckets"][0]["missing_units"]) == (False, entry["units"])


def test_a_plan_of_another_job_is_told(tmp_path: Path) -> None:
    synthesize(world.plan_of("two-host"), tmp_path / "m.pcapng", iterations=1)
    other = tmp_path / "plan.json"
    other.write_text(plan_to_json(world.plan_of("four-host")))
    arguments = ["replay", str(tmp_path / "m.pcapng"), "--plan", str(other), "--payload", str(tmp_path / "out")]
    result = CliRunner().invoke(cli, arguments)
    assert isinstance(result.exception, CoverageUnknown)
    assert "no iteration of the planned job was found" in str(result.exception)


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    plan = world.plan_of("two-host")
    (written,) = world.laid(plan, tmp_path, iterations=1).written
    file = written.directory / "dp0.gradient"
    file.write_bytes(b"x" + file.read_bytes()[1:])
    with pytest.raises(RecordsCorrupt, match="is not what"):
        Gradient.open(written.directory, "dp0")
    with pytest.raises(RecordsCorrupt, match="no group dp7"):
        Gradient.open(written.directory, "dp7")


def test_packets_cut_by_the_snap_length_are_counted_and_no_data(tmp_path: Path) -> None:
    """Headers alone place a packet, but lay nothing."""
    plan = world.plan_of("two-host")
    synthesize(plan, tmp_path / "whole.pcapng", iterations=2)
    short = tmp_path / "short.pcap"
    frames = [packet.frame for packet in synth_reading.read(tmp_path / "whole.pcapng")[0]]
    rows = (struct.pack("<IIII", 1, n, min(len(f), 120), len(f)) + f[:120] for n, f in enumerate(frames))
    short.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 120, 1) + b"".join(rows))
    report = world.laid_from(plan, short, Wanted(tmp_path / "out"))
    assert report.written
    assert not any(written.complete for written in report.written)
    assert report.laid.lays["short"] > 0
    assert "laid" not in report.laid.lays


def run(*arguments: str):
    return CliRunner().invoke(cli, arguments)


def test_the_command(tmp_path: Path) -> None:
    plan, capture = tmp_path / "plan.json", tmp_path / "m.pcapng"
    assert run("plan", str(world.TOPOLOGIES / "two-host"), "-o", str(plan)).exit_code == 0
    assert run("synth", str(plan), "-o", str(capture), "--iterations", "2", "--seed", "7").exit_code == 0
    done = run("replay", str(capture), "--plan", str(plan), "--payload", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    gradient = Gradient.open(tmp_path / "out" / "iteration-000001", "dp0")
    assert gradient.read(0, 20_000) == world.truth(world.plan_of("two-host"), "dp0", 1)
    assert (
        json.loads((tmp_path / "out/iteration-000001/manifest.json").read_text())["plan"]
        == (json.loads(plan.read_text())["digest"])
    )
    again = run("replay", str(capture), "--plan", str(plan), "--payload", str(tmp_path / "out"))
    assert isinstance(again.exception, OutputError)
    need = run("replay", str(capture), "--payload", str(tmp_path / "two"))
    assert "--payload needs --plan" in need.output


@pytest.mark.parametrize(("option", "code"), [((), 10), (("--trust-order",), 0)])
def test_the_command_trusts_the_order_where_it_is_told_to(tmp_path: Path, option: tuple[str, ...], code: int) -> None:
    nccl = "version: 2.18.3, protocol: LL, channels: 2, threads: 512"
    made = world.plan_of("two-host", world.job_file(tmp_path / "job.yaml", nccl, [131_072]))
    plan, capture = tmp_path / "plan.json", tmp_path / "m.pcapng"
    plan.write_text(plan_to_json(made))
    synthesize(made, capture, iterations=1)
    done = run("replay", str(capture), "--plan", str(plan), "--payload", str(tmp_path / "out"), *option)
    assert getattr(done.exception, "exit_code", 0) == code


def test_queue_pairs_in_turn_that_show_nothing_of_the_first_iteration(tmp_path: Path) -> None:
    """Hop 0->1 is first seen in the middle of its cycle of two iterations: 6 messages on 4 queue pairs."""
    nccl = "version: 2.20.5, protocol: LL, channels: 1, threads: 512, qps_per_connection: 4"
    plan = world.plan_of("two-host", world.job_file(tmp_path / "job.yaml", nccl, [5_000, 700, 9_000]))
    packets = sum(m.packets for m in expectation(plan).hops[0].messages)
    lost = f"loss:hop=dp0/0/0,iteration=0,packet=0-{packets - 1}"
    first, *others = world.laid(plan, tmp_path, iterations=5, faults=[lost]).written
    assert not first.complete
    assert check_partial(plan, first.directory, 0) > 0
    assert [each.complete for each in others] == [True] * 4
    for each in others:
        expected = world.truth(plan, "dp0", each.iteration)
        assert Gradient.open(each.directory, "dp0").read(0, len(expected)) == expected


def test_options_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    capture = tmp_path / "m.pcap"
    capture.write_bytes(b"")
    for arguments, words in (
        (("--learn", "--payload", "out", "--plan", "p"), "--learn and --payload cannot be asked for at once"),
        (("--learn", "--json"), "--learn prints YAML"),
        (("--iterations", "3:4"), "need --payload"),
        (("--payload", "out", "--plan", "p", "--iterations", "4:3"), "is not A:B"),
    ):
        assert words in run("replay", str(capture), *arguments).output


def test_a_capture_that_is_cut_off_says_so_and_what_is_missing(tmp_path: Path) -> None:
    plan, capture = tmp_path / "plan.json", tmp_path / "m.pcapng"
    run("plan", str(world.TOPOLOGIES / "two-host"), "-o", str(plan))
    run("synth", str(plan), "-o", str(capture), "--iterations", "2")
    capture.write_bytes(capture.read_bytes()[:-3000])
    done = run("replay", str(capture), "--plan", str(plan), "--payload", str(tmp_path / "out"))
    assert "not complete: dp0:" in done.output
    assert getattr(done.exception, "exit_code", None) == 9
    assert (tmp_path / "out" / "iteration-000001.partial" / "manifest.json").is_file()
    assert (tmp_path / "out" / "iteration-000000" / "manifest.json").is_file()
