"""Inventory: PyTorch writes the checkpoints, and its own flattening is the oracle of what is in them."""

import json
import pickle
import warnings
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flowcheck_net.checkpoint.anchor import read_anchor
from flowcheck_net.checkpoint.inventory import Declaration, Field, Origin, classify
from flowcheck_net.checkpoint.inventory_read import read_fields
from flowcheck_net.checkpoint.unpickle import Inert, read_form
from flowcheck_net.cli.main import cli
from flowcheck_net.errors import CoverageUnknown, RecordsCorrupt

torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed (make torch)")


def trained(norm: bool = False) -> tuple[Any, Any]:
    torch.manual_seed(1)
    inner = torch.nn.BatchNorm1d(4) if norm else torch.nn.LayerNorm(4)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), inner, torch.nn.Linear(4, 2))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.randn(5, 3)).sum().backward()
    optimizer.step()
    return model, optimizer


def whole(norm: bool = False) -> dict[str, Any]:
    model, optimizer = trained(norm)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10)
    return {
        "step": 1,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": schedule.state_dict(),
        "rng_state": {"torch": torch.get_rng_state(), "python": (3, tuple(range(625)), None)},
        "dataloader": {"position": 17, "epoch": 0},
    }


def flat(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, each in value.items():
            yield from flat(each, (*path, str(key)))
    elif isinstance(value, (list, tuple)) and any(isinstance(e, (dict, list, tuple, torch.Tensor)) for e in value):
        for number, each in enumerate(value):
            yield from flat(each, (*path, str(number)))
    else:
        yield ".".join(path), value


@pytest.mark.parametrize("old", [False, True])
def test_a_saved_file_is_listed_as_pytorch_reads_it(tmp_path: Path, old: bool) -> None:
    made = whole()
    made["model"]["half"] = torch.zeros(2, 5, dtype=torch.bfloat16)
    made["model"]["scalar"] = torch.tensor(True)
    made["model"]["parameter"] = torch.nn.Parameter(torch.ones(7))
    path = tmp_path / "a.pt"
    torch.save(made, path, _use_new_zipfile_serialization=not old)
    _, fields = read_fields(path)
    theirs = dict(flat(torch.load(path, weights_only=True)))
    assert [field.name for field in fields] == list(theirs)
    for field in fields:
        value = theirs[field.name]
        assert field.tensor == isinstance(value, torch.Tensor), field
        if field.tensor:
            assert (f"torch.{field.dtype}", field.shape) == (str(value.dtype), tuple(value.shape))
            assert field.size == value.numel() * value.element_size()


def test_a_distributed_checkpoint_is_listed_as_pytorch_reads_it(tmp_path: Path) -> None:
    import torch.distributed.checkpoint as dcp

    made = whole()
    with warnings.catch_warnings(action="ignore"):
        dcp.save(made, checkpoint_id=tmp_path / "c", no_dist=True)
    form, fields = read_fields(tmp_path / "c")
    metadata = dcp.FileSystemReader(tmp_path / "c").read_metadata().state_dict_metadata
    assert form == "torch DCP"
    assert [field.name for field in fields] == list(metadata)
    for field in fields:
        told = metadata[field.name]
        assert field.tensor == hasattr(told, "size")
        if field.tensor:
            assert (f"torch.{field.dtype}", field.shape) == (str(told.properties.dtype), tuple(told.size))
    assert not classify(form, fields).unknown
    part = next((tmp_path / "c").glob("*.distcp"))
    part.write_bytes(part.read_bytes()[:-1])
    with pytest.raises(RecordsCorrupt, match="missing or cut off"):
        read_fields(tmp_path / "c")
    (tmp_path / "c" / ".metadata").unlink()
    with pytest.raises(RecordsCorrupt, match="no checkpoint") as refused:
        read_fields(tmp_path / "c")
    assert "never completed" in refused.value.hint


def test_safetensors_are_listed_and_broken_ones_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    path = tmp_path / "model.safetensors"
    tensors = {"w": torch.zeros(3, 2), "b": torch.zeros(2, dtype=torch.bfloat16), "none": torch.zeros(0)}
    save_file(tensors, path, metadata={"step": "7"})
    _, fields = read_fields(path)
    assert {f.name: (f.dtype, f.shape) for f in fields} == {
        "w": ("float32", (3, 2)),
        "b": ("bfloat16", (2,)),
        "none": ("float32", (0,)),
    }
    assert read_fields(tmp_path)[1] == fields
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    for change, words in (
        ({"w": {"dtype": "F32", "shape": [3, 3], "data_offsets": header["w"]["data_offsets"]}}, "do not fit"),
        ({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, "overlap"),
        ({"w": {"dtype": "F33", "shape": [3, 2], "data_offsets": [0, 24]}}, "no tensor"),
    ):
        text = json.dumps(header | change).encode()
        path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])
        with pytest.raises(RecordsCorrupt, match=words):
            read_fields(path)
    path.write_bytes(data[:-1])
    with pytest.raises(RecordsCorrupt, match="cut off"):
        read_fields(path)


