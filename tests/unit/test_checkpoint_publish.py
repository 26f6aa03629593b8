"""Publishing: PyTorch trains, resumes and compares; bits are flipped."""

import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")
pytest.importorskip("safetensors")

from flowcheck_net.audit.verdict import Verdict  # noqa: E402
from flowcheck_net.checkpoint import access, publish, store  # noqa: E402
from flowcheck_net.checkpoint.files import erase_tree  # noqa: E402
from flowcheck_net.checkpoint.gate import Bar, NotPublished  # noqa: E402
from flowcheck_net.checkpoint.inventory import Declaration, Origin  # noqa: E402
from flowcheck_net.checkpoint.publish import Policy  # noqa: E402
from flowcheck_net.checkpoint.sealing import Key, read_key, seal, unseal  # noqa: E402
from flowcheck_net.checkpoint.side import read_side  # noqa: E402
from flowcheck_net.checkpoint.side_client import plain  # noqa: E402
from flowcheck_net.checkpoint.tree import read_tree  # noqa: E402
from flowcheck_net.errors import OutputError, RecordsCorrupt  # noqa: E402
from tests.doubles.publications import KEY, POLICY, Trainer, candidate, in_memory, message, proof, same, two_states  # noqa: E402


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with in_memory() as place:
        yield place


@pytest.fixture
def two() -> tuple[dict[str, Any], dict[str, Any]]:
    return two_states()


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


def test_what_says_the_same_is_published_in_the_trainers_form(tmp_path: Path, two: Any) -> None:
    anchor, now = two
    group = anchor["optimizer"]["param_groups"][0]
    assert group["foreach"] is None
    group["eps"], now["optimizer"]["param_groups"][0]["eps"] = 1, 1.0
    now["optimizer"]["param_groups"][0]["foreach"] = False
    found = publish.publish(tmp_path / "store", candidate(tmp_path, anchor, now), POLICY)
    told = read_tree(found.path / "safetensors")["optimizer"]["param_groups"][0]
    assert (told["foreach"], type(told["eps"])) == (None, int)
