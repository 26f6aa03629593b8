"""Replaying an optimizer beside PyTorch's fused Adam and beside memory bandwidth; assembling beside memcpy().

All in one process on all of its cores, turn by turn, best of several.
"""

import ctypes
import importlib.util
import json
import mmap
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.measure import Result

TENSORS, ELEMENTS = 8, 4 << 20
"""32 million parameters: 128 MiB of each, far beyond any cache."""
ROUNDS = 15
ADAM_BYTES = 28
"""Per parameter: parameter and two moments read and written, gradient read; fp32."""
TRIAD_BYTES = 12
"""Per element of ``a += s * b``: all lines that are written are read as well, as in Adam."""


def bench() -> list[Result]:
    """``replay_optimizer_vs_fused``, ``replay_optimizer_vs_bandwidth`` and ``assemble_vs_memcpy``."""
    bars = {"replay_optimizer_vs_fused": 0.9, "replay_optimizer_vs_bandwidth": 0.6, "assemble_vs_memcpy": None}
    if importlib.util.find_spec("torch") is None:
        return [Result(name, None, "ratio", bar, note="no PyTorch (make torch)") for name, bar in bars.items()]
    shared = Path("/dev/shm")
    place = Path(tempfile.mkdtemp(dir=shared if shared.is_dir() else None))
    try:
        return [*_optimizer(place), *_assembly(place)]
    finally:
        shutil.rmtree(place)


