"""The shape of a transformer: parameters and arithmetic of its layers."""

from __future__ import annotations

from typing import NamedTuple


class Latent(NamedTuple):
    """Latent attention: ranks of the compressed queries and keys, and the widths of a head's parts."""

    query_rank: int
    key_rank: int
    plain: int
    rotary: int
    value: int


class ExpertMix(NamedTuple):
    """A mixture of experts: `per_token` of `number` work on a token, beside the shared ones."""

    number: int
    per_token: int
    ffn: int
    shared_ffn: int = 0  # of all shared experts together
    dense_layers: int = 0  # that have a dense block of the transformer's `ffn` instead
    chained: bool = False  # biases and clamps make the activation a chain of kernels
    every: int = 1  # layers from one with experts to the next


class Transformer(NamedTuple):
    """Layers, widths and vocabulary. `window`: tokens that half of the layers look back at most."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    head_dim: int = 0  # 0: hidden ÷ heads
    gated: bool = True  # three matrices in a dense block, not two
    experts: ExpertMix | None = None
    latent: Latent | None = None
    window: int = 0
    tied: bool = False  # one table for the embedding and the head

    @property
    def head_width(self) -> int:
        """Width of a head's queries."""
        return self.head_dim or self.hidden // self.heads

    def attention_params(self) -> int:
        """Weights of one layer's attention."""
        if self.latent is not None:
            own = self.latent
            query = self.hidden * own.query_rank + own.query_rank * self.heads * (own.plain + own.rotary)
            key = self.hidden * (own.key_rank + own.rotary) + own.key_rank * self.heads * (own.plain + own.value)
            return query + key + self.heads * own.value * self.hidden
        return self.hidden * self.head_width * (2 * self.heads + 2 * self.kv_heads)

    def block_params(self, ffn: int) -> int:
        """Weights of a dense block, or of one expert, of that inner width."""
        return (3 if self.gated else 2) * self.hidden * ffn

    def expert_layers(self) -> int:
        """Layers with experts."""
        return 0 if self.experts is None else (self.layers - self.experts.dense_layers) // self.experts.every

    def expert_params(self) -> int:
        """Weights of all experts that are spread over GPUs."""
        if self.experts is None:
            return 0
        return self.expert_layers() * self.experts.number * self.block_params(self.experts.ffn)

    def shared_params(self) -> int:
        """Weights of all layers without those experts."""
        dense = self.layers - self.expert_layers()
        result = self.layers * self.attention_params() + dense * self.block_params(self.ffn)
        if self.experts is not None:
            router = self.hidden * self.experts.number
            result += self.expert_layers() * (self.block_params(self.experts.shared_ffn) + router)
        return result

    def table_params(self) -> int:
        """Weights of the embedding and of the head."""
        return (1 if self.tied else 2) * self.vocab * self.hidden

    def params(self) -> int:
        """All weights but the norms'."""
        return self.shared_params() + self.expert_params() + self.table_params()

    def attention_flops(self, seq: int) -> float:
        """Arithmetic of one token's scores and values in the forward pass of a mean layer, causal."""
        seen = seq / 2
        if self.window:
            seen = (seen + min(self.window, seen)) / 2
        if self.latent is not None:
            width = self.latent.plain + self.latent.rotary + self.latent.value
            return 2.0 * seen * self.heads * width
        return 4.0 * seen * self.heads * self.head_width


def gated_by_size(shape: Transformer, params: float) -> Transformer:
    """The shape with dense blocks of two or three matrices, whichever comes nearer to the stated parameters."""
    options = [shape._replace(gated=gated, tied=tied) for gated in (True, False) for tied in (False, True)]
    return min(options, key=lambda option: abs(option.params() - params))
