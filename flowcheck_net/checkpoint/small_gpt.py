"""The model of the trainings that this tool runs itself (``checkpoint compare``, ``lab replica``). Needs PyTorch."""

from typing import Any

import torch
from torch import nn


class Block(nn.Module):  # type: ignore[misc]
    """Attention and a two-layer perceptron, each behind a norm and beside a residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:  # noqa: ANN401 - tensors
        """Shape (batch, length, width), as is the result."""
        batch, length, width = x.shape
        q, k, v = self.attend(self.norm1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):  # type: ignore[misc]
    """A decoder whose embedding is tied to its head."""

    def __init__(self, width: int, blocks: int, heads: int, *, words: int, places: int) -> None:
        """``words``: of the vocabulary; ``places``: the longest text, in words."""
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(places, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, tokens: Any) -> Any:  # noqa: ANN401 - tensors
        """Tokens (batch, length) -> logits (batch, length, vocabulary)."""
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))
