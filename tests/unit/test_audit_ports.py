"""Copies that arrive, but not where the plan sends them: a wrong cable or mirror destination is found."""

from dataclasses import replace

import pytest

from flowcheck_net.audit.coverage import audit
from flowcheck_net.audit.verdict import Finding, FindingKind, Verdict
from flowcheck_net.ids import CapturePort
from flowcheck_net.model.expect import Expectation, expect
from tests.doubles import audit_world as world

OTHER = CapturePort("ckpt1:cap9")


def seen_at(*captures: str, expectation: Expectation | None = None) -> tuple[Verdict, list[Verdict], list[Finding]]:
    """Hops 0 and 1 of two ranks, both planned at ckpt1:cap0, as they arrive at these ports."""
    usual, wires = world.run()
    for line, capture in zip(wires.values(), captures, strict=True):
        line.capture = CapturePort(capture)
    report = audit(expectation or usual, world.records(wires.values()))
    return report.verdict, world.verdicts(report), [f for f in report.findings if f.kind is FindingKind.OTHER_CAPTURE]


def test_the_planned_port_is_no_finding() -> None:
    assert seen_at("ckpt1:cap0", "ckpt1:cap0") == (Verdict.COVERED, [Verdict.COVERED] * 2, [])


def test_another_port_is_named_beside_the_planned_one_and_takes_nothing_from_the_rings() -> None:
    verdict, rings, (finding,) = seen_at("ckpt1:cap0", OTHER)
    assert verdict is Verdict.STALE
    assert rings == [Verdict.COVERED] * 2
    assert finding.verdict is Verdict.STALE
    assert finding.subject == "hop dp0/0/1 (1->0)"
    # two iterations of 40 packets, see world.run
    assert finding.text.startswith("80 packets arrived at ckpt1:cap9, the plan sends them to ckpt1:cap0: a cable")


def test_without_a_plan_no_port_is_another() -> None:
    job = world.job()
    verdict, _, findings = seen_at(OTHER, OTHER, expectation=expect(job, None))
    assert (verdict, findings) == (Verdict.COVERED, [])


@pytest.mark.parametrize("name", ["mirror", "eth0", "a.pcap", ":cap0", "ckpt1:"])
def test_a_capture_named_after_a_file_is_a_note_that_says_how_to_name_it(name: str) -> None:
    verdict, _, (finding,) = seen_at(name, name)
    assert verdict is Verdict.COVERED
    assert finding.verdict is None
    assert finding.subject == name
    assert "`flowcheck-net replay --capture ckpt1:cap0=FILE`" in finding.text


def test_equal_queue_pairs_may_be_each_others() -> None:
    """Two channels with equal messages at two ports: which is which cannot be told, so a swap is no finding."""
    usual, wires = world.run(channels=2, elements=(12_288,))
    ports = {0: CapturePort("ckpt1:cap0"), 1: CapturePort("ckpt1:cap1")}
    expectation = replace(usual, hops=tuple(replace(h, captures=(ports[h.channel],)) for h in usual.hops))
    for (channel, _), line in wires.items():
        line.capture = ports[1 - channel]
    report = audit(expectation, world.records(wires.values()))
    assert [f.kind for f in report.findings] == [FindingKind.AMBIGUOUS] * 2
