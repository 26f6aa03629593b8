"""The harness can fail: with the code broken on purpose in one place, it finds a checkpoint that must not be."""

import struct
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")

from flowcheck_net.audit.verdict import Verdict  # noqa: E402
from flowcheck_net.checkpoint import assemble, gate, guarded, optimizer, publish, state, store  # noqa: E402
from flowcheck_net.checkpoint.accept import node, run, wire  # noqa: E402
from flowcheck_net.checkpoint.accept.draw import Belief, Change, Disk, Experiment, Silence  # noqa: E402
from flowcheck_net.checkpoint.accept.trainer import SETTINGS  # noqa: E402
from flowcheck_net.checkpoint.accept.words import Kind, Outcome  # noqa: E402
from flowcheck_net.checkpoint.payload import write_gradients  # noqa: E402
from flowcheck_net.checkpoint.side import SideLog  # noqa: E402

EXAMPLE = Path(__file__).resolve().parents[2] / "topologies" / "four-host"
ADAMW, MASTER, NESTEROV, _ = SETTINGS
LOST = tuple(f"loss:hop=dp0/0/{hop},iteration=2,rate=1" for hop in (0, 1, 3))


@pytest.fixture(scope="module")
def acceptance() -> Iterator[run.Acceptance]:
    threads = torch.get_num_threads()
    with tempfile.TemporaryDirectory(dir=run.MEMORY) as place:
        yield run.Acceptance(EXAMPLE, Path(place), steps=4, every=2)
    torch.set_num_threads(threads)


def tried(acceptance: run.Acceptance, experiments: Sequence[Experiment]) -> list[Outcome]:
    return [acceptance.experiment(each) for each in experiments]


def check_right(outcomes: Sequence[Outcome]) -> None:
    assert [each.wrong for each in outcomes if each.wrong] == []


def check_found(outcomes: Sequence[Outcome], text: str) -> None:
    assert any(text in each for outcome in outcomes for each in outcome.wrong), [each.wrong for each in outcomes]


HOLES = {
    Kind.LOSS: LOST,
    Kind.CONGESTION: tuple(f"loss:capture=ckpt1:cap{port},rate=0.7,counted=yes" for port in range(3)),
    Kind.SWITCH: tuple(f"loss:hop=dp0/0/{hop},iteration=2,packet=5-41" for hop in (0, 1, 3)),
}