def test_each_field_has_its_source_and_a_buffer_blocks(tmp_path: Path) -> None:
    torch.save(whole(norm=True), tmp_path / "a.pt")
    form, fields = read_fields(tmp_path / "a.pt")
    found = {each.field.name: each.origin for each in classify(form, fields).fields}
    assert {name for name, origin in found.items() if origin is Origin.UNKNOWN} == {
        "model.1.running_mean",
        "model.1.running_var",
        "model.1.num_batches_tracked",
        "model.1.weight",  # of the same shape as the running values: nothing tells them apart
        "model.1.bias",
        "model.0.bias",
    }
    assert found["model.0.weight"] is Origin.REPLAY
    shapes = {name: tuple(p.shape) for name, p in trained(norm=True)[0].named_parameters()}
    exact = classify(form, fields, parameters=shapes)
    assert {each.field.name for each in exact.unknown} == {
        "model.1.running_mean",
        "model.1.running_var",
        "model.1.num_batches_tracked",
    }
    sources = {each.field.name: each.origin for each in exact.fields}
    assert sources["optimizer.state.0.exp_avg"] is Origin.REPLAY
    assert sources["optimizer.param_groups.0.lr"] is Origin.SIDE
    assert sources["optimizer.param_groups.0.betas"] is Origin.SNAPSHOT
    assert (
        sources["rng_state.torch"] is sources["dataloader.position"] is sources["scheduler.last_epoch"] is Origin.SIDE
    )
    told = [Declaration("model.1.running_*", Origin.SIDE), Declaration("*.num_batches_tracked", Origin.SNAPSHOT)]
    assert not classify(form, fields, parameters=shapes, declared=told).unknown
    wrong = classify(form, fields, parameters=shapes | {"0.weight": (4, 4)})
    assert "model.0.weight" in {each.field.name for each in wrong.unknown}


def test_a_new_field_is_unknown(tmp_path: Path) -> None:
    torch.save(whole() | {"ema": {"0.weight": torch.zeros(4, 3)}, "note": "x"}, tmp_path / "a.pt")
    found = classify(*read_fields(tmp_path / "a.pt"))
    assert [each.field.name for each in found.unknown] == ["ema.0.weight", "note"]


def megatron(place: Path) -> None:
    """As megatron/training/checkpointing.py lays it out, two tensor-parallel ranks, torch.save."""
    (place / "iter_0000100").mkdir(parents=True)
    (place / "latest_checkpointed_iteration.txt").write_text("100")
    for rank in range(2):
        made = whole()
        inner = made["optimizer"]
        held = {
            "args": Namespace(hidden_size=4, consumed_train_samples=800, iteration=100),
            "checkpoint_version": 3.0,
            "iteration": 100,
            "model": made["model"],
            "optimizer": {"optimizer": inner, "fp32_from_fp16_params": [[torch.zeros(4, 3)]]},
            "opt_param_scheduler": {"max_lr": 1e-3, "num_steps": 800},
            "rng_state": [{"random_rng_state": (3, (1, 2), None), "torch_rng_state": torch.get_rng_state()}],
            "rerun_state_machine": {"mode": "disabled"},
            "num_floating_point_operations_so_far": 1.5e12,
        }
        folder = place / "iter_0000100" / f"mp_rank_{rank:02d}"
        folder.mkdir()
        torch.save(held, folder / "model_optim_rng.pt")


