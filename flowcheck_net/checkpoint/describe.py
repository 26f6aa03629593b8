"""``training.yaml`` from the training script itself: names, shapes, readiness and optimizer, as PyTorch has them.

ready = watch(model)                      # before DDP wraps it
...                                       # at least two iterations
Path("training.yaml").write_text(describe(model, optimizer, ready, caps=(25 << 20,)))
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from flowcheck_net.model.job import Dtype

_DTYPES = {"torch.float32": Dtype.FP32, "torch.float16": Dtype.FP16, "torch.bfloat16": Dtype.BF16}
_KEYS = ("weight_decay", "betas", "eps", "momentum", "dampening", "nesterov", "maximize")


def watch(model: Any) -> list[str]:  # noqa: ANN401 - torch.nn.Module
    """A list that fills with parameter names in the order in which their gradients become ready, each once."""
    ready: list[str] = []

    def note(name: str) -> None:
        if name not in ready:
            ready.append(name)

    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda _, name=name: note(name))
    return ready


def describe(
    model: Any,  # noqa: ANN401 - torch.nn.Module
    optimizer: Any,  # noqa: ANN401 - torch.optim.Optimizer
    ready: Sequence[str] = (),
    *,
    caps: Sequence[int] = (1 << 20, 25 << 20),
    masters: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
) -> str:
    """The text of ``training.yaml`` (JSON, which is YAML).

    Args:
        model: Not wrapped.
        optimizer: SGD, Adam or AdamW of ``torch.optim``.
        ready: Of ``watch``.
        caps: Bytes of DDP's buckets: ``(bucket_cap_mb * 2**20,)`` where it is set.
        masters: Name -> the optimizer's fp32 copy, where it has its own.
        more: ``clip``, ``loss_scaling`` and ``schedule`` of the optimizer, which PyTorch keeps elsewhere.

    Raises:
        ValueError: Another optimizer, or one with amsgrad.
    """
    names: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    tensors = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    known = {id(tensor): name for name, tensor in {**tensors, **(masters or {})}.items()}
    rule = type(optimizer).__name__.lower()
    if rule not in ("sgd", "adam", "adamw") or any(group.get("amsgrad") for group in optimizer.param_groups):
        raise ValueError(f"{type(optimizer).__name__} with these options cannot be replayed")
    first = optimizer.param_groups[0]
    document = {
        "version": 1,
        "parameters": [
            {
                "name": name,
                "shape": list(tensor.shape),
                "dtype": _DTYPES[str(tensor.dtype)],
                "tied": names[id(tensor)][1:],
            }
            for name, tensor in tensors.items()
        ],
        "buckets": {"rule": "ddp", "caps": list(caps), "ready": list(ready)},
        "optimizer": {
            "rule": rule,
            "kernel": "fused" if first.get("fused") else "foreach" if first.get("foreach") else "for-loop",
            "master": "fp32" if masters else None,
            "groups": [_group(group, known) for group in optimizer.param_groups],
            **(more or {}),
        },
    }
    return json.dumps(document, indent=1) + "\n"


def _group(group: Mapping[str, Any], known: Mapping[int, str]) -> dict[str, Any]:
    return {
        "parameters": [known[id(tensor)] for tensor in group["params"]],
        "learning_rate": group.get("initial_lr", group["lr"]),
        **{key: group[key] for key in _KEYS if key in group},
    }
