"""Decoders in the manner of Llama: rotary positions, root-mean-square norms, gated layers, optionally experts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention, silu
from torch.utils.checkpoint import checkpoint

from dally.profiling.builtin import Task


@dataclass(frozen=True)
class DecoderShape:
    """The sizes of a decoder."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    inner: int
    vocabulary: int = 32_000
    tokens: int = 2048
    experts: int = 0  # 0: one gated layer for all tokens
    experts_per_token: int = 2
    recompute: bool = False  # activations in the backward pass, instead of keeping them


class Attention(nn.Module):  # type: ignore[misc]
    """Causal attention with fewer key and value heads than query heads."""

    def __init__(self, shape: DecoderShape) -> None:
        super().__init__()
        self.head = shape.width // shape.heads
        self.query = nn.Linear(shape.width, shape.width, bias=False)
        self.keys_values = nn.Linear(shape.width, 2 * shape.kv_heads * self.head, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        batch, tokens, width = x.shape
        query = self.query(x).view(batch, tokens, -1, self.head).transpose(1, 2)
        both = self.keys_values(x).view(batch, tokens, -1, self.head).transpose(1, 2)
        keys, values = both.chunk(2, dim=1)
        query, keys = rotated(query, cos, sin), rotated(keys, cos, sin)
        # Fused kernels in fp32 want as many key and value heads as query heads.
        shared = query.shape[1] // keys.shape[1]
        keys, values = keys.repeat_interleave(shared, dim=1), values.repeat_interleave(shared, dim=1)
        mixed = scaled_dot_product_attention(query, keys, values, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))


def rotated(x: Any, cos: Any, sin: Any) -> Any:
    """Heads turned by their positions' angles."""
    one, other = x.chunk(2, dim=-1)
    result = torch.cat((one * cos - other * sin, one * sin + other * cos), dim=-1)
    return result.to(x.dtype)


class Gated(nn.Module):  # type: ignore[misc]
    """The gated feed-forward layer."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Any) -> Any:
        return self.down(silu(self.gate(x)) * self.up(x))


class Experts(nn.Module):  # type: ignore[misc]
    """Experts of which each token takes a few. Each gets the same number of tokens, as balanced routing aims for.

    So shapes do not depend on data: it can be captured in a graph, and no step waits for the host.
    """

    def __init__(self, shape: DecoderShape) -> None:
        super().__init__()
        self.taken = shape.experts_per_token
        self.router = nn.Linear(shape.width, shape.experts, bias=False)
        self.experts = nn.ModuleList(Gated(shape.width, shape.inner) for _ in range(shape.experts))
        for weight in self.experts.parameters():
            weight.gradient_share = 1 / shape.experts  # with its experts spread over as many GPUs

    def forward(self, x: Any) -> Any:
        flat = x.reshape(-1, x.shape[-1])
        chances = self.router(flat).softmax(dim=-1)
        room = flat.shape[0] * self.taken // len(self.experts)
        weights, tokens = chances.topk(room, dim=0)  # each expert takes the tokens that want it most
        mixed = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            mine = tokens[:, number]
            answer = expert(flat[mine]) * weights[:, number, None]
            mixed = mixed.index_add(0, mine, answer.to(mixed.dtype))
        return mixed.view_as(x)


class Block(nn.Module):  # type: ignore[misc]
    """Attention and feed-forward, each behind a norm."""

    def __init__(self, shape: DecoderShape) -> None:
        super().__init__()
        self.before_attention = nn.RMSNorm(shape.width)
        self.attention = Attention(shape)
        self.before_inner = nn.RMSNorm(shape.width)
        self.inner = Experts(shape) if shape.experts else Gated(shape.width, shape.inner)

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        x = x + self.attention(self.before_attention(x), cos, sin)
        return x + self.inner(self.before_inner(x))


class Decoder(nn.Module):  # type: ignore[misc]
    """A language model that predicts the next token."""

    def __init__(self, shape: DecoderShape) -> None:
        super().__init__()
        self.recompute = shape.recompute
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)
        half = shape.width // shape.heads // 2
        angles = torch.outer(torch.arange(shape.tokens), 10_000.0 ** (-torch.arange(half) / half))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, tokens: Any) -> Any:
        x = self.embedding(tokens)
        for block in self.blocks:
            if self.recompute:
                x = checkpoint(block, x, self.cos, self.sin, use_reentrant=False)
            else:
                x = block(x, self.cos, self.sin)
        return self.head(self.norm(x))


def _loss(model: Any, tokens: Any) -> Any:
    guesses = model(tokens[:, :-1])
    return cross_entropy(guesses.flatten(0, 1).float(), tokens[:, 1:].flatten())


def task_of(shape: DecoderShape, batch: int) -> Task:
    """A decoder of that shape with a batch of random tokens."""
    tokens = torch.randint(shape.vocabulary, (batch, shape.tokens + 1))
    return Task(Decoder(shape), tokens, _loss)


# Each builds the model for a batch size.
llama_1b = partial(task_of, DecoderShape(22, 2048, 32, 4, 5632))  # 1.1 B parameters, in the shape of TinyLlama
# 6.7 B parameters, in the shape of Llama 2 7B; activations are computed again in the backward pass.
llama_7b = partial(task_of, DecoderShape(32, 4096, 32, 32, 11_008, recompute=True))
# 16 layers of 8 experts, 2 a token: 1.5 B parameters, of which a token uses 0.5 B.
mixture = partial(task_of, DecoderShape(16, 1024, 16, 16, 3584, experts=8))
