"""Publishing: PyTorch trains, resumes and compares; processes are killed; bits are flipped."""

import io
import os
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")
pytest.importorskip("safetensors")

from flowcheck_net.audit.verdict import Verdict  # noqa: E402
from flowcheck_net.checkpoint import access, publish, store  # noqa: E402
from flowcheck_net.checkpoint.drift import last, measure, record, same_value  # noqa: E402
from flowcheck_net.checkpoint.files import erase_tree  # noqa: E402
from flowcheck_net.checkpoint.gate import Bar, NotPublished  # noqa: E402
from flowcheck_net.checkpoint.gradient import GroupProof, Proof  # noqa: E402
from flowcheck_net.checkpoint.guarded import Trial  # noqa: E402
from flowcheck_net.checkpoint.inventory import Declaration, Origin  # noqa: E402
from flowcheck_net.checkpoint.publish import Candidate, Policy  # noqa: E402
from flowcheck_net.checkpoint.sealing import Key, read_key, seal, unseal  # noqa: E402
from flowcheck_net.checkpoint.side import read_side  # noqa: E402
from flowcheck_net.checkpoint.side_client import framed, plain  # noqa: E402
from flowcheck_net.checkpoint.tree import digests, read_tree  # noqa: E402
from flowcheck_net.errors import OutputError, RecordsCorrupt  # noqa: E402
from flowcheck_net.ids import GroupName  # noqa: E402

POLICY = Policy(keep_last=2)


class Trainer:
    """Its checkpoints are the anchors, and stand for what a replica would have replayed."""

    def __init__(self) -> None:
        torch.manual_seed(3)
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2)).bfloat16()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        self.done = 0

    def train(self, steps: int) -> "Trainer":
        for _ in range(steps):
            self.optimizer.zero_grad()
            self.model(torch.randn(8, 4).bfloat16()).float().square().sum().backward()  # takes random numbers
            self.optimizer.step()
            self.schedule.step()
            self.done += 1
        return self

    def state(self) -> dict[str, Any]:
        held = {"step": self.done, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        more = {"scheduler": self.schedule.state_dict(), "rng": {"torch": torch.get_rng_state()}, "args": {"width": 6}}
        found: dict[str, Any] = copied(held | more)
        return found

    def resume(self, state: dict[str, Any]) -> "Trainer":
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["scheduler"])
        torch.set_rng_state(state["rng"]["torch"])
        self.done = state["step"]
        return self


def copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    if isinstance(value, dict):
        return {key: copied(each) for key, each in value.items()}
    return [copied(each) for each in value] if isinstance(value, list) else value


def proof(number: int, verdict: Verdict = Verdict.COVERED) -> Proof:
    return Proof("job", "p1", number, verdict, 0, (), (GroupProof(GroupName("dp0"), 5, f"{number:064x}"),))


def candidate(tmp_path: Path, anchor: dict[str, Any], now: dict[str, Any], **change: Any) -> Candidate:
    step = now["step"]
    fields = {"rng": plain(now["rng"]), "scheduler": plain(now["scheduler"])}
    path = tmp_path / "side.log"
    rates = {"learning_rates": [0.01]}
    frames = [message(each, each - 1, rates, fields if each == step else {}) for each in range(1, step + 1)]
    path.write_bytes(b"".join(frames))
    replayed = {key: now[key] for key in ("step", "model", "optimizer")}
    made = Candidate(
        step,
        anchor["step"],
        anchor,
        replayed,
        [(each, proof(each)) for each in range(anchor["step"] + 1, step + 1)],
        {name: tuple(tensor.shape) for name, tensor in now["model"].items()},
        "digest",
        read_side(path),
        trial=Trial(anchor["step"] + 1, identical=True),
    )
    return replace(made, **change)


def message(step: int, number: int, values: dict[str, Any], fields: dict[str, Any], rank: int = 0) -> bytes:
    told = {"v": 1, "run": "a", "rank": rank, "seq": number, "step": step, "at": 0.0, "dropped": 0, "lost": []}
    return framed(told | {"refused": [], "values": values, "fields": fields})


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory: the processes are killed here, not the machine, and fsync would take most of the time."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as place:
        yield Path(place)


