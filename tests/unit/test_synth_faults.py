"""Scripted faults: the file differs from the clean one by exactly what the report says."""

import json
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner

from flowcheck_net.errors import SpecError
from flowcheck_net.ids import CapturePort
from flowcheck_net.plan.plan import plan_to_json
from flowcheck_net.receive.pcapng_write import PcapngWriter
from flowcheck_net.receive.synth import synthesize
from flowcheck_net.receive.synth_faults import Fault, FaultKind, parse_fault
from tests.doubles.synth_reading import every_host_port, example, read, written


def test_loss_is_what_the_report_says(tmp_path: Path) -> None:
    plan = example("four-host")
    clean, _ = written(plan, tmp_path)
    lossy, report = written(plan, tmp_path, "loss:hop=dp0/0/1,iteration=1,packet=17-19", "loss:hop=dp0/0/0,rate=0.05")
    gone = Counter(p.frame for p in clean) - Counter(p.frame for p in lossy)
    by_frame = {p.frame: p for p in clean}
    assert not Counter(p.frame for p in lossy) - Counter(p.frame for p in clean)
    assert Counter((by_frame[f].dest_qp, by_frame[f].psn, by_frame[f].opcode) for f in gone) == Counter(
        (event.dest_qp, event.psn, event.opcode) for event in report.events
    )
    named = [event for event in report.events if event.hop == "dp0/0/1"]
    span = next(s for s in report.spans if s.hop == "dp0/0/1" and s.iteration == 1)
    assert [event.psn for event in named] == [span.first_psn + n for n in (17, 18, 19)]
    assert 10 < len(report.events) - 3 < 120, "about 5 % of some 1000 packets"


def test_counted_loss_is_in_the_statistics(tmp_path: Path) -> None:
    plan = example("four-host")
    out = tmp_path / "x.pcapng"
    faults = [
        parse_fault("loss:capture=ckpt1:cap1,rate=0.1,counted=yes"),
        parse_fault("loss:capture=ckpt1:cap0,rate=0.1"),
    ]
    report = synthesize(plan, out, iterations=1, faults=faults)
    packets, statistics = read(out)
    arrived = Counter(p.interface for p in packets)
    lost = Counter(event.capture for event in report.events)
    assert lost["ckpt1:cap1"] > 0 < lost["ckpt1:cap0"]  # type: ignore[index]
    assert statistics == {
        "ckpt1:cap0": (arrived["ckpt1:cap0"], 0),
        "ckpt1:cap1": (arrived["ckpt1:cap1"] + lost[CapturePort("ckpt1:cap1")], lost[CapturePort("ckpt1:cap1")]),
        "ckpt1:cap2": (arrived["ckpt1:cap2"], 0),
    }


def test_duplicate_and_reorder(tmp_path: Path) -> None:
    plan = example("two-host")
    packets, report = written(
        plan,
        tmp_path,
        "duplicate:hop=dp0/0/0,iteration=0,packet=3",
        "reorder:hop=dp0/0/0,iteration=0,packet=30,distance=2",
        iterations=1,
    )
    order = [p.psn for p in packets if p.data and p.source == "10.0.0.1"]
    assert order == [0, 1, 2, 3, 4, 3, *range(5, 30), 31, 32, 30, *range(33, 40)]
    assert [(event.kind, event.packet, event.psn) for event in report.events] == [
        ("duplicate", 3, 3),
        ("reorder", 30, 30),
    ]


