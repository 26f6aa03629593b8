"""A spool that was cut where the receiver died never gives records that claim more than was seen."""

import random
from collections import Counter
from pathlib import Path

import pytest

from flowcheck_net.errors import OutputError, ReceiveError
from flowcheck_net.ids import CapturePort
from flowcheck_net.receive.kept_file import KeptFile
from flowcheck_net.receive.native import Settings
from flowcheck_net.receive.native_receiver import SpoolKind
from flowcheck_net.receive.receiver_config import Plan
from flowcheck_net.receive.receiver_device import Port, device_of
from flowcheck_net.receive.receiver_run import Run, records_of, spool_folder, watch
from flowcheck_net.receive.receiver_spool import blocks, spool_records
from flowcheck_net.receive.records import Flow, Records
from flowcheck_net.receive.synth import synthesize
from tests.doubles.synth_reading import example
from tests.dpdk.receiving import needs_receiver

pytestmark = needs_receiver


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a receiver left of a synthesized job, with messages of many takes in it."""
    base = tmp_path_factory.mktemp("spool")
    capture = base / "job.pcapng"
    synthesize(example("two-host"), capture, iterations=10)
    device = device_of(f"pcap:{capture}", 0, 4256)
    plan = Plan((Port(CapturePort("ckpt0:cap0"), device, 4256),), Settings(), interval_ms=20, hugepages=False)
    left = base / "left"
    left.mkdir()
    run = Run(plan, left)
    watch(run, duration_s=None, idle_s=0.3, show=lambda _: None)
    assert run.deaths == []
    return left


@pytest.fixture(scope="module")
def whole(folder: Path) -> Records:
    return records_of(folder)


def spool(folder: Path) -> Path:
    return folder / "life-0.spool"


def test_the_whole_one(folder: Path, whole: Records) -> None:
    kinds = [block.kind for block in blocks(KeptFile.opened(spool(folder)))]
    assert kinds[0] == SpoolKind.HEAD
    assert kinds[-1] == SpoolKind.END
    assert whole.warnings == ()
    assert sum(len(flow.messages) for flow in whole.flows) > 20
    assert whole.captures[0].dropped == 0


def key(flow: Flow) -> tuple[str, str, str, int]:
    return flow.capture, flow.source, flow.destination, flow.dest_qp


def claims_no_more(part: Records, whole: Records) -> None:
    flows = {key(flow): flow for flow in whole.flows}
    for flow in part.flows:
        full = flows[key(flow)]
        assert not Counter(flow.messages) - Counter(full.messages)
        assert all(any(a <= first and last <= b for a, b in full.seen) for first, last in flow.seen)
        assert all(flow.packets[name] <= count for name, count in full.packets.items())
        assert flow.bytes <= full.bytes
    assert all(one.packets <= two.packets for one, two in zip(part.captures, whole.captures, strict=True))


def test_messages_outlive_the_name_of_the_spool(folder: Path, whole: Records, tmp_path: Path) -> None:
    """A receiver that ends removes it, between the moment somebody opened it and the moment he looks at messages."""
    copy = tmp_path / "life-0.spool"
    copy.write_bytes(spool(folder).read_bytes())
    early = spool_records(copy, ("x",))
    copy.unlink()
    assert [list(flow.messages) for flow in early.flows] == [list(flow.messages) for flow in whole.flows]


def test_a_spool_cut_after_it_was_opened(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "life-0.spool"
    copy.write_bytes(spool(folder).read_bytes())
    early = spool_records(copy, ())
    copy.write_bytes(b"")
    with pytest.raises(ReceiveError, match="was cut while it was being read"):
        list(early.flows[0].messages)


def test_cut_anywhere(folder: Path, whole: Records, tmp_path: Path) -> None:
    data = spool(folder).read_bytes()
    ends = [block.offset + len(block.content) for block in blocks(KeptFile.opened(spool(folder)))]
    draw = random.Random(6)
    places = {*ends[:-1], *(end - 1 for end in ends[1:]), *(draw.randrange(ends[1], len(data)) for _ in range(50))}
    cut = tmp_path / "cut.spool"
    some = 0
    for place in sorted(places):
        if place < ends[1]:  # not even the name of the port
            continue
        cut.write_bytes(data[:place])
        part = spool_records(cut, ())
        claims_no_more(part, whole)
        assert part.captures[0].dropped is None
        assert "the receiver was killed" in part.warnings[0]
        some += 0 < sum(len(flow.messages) for flow in part.flows) < sum(len(flow.messages) for flow in whole.flows)
    assert some > 3


def test_damaged_in_the_middle(folder: Path, whole: Records, tmp_path: Path) -> None:
    """What comes behind a bad block is not used."""
    data = bytearray(spool(folder).read_bytes())
    found = list(blocks(KeptFile.opened(spool(folder))))
    victim = next(block for block in found if block.kind == 1)
    data[victim.offset + 3] ^= 1
    damaged = tmp_path / "damaged.spool"
    damaged.write_bytes(data)
    assert len(list(blocks(KeptFile.opened(damaged)))) == found.index(victim)
    claims_no_more(spool_records(damaged, ()), whole)


def test_of_another_version(folder: Path, tmp_path: Path) -> None:
    from flowcheck_net.receive.records_write import write_block

    foreign = tmp_path / "foreign.spool"
    with foreign.open("wb") as file:
        write_block(file, SpoolKind.HEAD, (0, 1), bytes(16))  # type: ignore[arg-type]
    with pytest.raises(ReceiveError, match="not written by the receiver of this version"):
        spool_records(foreign, ())


def test_a_flow_at_two_workers_of_a_port_is_refused(folder: Path, tmp_path: Path) -> None:
    from flowcheck_net.receive.records_write import write_block

    doubled = tmp_path / "doubled.spool"
    with doubled.open("wb") as file:
        for block in blocks(KeptFile.opened(spool(folder))):
            for chain in (0, 1) if block.kind in (SpoolKind.WORKER, SpoolKind.FLOW) else (0,):
                write_block(file, block.kind, (chain, block.flow), block.content)  # type: ignore[arg-type]
    with pytest.raises(ReceiveError, match="came to two queues"):
        spool_records(doubled, ())


def test_lives_before_and_after_a_death_are_merged(folder: Path, tmp_path: Path) -> None:
    """The first was cut; the second saw packets of a later time, which a file cannot give: it saw nothing here."""
    (tmp_path / "sources").write_text("ckpt0:cap0=x\n")
    data = spool(folder).read_bytes()
    ends = [block.offset + len(block.content) for block in blocks(KeptFile.opened(spool(folder)))]
    (tmp_path / "life-0.spool").write_bytes(data[: ends[-2]])
    (tmp_path / "life-1.spool").write_bytes(data[: ends[1]])
    records = records_of(tmp_path, ["signal 9"])
    assert records.captures[0].dropped is None
    assert any("started 2 times" in warning for warning in records.warnings)
    assert records.warnings[-1] == "the receiver died: signal 9"


def test_one_run_at_a_time_and_nothing_left_unseen(tmp_path: Path) -> None:
    output = tmp_path / "records.fcr"
    with spool_folder(output) as held:
        with pytest.raises(OutputError, match="another receiver is writing"), spool_folder(output):
            pass
        (held / "life-0.spool").write_bytes(b"")
    with pytest.raises(OutputError, match="an earlier receiver left") as caught, spool_folder(output):
        pass
    assert "--recover -o" in caught.value.hint
    with spool_folder(output, recover=True) as found:
        assert found == held
    with pytest.raises(OutputError, match="no receiver left anything"), spool_folder(tmp_path / "y", recover=True):
        pass
