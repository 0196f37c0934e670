"""How a training run is spread over GPUs: degrees of the parallel groups, batches, and what is recomputed."""

from __future__ import annotations

from typing import NamedTuple

RECOMPUTE = ("none", "selective", "early", "full")
SHARDED_WEIGHTS = 3  # ZeRO stage from which each layer's weights are gathered when needed


class Layout(NamedTuple):
    """Degrees and batches of one run. Ranks are numbered tensor first, then context, data and pipeline."""

    gpus: int
    seq: int
    global_batch: int
    micro_batch: int = 1
    tp: int = 1
    pp: int = 1
    vpp: int = 1  # chunks of layers that each stage holds
    cp: int = 1
    ep: int = 1
    zero: int = 1  # 0: all is replicated; 1: optimizer; 2: gradients too; 3: weights too (FSDP)
    recompute: str = "none"
    single_ring: bool = False  # replicas gather over one ring, not one for each NIC of a machine
    frozen: bool = False  # adapters (LoRA): weights have no gradients
    eager: bool = False  # gradients are reduced after every micro-batch, not added up first

    @property
    def dp(self) -> int:
        """Replicas of the model."""
        return self.gpus // (self.tp * self.pp * self.cp)

    @property
    def micro_batches(self) -> int:
        """Micro-batches that each replica runs one after the other in a step."""
        return max(1, self.global_batch // (self.dp * self.micro_batch))

    @property
    def tokens(self) -> float:
        """Tokens of a micro-batch that a tensor-parallel group works on."""
        return self.micro_batch * self.seq / self.cp

    def problem(self, layers: int) -> str:
        """Why the degrees cannot be; empty if they can."""
        model = self.tp * self.pp * self.cp
        if self.gpus % model:
            return f"tp {self.tp} × pp {self.pp} × cp {self.cp} does not divide {self.gpus} GPUs"
        if self.global_batch < self.dp * self.micro_batch or self.global_batch % (self.dp * self.micro_batch):
            return f"a batch of {self.global_batch} is no multiple of dp {self.dp} × micro-batch {self.micro_batch}"
        if (self.gpus // self.pp) % self.ep:
            return f"ep {self.ep} does not divide the {self.gpus // self.pp} GPUs of a stage"
        if self.pp * self.vpp > layers + 2:
            return f"pp {self.pp} × vpp {self.vpp} chunks for {layers} layers"
        return ""