@pytest.mark.parametrize("seen", ["yes", "no"])
def test_retransmission_goes_back(tmp_path: Path, seen: str) -> None:
    fault = f"retransmit:hop=dp0/0/0,iteration=0,packet=5,window=4,seen={seen}"
    plan = every_host_port(example("two-host"))
    packets, report = written(plan, tmp_path, fault, iterations=1)
    order = [p.psn for p in packets if p.data and p.source == "10.0.0.1"]
    first = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] if seen == "yes" else [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert order == [*first, *range(5, 40)]
    naks = [p for p in packets if p.opcode == 17 and p.frame[54] == 0x60]
    assert [(p.psn, p.source) for p in naks] == [(5, "10.0.0.2")]
    again = [p for p in packets if p.data and p.source == "10.0.0.1" and p.psn == 7]
    assert again[0].frame == again[1].frame, "the same packet, the same ICRC"
    assert again[0].time < naks[0].time < again[1].time
    assert [(event.packet, event.psn, event.packets) for event in report.events] == [(5, 5, 5)]
    acks = [p.psn for p in packets if p.opcode == 17 and p.source == "10.0.0.2" and p.frame[54] != 0x60]
    assert {15, 39} <= set(acks)


def test_foreign_flow(tmp_path: Path) -> None:
    packets, report = written(example("two-host"), tmp_path, "foreign:packets=40,iteration=1")
    foreign = [p for p in packets if p.source == "198.51.100.1"]
    assert [p.psn for p in foreign] == list(range(5000, 5040))
    assert Counter(p.opcode for p in foreign) == {6: 3, 7: 34, 8: 3}
    assert [(f.hop, f.source, f.opcodes) for f in report.flows if f.hop is None] == [
        (None, "198.51.100.1", {6: 3, 7: 34, 8: 3})
    ]
    packets, _ = written(example("two-host"), tmp_path, "foreign:source=fd00::1,destination=fd00::2,packets=1")
    assert [p.opcode for p in packets if p.source == "fd00::1"] == [10]


def test_cut_and_late(tmp_path: Path) -> None:
    plan = example("two-host")
    packets, report = written(
        plan, tmp_path, "cut:hop=dp0/0/0,iteration=1,packet=9", "late:hop=dp0/0/1,iteration=0,packet=4"
    )
    cut = [p.psn for p in packets if p.data and p.source == "10.0.0.1"]
    assert cut == list(range(50)), "40 of the first iteration, 10 of the second"
    late = [p.psn for p in packets if p.data and p.source == "10.0.0.2"]
    assert late == list(range(4, 80))
    clean, _ = written(plan, tmp_path)
    assert sum(c.outside for c in report.captures) == len(clean) - len(packets)


def test_cut_by_time(tmp_path: Path) -> None:
    plan = example("two-host")
    clean, _ = written(plan, tmp_path)
    packets, _ = written(plan, tmp_path, "cut:iteration=1,at=0")
    assert packets == [p for p in clean if p.time < 1_767_225_600_500_000_000]


def test_same_arguments_same_file(tmp_path: Path) -> None:
    plan = example("two-host")
    faults = [parse_fault("loss:capture=ckpt1:cap0,rate=0.2")]
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        synthesize(plan, tmp_path / name, iterations=2, faults=faults, seed=seed)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes() != (tmp_path / "c").read_bytes()


def test_faults_that_do_not_fit(tmp_path: Path) -> None:
    texts = ["loss:hop=dp0/0/7,packet=1", "loss:capture=no:cap,rate=0.1", "retransmit:hop=dp0/0/0,iteration=9,packet=1"]
    texts.append("duplicate:hop=dp0/0/0,packet=40")
    with pytest.raises(SpecError) as caught:
        written(example("two-host"), tmp_path, *texts)
    assert [(problem.path, problem.cure) for problem in caught.value.problems] == [
        ("capture", "one of ckpt1:cap0, ckpt1:cap1"),
        ("hop", "one of dp0/0/0, dp0/0/1"),
        ("iteration", "0 to 1"),
        ("packet", "0 to 39"),
    ]
    assert list(tmp_path.iterdir()) == []


def test_a_retransmission_that_no_tap_sees_is_refused(tmp_path: Path) -> None:
    plan = example("eight-host")
    crossed = {hop.index for hop in plan.hops if hop.channel == 0}
    far = next(i for i in range(8) if not {i, (i + 1) % 8, (i - 1) % 8} & crossed)
    with pytest.raises(SpecError) as caught:
        written(plan, tmp_path, f"retransmit:hop=dp0/0/{far},packet=1")
    assert "no observation point sees hop" in caught.value.problems[0].message


def test_command(tmp_path: Path) -> None:
    from flowcheck_net.cli.synth import command

    plan, out, truth = tmp_path / "plan.json", tmp_path / "m.pcapng", tmp_path / "truth.json"
    plan.write_text(plan_to_json(example("two-host")))
    arguments = [str(plan), "-o", str(out), "--iterations", "1", "--truth", str(truth)]
    result = CliRunner().invoke(command, [*arguments, "--fault", "loss:hop=dp0/0/0,packet=2", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output) == json.loads(truth.read_text())
    assert json.loads(result.output)["events"][0]["psn"] == 2
    assert len(read(out)[0]) == json.loads(result.output)["packets"]
    shown = CliRunner().invoke(command, [*arguments, "--fault", "loss:hop=dp0/0/0,packet=2"])
    assert "loss: once (loss:hop=dp0/0/0,packet=2)" in shown.output
    assert isinstance(CliRunner().invoke(command, [*arguments, "--fault", "los:"]).exception, SpecError)
    shown = CliRunner().invoke(command, [*arguments, "--senders", "--start-psn", "7"])
    assert [line.split(":")[0].strip() for line in shown.output.splitlines()[1:]] == ["host1", "host2"]
    assert {span["first_psn"] for span in json.loads(truth.read_text())["spans"]} == {7}


def test_forms() -> None:
    assert parse_fault("loss:hop=dp0/0/1,iteration=2,packet=17-19") == Fault(
        "loss:hop=dp0/0/1,iteration=2,packet=17-19", FaultKind.LOSS, hop="dp0/0/1", iteration=2, packet=(17, 19)
    )
    assert parse_fault("foreign").packets == 100
    assert parse_fault("retransmit:hop=a/b/0/1,packet=3,seen=no").seen is False
    assert parse_fault("loss:capture=n:c,rate=0.01,counted=yes").rate == 0.01


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("los:x=1", "unknown fault 'los' in 'los:x=1' (did you mean 'loss'?)"),
        ("loss", "says neither packet nor rate in 'loss' (add packet=17, packet=17-19 or rate=0.01)"),
        ("loss:hop=dp0/1,packet=1", "must be GROUP/CHANNEL/INDEX, such as dp0/0/1, found 'dp0/1'"),
        ("loss:packet=1", "hop: is missing in 'loss:packet=1'"),
        ("loss:hop=a/0/1,packet=5-3", "must not end before it begins, found '5-3'"),
        ("loss:hop=a/0/1,packet=-3", "must be a whole number, 0 or more, found '-3'"),
        ("loss:capture=ckpt1,rate=0.1", "must be NODE:NIC, such as ckpt1:cap0, found 'ckpt1'"),
        ("loss:capture=a:b,rate=nan", "must be a number from 0 to 1, found 'nan'"),
        ("loss:capture=a:b,rate=1,rate=1", "rate: is given twice"),
        ("loss:capture=a:b,rate=1,counted=maybe", "must be yes or no, found 'maybe'"),
        ("loss:capture=a:b,rate=1,distance=3", "distance: loss does not know 'distance'"),
        ("retransmit:packet=1", "hop: is missing"),
        ("foreign:source=10.0.0.1", "needs source and destination"),
        ("foreign:source=10.0.0.1,destination=fd00::1", "needs two addresses of one family"),
        ("foreign:source=ten,destination=fd00::1", "source: must be an IPv4 or IPv6 address, found 'ten'"),
        ("cut:iteration=1", "needs iteration, and either at or hop and packet"),
        ("late:at=0.5", "needs iteration, and either at or hop and packet"),
    ],
)
def test_what_is_refused(text: str, problem: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_fault(text)
    assert problem in caught.value.message
    assert caught.value.exit_code == 2
    assert "loss:capture=NODE:NIC,rate=R" in caught.value.hint


def test_an_unfinished_file_never_has_the_name(tmp_path: Path) -> None:
    out = tmp_path / "x.pcapng"
    out.write_bytes(b"former")

    def interrupted() -> None:
        with PcapngWriter(out, ["a"], "test") as writer:
            writer.write(0, 1, bytes(60))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [path.name for path in tmp_path.iterdir()] == ["x.pcapng"]
    assert out.read_bytes() == b"former"
