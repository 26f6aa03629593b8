"""The trainer: a small GPT under DistributedDataParallel over gloo, with AdamW. One object in each rank's process."""

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from flowcheck_net.checkpoint.baselines.words import Setup
from flowcheck_net.checkpoint.describe import describe, watch
from flowcheck_net.checkpoint.small_gpt import Gpt

VOCABULARY, CONTEXT, BATCH, HEADS = 256, 32, 4, 4
CAP_BYTES = 1 << 20
"""Of DDP's buckets."""

Flat = Mapping[str, Any]
"""``param/NAME``, ``exp_avg/NAME``, ``exp_avg_sq/NAME``, ``step/NAME`` -> tensor: all that AdamW's next step needs."""


class Trainer:
    """One rank. The process group is there already."""

    def __init__(self, setup: Setup, rank: int) -> None:
        """Begin at step 0, from the seed."""
        torch.manual_seed(setup.seed)
        self.rank, self.done, self._seed = rank, 0, setup.seed
        self.model = Gpt(setup.width, setup.blocks, HEADS, words=VOCABULARY, places=CONTEXT)
        self.named: dict[str, Any] = dict(self.model.named_parameters())
        self.optimizer = torch.optim.AdamW(self.named.values(), lr=1e-3, betas=(0.9, 0.95), fused=True)
        self._ready = watch(self.model)
        self._ddp = DistributedDataParallel(
            self.model, bucket_cap_mb=CAP_BYTES / (1 << 20), gradient_as_bucket_view=True
        )

    def step(self) -> None:
        """One step of training; the reduced gradients stay in DDP's buckets until the next."""
        self.optimizer.zero_grad(set_to_none=False)
        source = torch.Generator().manual_seed(self._seed + 1_000_003 * self.done + self.rank)
        start = torch.randint(0, VOCABULARY, (BATCH, 1), generator=source)
        tokens = (start + 3 * torch.arange(CONTEXT + 1)) % VOCABULARY
        logits = self._ddp(tokens[:, :-1])
        nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1)).backward()
        self.optimizer.step()
        self.done += 1

    def flat(self) -> dict[str, Any]:
        """The state; its tensors are the live ones."""
        found: dict[str, Any] = {}
        for name, parameter in self.named.items():
            found[f"param/{name}"] = parameter.detach()
            found |= {f"{kind}/{name}": tensor for kind, tensor in self.optimizer.state[parameter].items()}
        return found

    def anchor(self) -> dict[str, Any]:
        """The state as a regular checkpoint (``checkpoint/anchor.py`` says the form)."""
        return {"step": self.done, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def description(self) -> str:
        """``training.yaml``, after at least two steps."""
        return describe(self.model, self.optimizer, self._ready, caps=(CAP_BYTES,))

    def buckets(self) -> dict[str, Any]:
        """Parameter name -> the memory of the bucket in which DDP reduced its gradient, as bytes."""
        return {
            name: torch.empty(0, dtype=torch.uint8).set_(parameter.grad.untyped_storage()).numpy()
            for name, parameter in self.named.items()
        }


def flat_of_anchor(anchor: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    """A regular checkpoint in the flat form; ``names``: parameters in the optimizer's order."""
    found: dict[str, Any] = {}
    for number, name in enumerate(names):
        found[f"param/{name}"] = anchor["model"][name]
        found |= {f"{kind}/{name}": tensor for kind, tensor in anchor["optimizer"]["state"][number].items()}
    return found


def digest(step: int, flat: Flat) -> str:
    """SHA-256 (hex) of a state: names, types, shapes and every byte."""
    told = hashlib.sha256(f"{step}\n".encode())
    for name, tensor in sorted(flat.items()):
        told.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        told.update(raw(tensor))
    return told.hexdigest()


def raw(tensor: Any) -> memoryview:  # noqa: ANN401 - a tensor
    """The bytes of its elements."""
    return memoryview(tensor.detach().contiguous().view(-1).view(torch.uint8).numpy())
