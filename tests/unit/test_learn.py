"""Jobs learned from captures: real ones give the element counts that their makers state, synthesized ones their job."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.cli.main import cli
from flowcheck_net.errors import CoverageUnknown
from flowcheck_net.model.build import build_job
from flowcheck_net.model.expect import expect
from flowcheck_net.model.job import Dtype
from flowcheck_net.receive.learn_fragment import fragment
from flowcheck_net.receive.learn_job import Learned, learn
from flowcheck_net.receive.records import Records
from flowcheck_net.receive.replay import replay
from flowcheck_net.receive.synth import synthesize
from flowcheck_net.receive.synth_faults import parse_faults
from flowcheck_net.spec.job import JobSpec
from flowcheck_net.spec.load import load_specs
from tests.doubles import audit_world, payload_world
from tests.doubles import capture_images as images

CAPTURES = Path(__file__).resolve().parents[2].parent / "shared" / "samples" / "captures"


@pytest.mark.skipif(not CAPTURES.is_dir(), reason=f"the sample captures are not at {CAPTURES}")
@pytest.mark.parametrize(
    ("file", "elements", "channels", "iterations", "extra", "broadcasts"),
    [
        ("iter_40000_p2p", 5_000, 1, 1, False, (8, 32, 20_000)),
        ("iter_40000_p2p_iter2", 5_000, 1, 2, False, (8, 32, 20_000)),
        ("iter_80000", 10_000, 1, 1, False, (8, 32, 40_000)),
        ("allreduce+p2p", 5_000, 2, 1, False, ()),
        ("allreduce_addstep", 5_000, 2, 1, True, ()),
        ("rdma32", 5_000, 2, 1, False, ()),
    ],
)
def test_the_element_counts_of_the_samples(
    file: str, elements: int, channels: int, iterations: int, extra: bool, broadcasts: tuple[int, ...]
) -> None:
    """As ``domain/nccl-wire.md`` section 6 states them; broadcasts of as many floats come before the all-reduce."""
    found = learn(replay([CAPTURES / f"{file}.pcapng"]))
    assert found.shape is not None
    assert (found.shape.ranks, found.shape.extra_step) == (2, extra)
    assert found.shape.elements == ((elements - 1, elements),)  # a line of LL holds two floats
    assert found.shape.versions[0][0] == (2, 18, 3)
    assert 512 in found.shape.versions[0][1]
    assert {len(hop.channels) for hop in found.hops} == {channels}
    assert max(hop.iterations for hop in found.hops) == iterations
    assert found.broadcasts == broadcasts
    assert found.clear_to_send == 32


def test_the_sizes_of_the_samples_stand_in_what_is_printed() -> None:
    if not CAPTURES.is_dir():
        pytest.skip(f"the sample captures are not at {CAPTURES}")
    done = CliRunner().invoke(cli, ["replay", str(CAPTURES / "iter_80000.pcapng"), "--learn"])
    assert done.exit_code == 0, done.output
    assert "queue pair 0x514, LL, MTU 1024, immediate little-endian: messages of 39040, 40960 B" in done.output
    assert "elements: 10000" in done.output
    # the hop that sends chunk 1 first leaves rank 0
    assert yaml.safe_load(done.output)["rings"][0]["qpns"] == [[0x514], [0xC99]]


def test_no_job_is_told_by_the_exit_code_too(tmp_path: Path) -> None:
    path = tmp_path / "x.pcap"
    path.write_bytes(images.pcap([images.write_only(psn) for psn in (1, 2, 3)]))
    done = CliRunner().invoke(cli, ["replay", str(path), "--learn"])
    assert isinstance(done.exception, CoverageUnknown)
    assert "no all-reduce of a ring was found" in done.output


def synthesized(
    tmp_path: Path,
    nccl: str,
    elements: list[int],
    *,
    iterations: int = 4,
    faults: Sequence[str] = (),
    more: str = "",
) -> tuple[Records, Path]:
    job = payload_world.job_file(tmp_path / "job.yaml", nccl, elements, more=more)
    plan, capture = payload_world.plan_of("two-host", job), tmp_path / "mirror.pcapng"
    synthesize(plan, capture, iterations=iterations, faults=parse_faults(faults))
    return replay([capture]), job


def job_of(path: Path) -> JobSpec:
    place = payload_world.TOPOLOGIES / "two-host"
    return load_specs(place / "topology.yaml", path, place / "policy.yaml").job


def check_round_trip(records: Records, job: Path, *, exact: bool = True) -> Learned:
    """The fragment is a job file that equals the one that was synthesized, as far as the wire tells."""
    found = learn(records)
    learned = job.with_name("learned.yaml")
    learned.write_text(fragment(found, ("mirror.pcapng",), Dtype.FP32))
    made, wanted = job_of(learned), job_of(job)
    assert made.nccl.protocol == wanted.nccl.protocol
    assert (made.nccl.channels, made.nccl.qps_per_connection) == (wanted.nccl.channels, wanted.nccl.qps_per_connection)
    assert (made.mtu, made.groups, made.collective) == (wanted.mtu, wanted.groups, wanted.collective)
    assert found.shape is not None
    assert len(made.buckets) == len(wanted.buckets)
    for (least, most), bucket in zip(found.shape.elements, wanted.buckets, strict=True):
        assert least <= bucket.elements <= most
        assert most - least <= 1 or not exact
    assert made.iteration_time == pytest.approx(wanted.iteration_time, rel=0.01)
    return found


@pytest.mark.parametrize(
    ("nccl", "elements"),
    [
        ("version: 2.19.3, protocol: LL, channels: 1, threads: 512", [5_000]),
        ("version: 2.19.3, protocol: LL, channels: 2, threads: 256", [40_000, 777, 5_000]),
        ("version: 2.21.5, protocol: LL, channels: 1, threads: 512", [9_001, 30_000]),
        ("version: 2.24.3, protocol: LL, channels: 2, threads: 512", [20_000, 90_000]),
        ("version: 2.29.2, protocol: LL, channels: 1, threads: 512", [5_000, 6_000]),
        ("version: 2.24.3, protocol: Simple, channels: 1, threads: 512", [300_000, 5_000]),
        ("version: 2.18.3, protocol: Simple, channels: 2, threads: 512", [300_001]),
        ("version: 2.22.3, protocol: Simple, channels: 1, threads: 512, adaptive_routing: true", [30_000]),
        (
            "version: 2.24.3, protocol: Simple, channels: 1, threads: 512, qps_per_connection: 4, "
            "split_data_on_qps: true",
            [90_000],
        ),
        ("version: 2.20.5, protocol: LL, channels: 1, threads: 512, qps_per_connection: 4", [5_000, 700, 9_000]),
    ],
)
def test_a_synthesized_job_is_given_back(tmp_path: Path, nccl: str, elements: list[int]) -> None:
    check_round_trip(*synthesized(tmp_path, nccl, elements))


def test_ll128_pads_so_that_only_a_range_is_known(tmp_path: Path) -> None:
    nccl = "version: 2.24.3, protocol: LL128, channels: 1, threads: 640"
    check_round_trip(*synthesized(tmp_path, nccl, [50_000, 5_000]), exact=False)


def test_loss_a_late_start_and_an_early_end_change_nothing(tmp_path: Path) -> None:
    faults = ["loss:hop=dp0/0/0,rate=0.02", "loss:hop=dp0/0/1,rate=0.02"]
    faults += ["late:iteration=1,at=0.6", "cut:iteration=14,at=0.3"]
    nccl = "version: 2.24.3, protocol: LL, channels: 1, threads: 512"
    check_round_trip(*synthesized(tmp_path, nccl, [20_000, 700, 5_000], iterations=16, faults=faults))


def test_broadcasts_before_are_told_apart(tmp_path: Path) -> None:
    nccl = "version: 2.24.3, protocol: LL, channels: 1, threads: 512"
    more = "broadcasts:\n  - {bytes: 20000}\n  - {bytes: 640}\n"
    assert check_round_trip(*synthesized(tmp_path, nccl, [5_000, 700], more=more)).broadcasts == (20_000, 640)


def test_a_learned_job_passes_the_audit_of_its_capture(tmp_path: Path) -> None:
    nccl = "version: 2.24.3, protocol: LL, channels: 2, threads: 512"
    records, _ = synthesized(tmp_path, nccl, [20_000, 700])
    learned = tmp_path / "learned.yaml"
    learned.write_text(fragment(learn(records), ("mirror.pcapng",), Dtype.FP32))
    place = payload_world.TOPOLOGIES / "two-host"
    specs = load_specs(place / "topology.yaml", learned, place / "policy.yaml")
    report = audit(expect(build_job(specs.job, specs.topology), None), records)
    assert {ring.verdict for ring in report.rings} == {Verdict.COVERED}


def test_a_ring_of_four_is_told_by_its_messages(tmp_path: Path) -> None:
    plan = payload_world.plan_of("four-host")
    synthesize(plan, tmp_path / "m.pcapng", iterations=3)
    found = learn(replay([tmp_path / "m.pcapng"]))
    assert found.shape is not None
    assert found.shape.ranks == 4
    assert [most for _, most in found.shape.elements] == [bucket.size // 4 for bucket in plan.job.wire.buckets]


def test_what_is_no_all_reduce_is_said_to_be_none() -> None:
    line = audit_world.Line(audit_world.address(0), audit_world.address(1), 0x20)
    for number, size in enumerate([100, 7_000, 23, 5_555]):
        line.send(size, number * audit_world.SECOND)
    found = learn(audit_world.records([line]))
    assert found.shape is None
    text = fragment(found, ("x.pcap",), Dtype.FP32)
    assert "No iteration of a ring all-reduce was recognised" in text
    assert yaml.safe_load(text) is None


def test_one_torn_iteration_more_or_less_does_not_move_the_border() -> None:
    _, wires = audit_world.run(5, elements=[5_000, 5_000])  # equal buckets: pauses alone tell
    for line in wires.values():
        line.lost |= {3, 41}
    made = audit_world.records(wires.values())
    flagged = (replace(f, messages=tuple(replace(m, ll_flag=1) for m in f.messages)) for f in made.flows)
    found = learn(replace(made, flows=tuple(flagged)))
    assert found.shape is not None
    assert len(found.shape.elements) == 2
    assert found.hops[0].by_pauses