def _optimizer(place: Path) -> list[Result]:
    import torch

    from flowcheck_net.checkpoint import anchor
    from flowcheck_net.checkpoint.optimizer import Replay

    words, spec = _words()
    tensors = {p.name: torch.randn(ELEMENTS) for p in words.parameters}
    groups = [{"params": list(range(TENSORS)), "lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}]
    groups[0] |= {"fused": True, "amsgrad": False}
    begun = {"step": 0, "model": tensors, "optimizer": {"state": {}, "param_groups": groups}}
    replay = Replay(spec, anchor.begin([place / "state"], words, spec, begun))
    gradients = {name: torch.randn(ELEMENTS) for name in tensors}
    params = [tensor.clone().requires_grad_() for tensor in tensors.values()]
    theirs: Any = torch.optim.AdamW(params, lr=1e-3, weight_decay=0.01, fused=True)
    for parameter, gradient in zip(params, gradients.values(), strict=True):
        parameter.grad = gradient
    a, b = (torch.ones(ELEMENTS * TENSORS // 2) for _ in range(2))
    turns = {
        "ours": lambda: replay.advance(_gradient(replay.step + 1, gradients)),
        "fused": theirs.step,
        "triad": lambda: a.add_(b, alpha=3.0),
    }
    best = _best(turns)
    count = TENSORS * ELEMENTS
    bound = a.numel() * TRIAD_BYTES / best["triad"] / ADAM_BYTES
    threads = torch.get_num_threads()
    note = f"{count / best['fused'] / 1e6:.0f} M/s fused, {threads} threads, {count / 1e6:.0f} M fp32 parameters"
    limit = f"bound {bound / 1e6:.0f} M/s: {bound * ADAM_BYTES / 1e9:.1f} GB/s by a += s b, {ADAM_BYTES} B each"
    return [
        Result("replay_optimizer_rate", count / best["ours"], "1/s", note="parameters"),
        Result("replay_optimizer_vs_fused", best["fused"] / best["ours"], "ratio", 0.9, note=note),
        Result("replay_optimizer_vs_bandwidth", count / best["ours"] / bound, "ratio", 0.6, note=limit),
    ]


def _assembly(place: Path) -> list[Result]:
    """From laid files to every parameter's gradient as a tensor of its own, in fp32; memcpy() of as many bytes."""
    import torch

    from flowcheck_net.checkpoint.arithmetic import gathered
    from flowcheck_net.checkpoint.assemble import Assembly
    from flowcheck_net.checkpoint.gradient import Average

    words, _ = _words()
    size = TENSORS * ELEMENTS * 4
    _lay(place / "laid", words, size)
    assembly = Assembly(words, Average(), check_files=False)
    source, target = mmap.mmap(-1, size), mmap.mmap(-1, size)
    ends = [ctypes.addressof(ctypes.c_char.from_buffer(memory)) for memory in (source, target)]
    out = {p.name: torch.empty(ELEMENTS) for p in words.parameters}

    def assemble() -> None:
        gradient = assembly.assemble(place / "laid", 0, 1)
        for name, tensor in out.items():
            tensor.copy_(gathered(gradient.parts[name], gradient.average, slice(0, ELEMENTS), torch.float32, own=False))

    best = _best({"ours": assemble, "memcpy": lambda: ctypes.memmove(ends[1], ends[0], size)})
    note = (
        f"memcpy {size / best['memcpy'] / 1e9:.1f} GB/s; proof and bitmap checked, files not hashed, {size >> 20} MiB"
    )
    return [
        Result("assemble_rate", size / best["ours"], "B/s"),
        Result("assemble_vs_memcpy", best["memcpy"] / best["ours"], "ratio", note=note),
    ]


def _best(turns: dict[str, Callable[[], Any]]) -> dict[str, float]:
    best = dict.fromkeys(turns, float("inf"))
    for _ in range(ROUNDS):
        for name, turn in turns.items():
            start = time.perf_counter()
            turn()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def _words() -> Any:
    from flowcheck_net.checkpoint.buckets import Piece, bucket_order
    from flowcheck_net.checkpoint.hyper import Kernel, OptimizerSpec, ParameterGroup, Rule
    from flowcheck_net.checkpoint.layout import Parameter, ParameterLayout, Source
    from flowcheck_net.ids import GroupName
    from flowcheck_net.model.job import Dtype

    group = GroupName("dp0")
    names = tuple(f"p{number}" for number in range(TENSORS))
    parameters = tuple(Parameter(name, (ELEMENTS,), Dtype.FP32, (Source(group, name),)) for name in names)
    buckets = [[Piece(name, ELEMENTS, Dtype.FP32)] for name in reversed(names)]
    words = ParameterLayout(parameters, (bucket_order(group, buckets, names),))
    return words, OptimizerSpec(Rule.ADAMW, Kernel.FUSED, (ParameterGroup(names, 1e-3, weight_decay=0.01),))


def _gradient(step: int, gradients: dict[str, Any]) -> Any:
    from flowcheck_net.audit.verdict import Verdict
    from flowcheck_net.checkpoint.gradient import Average, Part, Proof, StepGradient
    from flowcheck_net.model.job import Dtype

    parts = {name: (Part(memoryview(tensor.numpy()).cast("B"), Dtype.FP32),) for name, tensor in gradients.items()}
    return StepGradient(step, Proof("bench", None, step, Verdict.COVERED, 0, (), ()), Average(), parts)


def _lay(place: Path, words: Any, size: int) -> None:
    """What ``replay --payload`` leaves, for one iteration."""
    import torch

    directory = place / "iteration-000000"
    directory.mkdir(parents=True)
    torch.randn(size // 4).numpy().tofile(directory / "dp0.gradient")
    units = size // 4096
    (directory / "dp0.present").write_bytes(b"\xff" * (units // 8))
    (order,) = words.steady
    buckets = [
        {"name": b.name, "dtype": "fp32", "elements": b.elements, "offset": n * b.elements * 4, "size": b.elements * 4}
        for n, b in enumerate(order.buckets)
    ]
    files = {
        "gradient": {"file": "dp0.gradient", "bytes": size, "sha256": ""},
        "present": {"file": "dp0.present", "bytes": units // 8, "sha256": ""},
    }
    group = {"group": "dp0", "protocol": "Simple", "mtu": 4096, "units": units, "carrying": units, "complete": True}
    document = {"version": 1, "iteration": 0, "job": "bench", "plan": None, "verdict": "COVERED", "complete": True}
    document |= {
        "why": [],
        "assumed": [],
        "recovered": [],
        "groups": [group | files | {"buckets": buckets, "pieces": []}],
    }
    (directory / "manifest.json").write_text(json.dumps(document))
