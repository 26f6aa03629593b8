"""What the records of now must say before a step that lies whole in memory is applied."""

import shutil
from dataclasses import replace
from pathlib import Path

from flowcheck_net.audit.verdict import Verdict
from flowcheck_net.checkpoint.follow_proof import Judged, Prover
from flowcheck_net.checkpoint.placing import learn_placement
from flowcheck_net.plan.plan import expectation
from flowcheck_net.receive.layout import lay_out
from flowcheck_net.receive.receiver_config import placing_file
from flowcheck_net.receive.records_write import write_records
from flowcheck_net.receive.replay import replay
from flowcheck_net.receive.synth import synthesize
from flowcheck_net.receive.synth_faults import parse_faults
from tests.doubles.payload_world import plan_of


def judged(place: Path, *faults: str, told: str | None = "", shift: int = 0, later: bool = False) -> Judged:
    """Of a synthesized capture; ``told``: what the receiver places by, empty: what the records show.

    ``later``: the receiver had been started again when it was told.
    """
    place.mkdir(exist_ok=True)
    plan = plan_of("two-host")
    expected = expectation(plan)
    synthesize(plan, place / "m.pcapng", iterations=4, faults=parse_faults(faults), seed=7)
    records = replay([place / "m.pcapng"])
    write_records(place / "r.fcr", records)
    if told is not None:
        text = told or learn_placement(expected, records, trust_order=True).text
        lines = [line.split() for line in text.splitlines()]
        moved = [[*w[:1], str(int(w[1]) + shift), *w[2:]] if w[0] == "anchor" else w for w in lines]
        (place / "placing-0.txt").write_text("\n".join(map(" ".join, moved)) + "\n")
    prover = Prover(expected, lay_out(expected.wire, expected.hops), [place / "r.fcr"], place)
    if later:
        spool = place / "r.fcr.spool"
        spool.mkdir()
        (spool / "life-1.spool").touch()
        shutil.copy(place / "placing-0.txt", placing_file(spool / "life-1.spool"))
        prover.look()
        shutil.rmtree(spool)
    found = prover.look()
    assert found is not None
    assert found.final
    return found


def test_whole_records_that_place_as_the_receiver_did_prove(tmp_path: Path) -> None:
    found = judged(tmp_path)
    assert found.iterations == 4
    assert [found.doubts(number, trust_order=True) for number in range(4)] == [()] * 4
    assert found.verdict(3) is Verdict.COVERED
    assert found.doubts(4, trust_order=True) == ("the records do not show it yet",)


def test_an_anchor_one_packet_off_is_no_proof(tmp_path: Path) -> None:
    found = judged(tmp_path, shift=1)
    assert found.verdict(0) is Verdict.COVERED
    assert "its iterations lie elsewhere" in found.doubts(0, trust_order=True)[0]


def test_numbers_that_moved_by_an_iteration_are_no_proof(tmp_path: Path) -> None:
    """The receiver counts from the first iteration that it was shown; the audit may learn of an earlier one."""
    text = (judged(tmp_path / "a"), (tmp_path / "a" / "placing-0.txt").read_text())[1]
    lines = [line.split() for line in text.splitlines()]
    later = [[w[0], w[1], str(int(w[2]) + 1), *w[3:]] if w[0] == "anchor" else w for w in lines]
    found = judged(tmp_path / "b", told="\n".join(map(" ".join, later)))
    assert found.misplaced


def test_without_knowing_what_the_receiver_was_told_nothing_is_proven(tmp_path: Path) -> None:
    assert judged(tmp_path, told=None).doubts(0, trust_order=True) == ("the receiver was not told what to place yet",)


def test_what_the_audit_refuses_is_no_proof(tmp_path: Path) -> None:
    plan = plan_of("two-host")
    hops = sorted({f"{hop.group}/{hop.channel}/{hop.index}" for hop in plan.hops})
    found = judged(tmp_path, *(f"loss:hop={hop},iteration=1,rate=0.5" for hop in hops))
    assert found.doubts(0, trust_order=True) == ()
    assert "GAP" in found.doubts(1, trust_order=True)[0]


def test_an_assumption_is_no_proof_unless_it_is_trusted(tmp_path: Path) -> None:
    found = replace(judged(tmp_path), assumed=("equal messages",))
    assert found.doubts(0, trust_order=False) == ("equal messages",)
    assert found.doubts(0, trust_order=True) == ()