def deepspeed(place: Path) -> None:
    """As deepspeed/runtime/engine.py lays it out, ZeRO-1 on two ranks."""
    (place / "global_step100").mkdir(parents=True)
    (place / "latest").write_text("global_step100")
    made = whole()
    held = {
        "module": made["model"],
        "buffer_names": [],
        "optimizer": None,
        "param_shapes": [{name: tensor.shape for name, tensor in made["model"].items()}],
        "lr_scheduler": {"last_batch_iteration": 99},
        "data_sampler": None,
        "sparse_tensor_module_names": [],
        "skipped_steps": 0,
        "global_steps": 100,
        "global_samples": 800,
        "dp_world_size": 2,
        "mp_world_size": 1,
        "ds_config": {"train_batch_size": 8},
        "ds_version": "0.16.0",
    }
    torch.save(held, place / "global_step100" / "mp_rank_00_model_states.pt")
    for rank in range(2):
        inner = {"state": {0: {"step": 100, "exp_avg": torch.zeros(17), "exp_avg_sq": torch.zeros(17)}}}
        zero = {
            "base_optimizer_state": inner | {"param_groups": [{"lr": 1e-3, "betas": (0.9, 0.99), "params": [0]}]},
            "single_partition_of_fp32_groups": [torch.zeros(17)],
            "zero_stage": 1,
            "partition_count": [2],
        }
        states = {"optimizer_state_dict": zero, "ds_config": {}, "ds_version": "0.16.0"}
        torch.save(states, place / "global_step100" / f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")


@pytest.mark.parametrize("layout", [megatron, deepspeed])
def test_folders_of_frameworks_are_listed_without_them(tmp_path: Path, layout: Any) -> None:
    layout(tmp_path / "c")
    form, fields = read_fields(tmp_path / "c")
    shapes = {name: tuple(t.shape) for name, t in trained()[0].state_dict().items()}
    found = classify(form, fields, parameters=shapes)
    assert form == {"megatron": "Megatron-LM", "deepspeed": "DeepSpeed"}[layout.__name__]
    assert not found.unknown, [each.field.name for each in found.unknown]
    assert len({field.file for field in fields}) == (2 if layout is megatron else 3)
    origins = {each.field.name: each.origin for each in found.fields}
    if layout is megatron:
        assert origins["args.consumed_train_samples"] is origins["opt_param_scheduler.num_steps"] is Origin.SIDE
        assert origins["args.hidden_size"] is Origin.SNAPSHOT
    marker = next(path for path in (tmp_path / "c").iterdir() if path.is_file())
    marker.write_text("../c")
    with pytest.raises(RecordsCorrupt, match="not there"):
        read_fields(tmp_path / "c")


class Evil:
    def __reduce__(self) -> Any:
        return Path.touch, (Path("/tmp/ckpt2-evil-must-not-exist"),)


def test_nothing_in_a_file_is_executed(tmp_path: Path) -> None:
    place = Path("/tmp/ckpt2-evil-must-not-exist")
    torch.save({"model": {}, "evil": Evil()}, tmp_path / "a.pt")
    assert not place.exists()
    _, fields = read_fields(tmp_path / "a.pt")
    assert not place.exists()
    (evil,) = [field for field in fields if field.name == "evil"]
    assert not evil.tensor
    assert classify("x", fields).fields[-1].origin is Origin.UNKNOWN


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x05.",
        b"\x80\x04r\xff\xff\xff\x7f.",  # LONG_BINPUT: a memo of two thousand million entries
        pickle.dumps(list(range(50)))[:-3],
        b"\x80\x02}q\x00(h\x00K\x01u.",  # a dict as its own key
        b"\x82\x01.",  # an extension
        b"\x80\x04Pnowhere\n.",
    ],
    ids=["empty", "nothing on the stack", "memo", "cut off", "own key", "extension", "persistent"],
)
def test_damaged_pickles_are_refused(data: bytes) -> None:
    with pytest.raises(RecordsCorrupt, match="no readable pickle"):
        read_form(data, "x")