@pytest.fixture
def two() -> tuple[dict[str, Any], dict[str, Any]]:
    trainer = Trainer().train(1)
    return trainer.state(), trainer.train(4).state()


def same(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    one, other = digests(mine), digests(theirs)
    assert one == other


def test_pytorch_resumes_bit_by_bit_from_both_forms(tmp_path: Path) -> None:
    import torch.distributed.checkpoint as dcp
    from safetensors.torch import load_file

    trainer = Trainer().train(1)
    anchor = trainer.state()
    now = trainer.train(4).state()
    found = publish.publish(tmp_path / "store", candidate(tmp_path, anchor, now), POLICY)
    same(read_tree(found.path / "safetensors"), now)
    end = trainer.train(5).state()

    blank = Trainer().train(1).state()
    with warnings.catch_warnings(action="ignore"):
        dcp.load(blank, checkpoint_id=found.path / "dcp", no_dist=True)
    same(blank, now)
    same(Trainer().train(1).resume(blank).train(5).state(), end)
    same(Trainer().train(1).resume(read_tree(found.path / "safetensors")).train(5).state(), end)

    flat = load_file(found.path / "safetensors" / "tensors.safetensors")
    for name, tensor in now["model"].items():
        assert torch.equal(flat[f"model.{name}"].view(torch.uint8), tensor.view(torch.uint8))


def test_the_manifest_says_where_everything_is_from(tmp_path: Path, two: Any) -> None:
    anchor, now = two
    found = publish.publish(tmp_path / "store", candidate(tmp_path, anchor, now), POLICY).manifest
    fields = found["fields"]
    assert (found["step"], found["anchor_step"], found["plans"]) == (5, 1, ["p1"])
    assert [each["step"] for each in found["proven"]["gradients"]] == [2, 3, 4, 5]
    assert fields["model.0.weight"]["source"] == "gradient-replay"
    assert (fields["rng.torch"]["source"], fields["rng.torch"]["of_step"]) == ("side-channel", 5)
    assert (fields["args.width"]["source"], fields["args.width"]["of_step"]) == ("explicit-snapshot", 1)
    assert found["files"].keys() == {
        "dcp/.metadata",
        "dcp/__0_0.distcp",
        "safetensors/rest.json",
        "safetensors/tensors.safetensors",
    }


def test_every_reason_against_is_named_and_nothing_is_written(tmp_path: Path, two: Any) -> None:
    anchor, now = two
    anchor["model"]["mean"] = torch.zeros(3)
    made = candidate(tmp_path, anchor, now, proofs=[(2, proof(2)), (4, proof(4, Verdict.UNKNOWN))])
    made = replace(made, side=type(made.side)())
    with pytest.raises(NotPublished) as refused:
        publish.publish(tmp_path / "store", made, POLICY)
    reasons = refused.value.reasons
    assert [r.what.split(":")[0] for r in reasons if r.bar is Bar.FIELD] == ["model.mean"]
    assert {r.what.split(" of ")[0] for r in reasons if r.bar is Bar.SIDE} >= {"rng.torch", "scheduler.last_epoch"}
    assert [r.what for r in reasons if r.bar is Bar.PROOF] == [
        "no proof of step 3 (anchor at step 1)",
        "step 4 is UNKNOWN",
    ]
    assert not (tmp_path / "store").exists()
    assert refused.value.exit_code == 10


def test_nothing_is_published_that_the_trainer_did_not_vouch_for(tmp_path: Path, two: Any) -> None:
    made = candidate(tmp_path, *two)
    trial = made.trial
    assert trial is not None
    for other in (None, replace(trial, step=1), replace(trial, step=6)):  # none, of the anchor itself, of a later step
        with pytest.raises(NotPublished) as refused:
            publish.publish(tmp_path / "store", replace(made, trial=other), POLICY)
        assert [each.bar for each in refused.value.reasons] == [Bar.UNTRIED]
    silent = [each for each in made.side.messages if each.step not in (3, 4)]
    with pytest.raises(NotPublished) as refused:
        publish.publish(tmp_path / "store", replace(made, side=type(made.side)(silent)), POLICY)
    assert [str(each) for each in refused.value.reasons] == [
        "step-untold: nobody told the learning rates of step 3 nor of 1 more"
    ]
    assert publish.publish(tmp_path / "store", made, POLICY).manifest["tried"] == {"step": 2, "identical": True}


def test_a_value_of_another_step_is_not_used(tmp_path: Path, two: Any) -> None:
    anchor, now = two
    made = candidate(tmp_path, anchor, now)
    with pytest.raises(NotPublished, match="awaited"):
        publish.publish(tmp_path / "s", replace(made, step=6, proofs=[*made.proofs, (6, proof(6))]), POLICY)


def test_declared_buffers_come_by_the_side_channel(tmp_path: Path, two: Any) -> None:
    anchor, now = two
    anchor["model"]["mean"] = torch.zeros(3)
    made = candidate(tmp_path, anchor, now)
    path = tmp_path / "side.log"
    value = torch.tensor([1.0, 2.0, 3.0])
    with path.open("ab") as file:
        file.write(message(5, 0, {}, {"model.mean": plain(value)}, rank=1))
    made = replace(made, side=read_side(path), declared=[Declaration("model.mean", Origin.SIDE)])
    found = publish.publish(tmp_path / "store", made, POLICY)
    assert torch.equal(read_tree(found.path / "safetensors")["model"]["mean"], value)


KEY = Key(bytes(range(32)))
EVERY = "FLOWCHECK_CRASH" in os.environ


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_each_flipped_byte_is_found(tmp_path: Path, two: Any, key: Key | None) -> None:
    place = tmp_path / "store"
    found = publish.publish(place, candidate(tmp_path, *two), Policy(key))
    assert publish.verify(place, found, key) == "files and fields"
    for path in [p for p in sorted(found.path.rglob("*")) if p.is_file()]:
        data = path.read_bytes()
        for at in (0, len(data) // 2, len(data) - 1):
            path.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
            if path.name == store.MANIFEST:
                if at != len(data) - 1:  # its last byte is a newline
                    assert not store.published(place)[0], at
            else:
                with pytest.raises(RecordsCorrupt, match="digest"):
                    publish.verify(place, found, key)
                assert store.newest(place) is None
        path.write_bytes(data)
    assert store.newest(place) is not None


def test_a_sealed_store_holds_nothing_plain_and_opens_with_its_key_only(tmp_path: Path, two: Any) -> None:
    place = tmp_path / "store"
    found = publish.publish(place, candidate(tmp_path, *two), Policy(KEY))
    needle = two[1]["model"]["0.weight"].view(torch.uint8).numpy().tobytes()[:16]
    assert all(needle not in p.read_bytes() for p in place.rglob("*") if p.is_file())
    assert publish.verify(place, found) == "files"
    for wrong, words in ((None, "encrypted with key"), (Key(bytes(32)), "not its key")):
        with pytest.raises(RecordsCorrupt, match=words):
            publish.restore(place, tmp_path / "out", key=wrong)
        assert not (tmp_path / "out").exists()
        assert not (tmp_path / "out.new").exists()
    publish.restore(place, tmp_path / "out", key=KEY)
    same(read_tree(tmp_path / "out" / "safetensors"), two[1])
    assert [line["action"] for line in access.read_access(place)] == [
        "publish",
        "verify",
        "restore",
        "restore",
        "restore",
    ]


def test_sealed_chunks_can_be_neither_swapped_nor_dropped(tmp_path: Path) -> None:
    size = 1 << 20
    (tmp_path / "a").write_bytes(os.urandom(2 * size + 5))
    seal(tmp_path / "a", tmp_path / "s", "a", KEY)
    data = (tmp_path / "s").read_bytes()
    head, chunk = 36, size + 16
    one, two_, rest = data[head : head + chunk], data[head + chunk : head + 2 * chunk], data[head + 2 * chunk :]
    for number, bad in enumerate((two_ + one + rest, one + rest, one + two_, one + two_ + rest[:-1])):
        (tmp_path / "bad").write_bytes(data[:head] + bad)
        with pytest.raises(RecordsCorrupt, match="changed or cut off"):
            unseal(tmp_path / "bad", tmp_path / f"o{number}", "a", KEY)
    with pytest.raises(RecordsCorrupt, match="changed"):
        unseal(tmp_path / "s", tmp_path / "o8", "b", KEY)
    unseal(tmp_path / "s", tmp_path / "o9", "a", KEY)
    assert (tmp_path / "o9").read_bytes() == (tmp_path / "a").read_bytes()
    # an independent reading of the documented form
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    own = HKDF(SHA256(), 32, data[16:32], b"flowcheck-net file").derive(KEY.secret)
    nonce = (1).to_bytes(8, "little") + (0).to_bytes(4, "little")
    assert AESGCM(own).decrypt(nonce, two_, data[:head] + b"a") == (tmp_path / "a").read_bytes()[size : 2 * size]


def test_key_files_are_private(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(KEY.secret.hex() + "\n")
    path.chmod(0o640)
    with pytest.raises(OutputError, match="by others"):
        read_key(path)
    path.chmod(0o600)
    assert read_key(path) == KEY
    assert KEY.secret.hex() not in repr(KEY)
    path.write_bytes(b"short")
    with pytest.raises(OutputError, match="32 bytes"):
        read_key(path)


def test_retention_keeps_the_last_and_every_nth(tmp_path: Path, two: Any) -> None:
    anchor, now = two
    place = tmp_path / "store"
    for step in range(2, 9):
        now["step"] = step
        publish.publish(place, candidate(tmp_path, anchor, now), Policy(keep_last=2, keep_every=4))
    assert [each.step for each in store.published(place)[0]] == [4, 7, 8]
    assert [line["step"] for line in access.read_access(place) if line["action"] == "erase"] == [2, 3, 5, 6]
    with pytest.raises(OutputError, match="has step 8 already, this is 8"):
        publish.publish(place, candidate(tmp_path, anchor, now), POLICY)


def test_a_training_that_went_back_puts_later_checkpoints_out(tmp_path: Path, two: Any) -> None:
    anchor, now = two
    place = tmp_path / "store"
    for step in (3, 5, 7):
        publish.publish(place, candidate(tmp_path, anchor, dict(now, step=step)), Policy(keep_last=9))
    again = candidate(tmp_path, dict(anchor, step=3), dict(now, step=5))
    with pytest.raises(OutputError, match="has step 7 already, this is 5") as refused:
        publish.publish(place, again, Policy(keep_last=9))
    assert "--supersede" in refused.value.hint
    publish.publish(place, again, Policy(keep_last=9, supersede=True))
    assert [each.step for each in store.published(place)[0]] == [3, 5]


def test_a_sealed_store_takes_nothing_plain(tmp_path: Path, two: Any) -> None:
    anchor, now = two
    place = tmp_path / "store"
    publish.publish(place, candidate(tmp_path, anchor, now), Policy(KEY))
    for other in (None, Key(bytes(32))):
        with pytest.raises(OutputError, match="is encrypted with key"):
            publish.publish(place, candidate(tmp_path, anchor, dict(now, step=6)), Policy(other))


def test_erasing_overwrites_before_it_unlinks(tmp_path: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    (tmp_path / "d" / "e" / "f").write_bytes(b"secret" * 1000)
    os.link(tmp_path / "d" / "e" / "f", tmp_path / "kept")
    erase_tree(tmp_path / "d")
    assert not (tmp_path / "d").exists()
    assert len((tmp_path / "kept").read_bytes()) == 6000
    assert b"secret" not in (tmp_path / "kept").read_bytes()


def test_the_access_log_shows_tampering(tmp_path: Path) -> None:
    for step in range(4):
        access.note(tmp_path, "verify", step)
    lines = (tmp_path / "access.log").read_bytes().splitlines(keepends=True)
    (tmp_path / "access.log").write_bytes(b"".join(lines) + b'{"half')
    access.note(tmp_path, "verify", 4)
    assert [line["step"] for line in access.read_access(tmp_path)] == [0, 1, 2, 3, 4]
    (tmp_path / "access.log").write_bytes(lines[0] + lines[2] + lines[3])
    with pytest.raises(RecordsCorrupt, match="taken out"):
        access.read_access(tmp_path)


def test_a_full_disk_leaves_the_former_checkpoint(tmp_path: Path, two: Any) -> None:
    anchor, now = two
    place = tmp_path / "store"
    publish.publish(place, candidate(tmp_path, anchor, now), POLICY)
    now["step"] = 6
    made = candidate(tmp_path, anchor, now)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    for room in (0, 100, 2000, 6000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        try:
            with pytest.raises(OutputError, match="cannot be"):
                publish.publish(place, made, POLICY)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        found = store.newest(place)
        assert found is not None
        assert found.step == 5
    assert publish.publish(place, made, POLICY).step == 6
    assert not list((place / "checkpoints").glob(".*"))


def moments(point: int) -> Iterator[Callable[[], None]]:
    left = point

    def tick() -> None:
        nonlocal left
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1

    while True:
        yield tick


def killed_at(point: int, action: Callable[[], object]) -> bool:
    """Run in a child that is killed around its point-th call that changes a disk; False: it ended before."""
    child = os.fork()
    if not child:
        code = 3
        try:
            tick = next(moments(point))
            for name in ("fsync", "rename", "unlink", "rmdir", "mkdir", "open", "urandom"):
                setattr(os, name, around(getattr(os, name), tick))
            io.open = around(io.open, tick)  # as pathlib and PyTorch's writer call it
            action()
            code = 0
        except BaseException:  # noqa: BLE001 - the child must not return into pytest
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0
    return False


def around(call: Callable[..., Any], tick: Callable[[], None]) -> Callable[..., Any]:
    def ticking(*arguments: Any, **named: Any) -> Any:
        tick()
        found = call(*arguments, **named)
        tick()
        return found

    return ticking


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_killed_at_any_point_the_newest_whole_checkpoint_loads(tmp_path: Path, two: Any, key: Key | None) -> None:
    anchor, now = two
    place = tmp_path / "store"
    policy = Policy(key, keep_last=1)
    before = publish.publish(place, candidate(tmp_path, anchor, now), policy)
    now["step"] = 6
    made = candidate(tmp_path, anchor, now)
    torch.set_num_threads(1)
    found_steps = []
    point = 0

    def act() -> None:
        publish.publish(place, made, policy)

    while killed_at(point, act):
        found = store.newest(place)
        assert found is not None
        publish.verify(place, found, key)
        found_steps.append(found.step)
        access.read_access(place)
        if found.step == 6:  # published, and killed while the former one was erased: begin again
            for each in store.published(place)[0]:
                store.remove(place, each)
            store.sweep(place)
            publish.publish(place, candidate(tmp_path, anchor, dict(now, step=5)), policy)
        point += 1 if EVERY else 5
    sys.stdout.write(
        f"killed around {point // 2:,} calls: {len(found_steps):,} times, each time a whole one was the newest; "
        f"step 6 {found_steps.count(6):,} times\n"
    )
    assert set(found_steps) == {5, 6}
    assert point > 100
    final = store.newest(place)
    assert final is not None
    assert final.step == 6
    assert not list((place / "checkpoints").glob(".*"))
    assert before.step == 5


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_all_is_on_the_disk_before_the_name_counts_and_the_name_after(
    tmp_path: Path, two: Any, key: Key | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync, rename = os.fsync, os.rename
    synced: set[int] = set()
    named: list[set[int]] = []

    def remembered(file: int) -> None:
        fsync(file)
        synced.add(os.fstat(file).st_ino)

    def renamed(source: Path, target: Path) -> None:
        if not source.name.startswith(store.MAKING):  # PyTorch's writer has a name of its own to change
            rename(source, target)
            return
        inside = {path.stat().st_ino for path in (source, *source.rglob("*"))}
        assert inside <= synced, [path for path in source.rglob("*") if path.stat().st_ino not in synced]
        rename(source, target)
        named.append(inside)
        synced.clear()

    monkeypatch.setattr(os, "fsync", remembered)
    monkeypatch.setattr(os, "rename", renamed)
    found = publish.publish(tmp_path / "store", candidate(tmp_path, *two), Policy(key))
    assert len(named) == 1
    assert {path.stat().st_ino for path in (found.path, *found.path.rglob("*"))} == named[0]
    assert {found.path.parent.stat().st_ino, (tmp_path / "store").stat().st_ino} <= synced


def test_drift_is_what_was_put_in(tmp_path: Path, two: Any) -> None:
    _, now = two
    other = copied(now)
    assert measure(5, now, other).identical
    other["model"]["0.weight"][0, 0] += 0.5
    other["optimizer"]["state"][0]["exp_avg"][:2] *= -1
    other["rng"]["extra"] = 1
    found = measure(5, now, other)
    by_name = {each.name: each for each in found.fields}
    assert by_name.keys() == {"model.0.weight", "optimizer.state.0.exp_avg"}
    weight = by_name["model.0.weight"]
    gap = float(other["model"]["0.weight"][0, 0].double() - now["model"]["0.weight"][0, 0].double())
    assert (weight.different, weight.elements, weight.largest) == (1, 24, gap)
    assert by_name["optimizer.state.0.exp_avg"].different == 8
    assert found.only_replica == ("rng.extra",)
    record(tmp_path, found)
    told = last(tmp_path)
    assert told is not None
    assert told["identical"] is False
    size = float(now["model"]["0.weight"].double().abs().max())
    assert weight.relative == gap / size
    assert {each.name for each in found.beyond(gap / size)} == by_name.keys() - {"model.0.weight"}
    assert {each.name for each in found.beyond(gap / size * 0.999)} >= {"model.0.weight"}
    other["args"]["width"] = True
    assert [each.name for each in measure(5, now, other).beyond(1e9)] == ["args.width"]  # no number, no size
    negative = {"x": torch.tensor([-0.0])}
    assert not measure(1, negative, {"x": torch.tensor([0.0])}).identical


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (0, 0.0, True),  # SGD's dampening, as PyTorch writes it and as a description gives it
        (2**53 + 1, float(2**53), False),  # by value, not rounded to one another
        (float("nan"), float("nan"), True),
        (True, 1, False),
        (0, False, False),
        ((0.9, 1), (0.9, 1.0), True),
        ((0.9, 0.95), [0.9, 0.95], False),
        ("0", 0, False),
        (None, 0, False),
        ({"a": 1}, {"a": 1}, True),
    ],
)
def test_numbers_are_the_same_by_value_and_nothing_else_is(one: Any, other: Any, same: bool) -> None:
    for name in ("scheduler.x", "optimizer.param_groups.0.x"):
        assert same_value(name, one, other) == same_value(name, other, one) == same


def test_an_option_that_is_off_may_be_none() -> None:
    assert same_value("optimizer.param_groups.0.foreach", None, False)
    assert not same_value("optimizer.param_groups.0.foreach", None, True)
    assert not same_value("args.flag", None, False)


def test_what_says_the_same_is_published_in_the_trainers_form(tmp_path: Path, two: Any) -> None:
    anchor, now = two
    group = anchor["optimizer"]["param_groups"][0]
    assert group["foreach"] is None
    group["eps"], now["optimizer"]["param_groups"][0]["eps"] = 1, 1.0
    now["optimizer"]["param_groups"][0]["foreach"] = False
    found = publish.publish(tmp_path / "store", candidate(tmp_path, anchor, now), POLICY)
    told = read_tree(found.path / "safetensors")["optimizer"]["param_groups"][0]
    assert (told["foreach"], type(told["eps"])) == (None, int)