@pytest.mark.parametrize("kind", HOLES)
def test_a_gradient_with_holes_is_applied(
    acceptance: run.Acceptance, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    lost = [Experiment(0, 1, NESTEROV, kind, mirror=HOLES[kind])]
    check_right(tried(acceptance, lost))
    if kind is Kind.CONGESTION:  # it spoils the first step, too, and that one is tried
        monkeypatch.setattr(guarded.Guarded, "attempt", believe)
    monkeypatch.setattr(assemble, "_refuse_gaps", lambda *_: None)
    monkeypatch.setattr(assemble.Assembly, "_refuse_unproven", lambda *_: None)
    monkeypatch.setattr(assemble, "Verdict", lambda _: Verdict.COVERED)
    check_found(tried(acceptance, lost), "is not the trainer's")


MOVED = {
    Kind.LOSS: "loss:hop=dp0/0/{},iteration=2,packet=3-4",
    Kind.REORDER: "reorder:hop=dp0/0/{},iteration=2,rate=0.5,distance=6",
    Kind.DUPLICATE: "duplicate:hop=dp0/0/{},iteration=2,rate=0.3",
    Kind.RETRANSMIT: "retransmit:hop=dp0/0/{},iteration=2,packet=20",
}
"""At every hop: what one of them misplaces, another puts right."""


@pytest.mark.parametrize("kind", MOVED)
def test_packets_are_laid_as_they_arrive(
    acceptance: run.Acceptance, monkeypatch: pytest.MonkeyPatch, kind: Kind
) -> None:
    """The audit counts by the true numbers; the bytes are laid by the order of arrival."""
    moved = [Experiment(0, 1, NESTEROV, kind, mirror=tuple(MOVED[kind].format(hop) for hop in (0, 1, 3)))]
    check_right(tried(acceptance, moved))

    def lay(expectation: Any, records: Any, wanted: Any, _feed: Any, core: Any) -> Any:
        renumber(wanted.out.parent / "mirror.pcapng", wanted.out.parent / "renumbered.pcapng")

        def feed(each: Any) -> None:
            each.read(wanted.out.parent / "renumbered.pcapng", lambda name: name)

        return write_gradients(expectation, records, wanted, feed, core)

    monkeypatch.setattr(wire, "write_gradients", lay)
    monkeypatch.setattr(assemble, "_refuse_gaps", lambda *_: None)
    monkeypatch.setattr(assemble.Assembly, "_refuse_unproven", lambda *_: None)
    monkeypatch.setattr(assemble, "Verdict", lambda _: Verdict.COVERED)
    check_found(tried(acceptance, moved), "is not the trainer's")


def renumber(capture: Path, out: Path) -> None:
    """PSNs of each flow of each port ascend by one from its first: from its place in the file."""
    data = bytearray(capture.read_bytes())
    at, seen = 0, dict[bytes, int]()
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == 6:  # enhanced packet
            frame = at + 28
            ethertype = struct.unpack_from(">H", data, frame + 12)[0]
            bth = frame + 14 + {0x0800: 20, 0x86DD: 40}[ethertype] + 8
            if data[bth] in range(0x06, 0x0C):  # RDMA WRITE of a reliable connection
                key = bytes(data[at + 8 : at + 12] + data[frame + 14 : bth - 8][-8:] + data[bth + 5 : bth + 8])
                number = seen.get(key, int.from_bytes(data[bth + 9 : bth + 12], "big"))
                data[bth + 9 : bth + 12] = number.to_bytes(3, "big")
                seen[key] = (number + 1) % (1 << 24)
        at += length
    out.write_bytes(data)


def test_a_changed_optimizer_is_not_looked_at(acceptance: run.Acceptance, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = [Experiment(0, 1, MASTER, Kind.OPTIMIZER, change=(3, Change.DECAY))]
    check_right(tried(acceptance, changed))
    monkeypatch.setattr(optimizer.Replay, "_refuse_contradicted", lambda *_: None)
    check_found(tried(acceptance, changed), "is not the trainer's")


def test_a_step_without_side_values_is_applied(acceptance: run.Acceptance, monkeypatch: pytest.MonkeyPatch) -> None:
    once = [Experiment(0, 1, NESTEROV, Kind.OPTIMIZER, change=(3, Change.RATE_ONCE), announced=False)]
    check_right(tried(acceptance, once))
    monkeypatch.setattr(guarded, "told", lambda _: True)
    (outcome,) = tried(acceptance, once)
    assert outcome.published == (2,)  # publishing asks once more
    monkeypatch.setattr(gate, "told", lambda _: True)
    check_found(tried(acceptance, once), "is not the trainer's")


def believe(replay: guarded.Guarded) -> None:
    """As if it had been tried."""
    replay.trial = guarded.Trial(replay.step, identical=True)


def test_a_description_is_believed_untried(acceptance: run.Acceptance, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = [
        Experiment(0, 1, NESTEROV, Kind.PLAN, belief=Belief.SLOTS),
        Experiment(1, 1, NESTEROV, Kind.PLAN, belief=Belief.OFFSET),
    ]
    check_right(tried(acceptance, wrong))
    monkeypatch.setattr(guarded.Guarded, "attempt", believe)
    outcomes = tried(acceptance, wrong)
    check_found(outcomes[:1], "is not the trainer's")
    check_found(outcomes[1:], "is not the trainer's")


def test_a_replica_whose_process_died_in_a_step_is_taken_up(
    acceptance: run.Acceptance, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills = [Experiment(n, 1, ADAMW, Kind.RESTART, kills=((n / 7, True),)) for n in (2, 3, 5, 6)]
    check_right(tried(acceptance, kills[:2]))
    monkeypatch.setattr(state.ReplicaState, "begin", lambda *_: None)
    # what is taken up is tried against a regular checkpoint as well, which would find it
    monkeypatch.setattr(guarded.Guarded, "attempt", believe)
    outcomes = tried(acceptance, kills)
    assert any(each.lives == 2 for each in outcomes)
    check_found(outcomes, "is not")


@pytest.mark.parametrize("how", [Disk.FLIPPED, Disk.TORN, Disk.REMOVED])
def test_files_are_offered_unchecked(acceptance: run.Acceptance, monkeypatch: pytest.MonkeyPatch, how: Disk) -> None:
    damaged = [Experiment(0, seed, NESTEROV, Kind.STORAGE, disk=(0.5, how)) for seed in (1, 2)]
    monkeypatch.setattr(store, "check_files", lambda *_: None)
    outcomes = tried(acceptance, damaged)
    assert [each for each in outcomes if each.wrong] != []


def test_a_full_disk_is_not_noticed(acceptance: run.Acceptance, monkeypatch: pytest.MonkeyPatch) -> None:
    full = [Experiment(0, 1, NESTEROV, Kind.STORAGE, disk=(0.1, Disk.FULL))]
    check_right(tried(acceptance, full))
    genuine = publish._write

    def write(*words: Any) -> None:
        with suppress(*publish._write_faults()):
            genuine(*words)

    monkeypatch.setattr(publish, "_write", write)
    check_right(tried(acceptance, full))  # what was written is read back
    monkeypatch.setattr(publish, "_check", lambda *_: None)
    check_found(tried(acceptance, full), "cannot be loaded")


def test_a_disk_that_fails_is_not_noticed(acceptance: run.Acceptance, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = [Experiment(0, 1, NESTEROV, Kind.STORAGE, disk=(0.3, Disk.FSYNC))]
    check_right(tried(acceptance, failing))
    for name in ("sync_file", "sync_directory", "sync_tree"):
        genuine = getattr(publish, name)
        monkeypatch.setattr(publish, name, deaf(genuine))
    check_found(tried(acceptance, failing), "the disk did not take it")


def deaf(call: Any) -> Any:
    def quiet(*words: Any) -> None:
        with suppress(OSError):
            call(*words)

    return quiet


def test_buckets_are_not_compared_with_the_description(
    acceptance: run.Acceptance, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = [Experiment(0, 1, NESTEROV, Kind.PLAN, belief=Belief.CAPS)]
    check_right(tried(acceptance, wrong))

    def entry(document: Any, *_: object) -> Any:
        return document["groups"][0]

    monkeypatch.setattr(assemble, "_group_entry", entry)
    check_found(tried(acceptance, wrong), "the node crashed")


def test_a_side_value_of_the_step_before_is_used(acceptance: run.Acceptance, monkeypatch: pytest.MonkeyPatch) -> None:
    silent = [Experiment(0, 1, NESTEROV, Kind.SIDE, silence=(4, Silence.OMITS))]
    check_right(tried(acceptance, silent))
    genuine = SideLog.fields

    def stale(log: SideLog, step: int, wanted: Sequence[str]) -> Any:
        given, missing = genuine(log, step, wanted)
        return genuine(log, step - 1, wanted) if missing else (given, missing)

    monkeypatch.setattr(SideLog, "fields", stale)
    for module in (guarded, gate):
        monkeypatch.setattr(module, "told", lambda _: True)
    check_found(tried(acceptance, silent), "is not the trainer's: /rng/torch: other bits")


def test_a_node_that_never_publishes_is_not_right(acceptance: run.Acceptance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.Life, "_publish_due", lambda *_: None)
    outcomes = tried(acceptance, [Experiment(0, 1, NESTEROV, Kind.NONE)])
    check_found(outcomes, "no reason why step 2 is not published")
    check_found(outcomes, "nothing stood against it")


def test_a_node_that_gives_up_at_the_first_fault_is_not_right(
    acceptance: run.Acceptance, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = tuple(f"loss:hop=dp0/0/{hop},iteration=0,packet=5-41" for hop in (0, 1, 3))
    short = [Experiment(0, 1, NESTEROV, kind, mirror=lost) for kind in (Kind.LOSS, Kind.SWITCH)]
    short += [Experiment(2, 1, ADAMW, Kind.SIDE, silence=(1, Silence.OMITS))]
    short += [Experiment(3, 1, NESTEROV, Kind.OPTIMIZER, change=(2, Change.RATE))]
    check_right(tried(acceptance, short))
    monkeypatch.setattr(node.Life, "_realign", lambda *_: False)
    outcomes = tried(acceptance, short)
    assert [any("nothing stood against it" in each for each in outcome.wrong) for outcome in outcomes] == [True] * 4


@pytest.mark.parametrize("how", list(Silence))
def test_each_silence_stops_the_replica_at_its_step(acceptance: run.Acceptance, how: Silence) -> None:
    (outcome,) = tried(acceptance, [Experiment(0, 5, MASTER, Kind.SIDE, silence=(4, how))])
    check_right([outcome])
    assert outcome.published == (2,)
    assert outcome.unpublished.keys() == {4}