def test_names_are_never_imported() -> None:
    found = read_form(b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.", "x")
    assert isinstance(found, Inert)
    assert (found.of, found.arguments) == ("os.system", ("true",))


def test_a_container_in_itself_is_refused(tmp_path: Path) -> None:
    held: dict[str, Any] = {"a": 1}
    held["self"] = held
    torch.save(held, tmp_path / "a.pt")
    with pytest.raises(RecordsCorrupt, match="holds itself"):
        read_fields(tmp_path / "a.pt")


def test_a_file_without_the_data_of_a_tensor_is_refused(tmp_path: Path) -> None:
    import zipfile

    torch.save({"w": torch.zeros(4)}, tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "a.pt") as old, zipfile.ZipFile(tmp_path / "b.pt", "w") as new:
        for name in old.namelist():
            if not name.endswith("data/0"):
                new.writestr(name, old.read(name))
    with pytest.raises(RecordsCorrupt, match="storage 0"):
        read_fields(tmp_path / "b.pt")


def test_the_command_names_what_blocks(tmp_path: Path) -> None:
    torch.save(whole() | {"ema": torch.zeros(3)}, tmp_path / "a.pt")
    words = ["checkpoint", "inventory", str(tmp_path / "a.pt")]
    done = CliRunner().invoke(cli, words)
    assert isinstance(done.exception, CoverageUnknown)
    assert "ema" in done.exception.message
    assert "of unknown source" in done.output
    done = CliRunner().invoke(cli, [*words, "--json", "--source", "ema=explicit-snapshot"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["publishable"]
    assert {each["name"]: each["source"] for each in told["fields"]}["ema"] == "explicit-snapshot"
    assert CliRunner().invoke(cli, [*words, "--source", "ema=gradient-replay"]).exit_code == 2


def test_tied_tensors_need_one_state_only(tmp_path: Path) -> None:
    model = torch.nn.ModuleDict({"words": torch.nn.Embedding(5, 3), "head": torch.nn.Linear(3, 5, bias=False)})
    model["head"].weight = model["words"].weight
    optimizer = torch.optim.Adam(model.parameters())
    model["words"].weight.grad = torch.ones(5, 3)
    optimizer.step()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "a.pt")
    assert not classify(*read_fields(tmp_path / "a.pt")).unknown


def test_fields_know_their_bytes() -> None:
    assert Field("w", "tensor", "f", "bfloat16", (3, 5)).size == 30
    assert Field("w", "int", "f").size == 0


@pytest.mark.parametrize("layout", [megatron, deepspeed])
def test_an_optimizer_that_is_cut_over_the_ranks_is_never_called_publishable(tmp_path: Path, layout: Any) -> None:
    layout(tmp_path)
    found = classify(*read_fields(tmp_path))
    told = json.loads(CliRunner().invoke(cli, ["checkpoint", "inventory", str(tmp_path), "--json"]).stdout)
    assert [each.field.name for each in found.partitioned] == told["partitioned"]
    if layout is megatron:
        assert told["partitioned"] == []
        return
    assert any("single_partition_of_fp32_groups" in each for each in told["partitioned"])
    assert told["publishable"] is False
    path = next(tmp_path.glob("**/*_optim_states.pt"))
    with pytest.raises(RecordsCorrupt, match=r"cut over the ranks is in it: .*single_partition_of_fp32_groups"):
        read_anchor(path)
