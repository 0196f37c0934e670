"""Seconds of one training step of a transformer in a layout: compute, groups' traffic, what hides, the bubble."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

from dally.perf.llm.group_rates import Fabric, GroupRates, in_order
from dally.perf.llm.layout import SHARDED_WEIGHTS, Layout
from dally.perf.llm.transformer import ExpertMix, Transformer

TERA, GIGA = 1e12, 1e9
HIDDEN_SHARE = (
    0.8  # of a pass under which replicas' traffic may hide: buckets are ready late, and the last one after it
)
ADAM_BYTES = 30.0  # a parameter: weights, gradients and both moments, read and written
ATTENTION_BACKWARD = 2.5  # of the forward pass: five products for two
FIRST_SHARE = 0.1  # of a ring's traffic that nothing hides: the first part comes before anything to compute with
OPERAND_BYTES = {"fp4": 1.0, "fp8": 1.0, "mxfp8": 1.0}  # 2 in other precisions


class Accelerator(NamedTuple):
    """One GPU of a type and its share of the links around it. Peaks are dense, by precision, in TFLOP/s."""

    name: str
    peak_tflops: dict[str, float]
    memory_gb_s: float
    domain: int  # GPUs that NVLink or the like joins
    fabric_gb_s: float  # of a GPU, each direction, within the domain
    nic_gb_s: float  # of a GPU, each direction, out of it
    attention: float  # share of the peak in bf16 that attention reaches
    efficiency: float = 0.5  # share of the peak that large matrix products reach: a measured step fixes it


class Kernels(NamedTuple):
    """What is taken for the same on all GPUs: shares of data sheets' rates, and fixed times."""

    attention: float = 1.0  # of the GPU's own share, by software
    memory: float = 0.65  # of the memory's rate
    fabric: float = 0.8
    nic: float = 0.9
    single_ring: float = 0.6  # of one NIC, where each GPU gathers over its own alone
    layer_s: float = 6e-5  # of a layer's forward pass, in which its kernels start and end
    passes: float = 8.0  # times that a layer's forward pass reads or writes a token's activations, beside products
    exposed: float = 0.55  # of tensor traffic that products of the same layer do not hide
    early: float = 0.67  # of a layer's products that are run again where recomputation stops before the last matrix
    gradient_bytes: float = 2.0
    step_s: float = 0.015  # between steps: logging, data, the optimizer's norms
    expert_passes: float = 15.0  # as `passes`, for each copy of a token that goes to an expert
    expert_s: float = 2.5e-4  # as `layer_s`, for a layer's experts
    expert_exposed: float = 0.2  # of what goes to experts and back over the fabric
    expert_nic_exposed: float = 0.8  # of what goes there over NICs: hardly any software computes meanwhile
    expert_overhead: float = 1.0  # times these, by software
    chain: float = 30.0  # passes of experts' activations that are a chain of kernels
    hindrance: float = 0.2  # of replicas' hidden traffic: its kernels take processors and memory from products


# Experts' kernels became much faster within a year: NVIDIA's published steps of one layout differ by half.
EXPERT_OVERHEADS = ((2601, 1.2), (2606, 1.0), (9999, 0.5))  # until that year and month
NEW_ATTENTION = 2400  # year and month from which PyTorch's attention used Hopper's own instructions
OLD_ATTENTION = 0.46  # of today's, before


def kernels_of(software: int, fsdp: bool, gpu: Accelerator) -> Kernels:
    """The kernels of a year and month (2604: April 2026)."""
    overhead = next(value for until, value in EXPERT_OVERHEADS if software < until)
    old = fsdp and software < NEW_ATTENTION and "fp8" in gpu.peak_tflops
    return Kernels(
        attention=OLD_ATTENTION if old else 1.0,
        expert_overhead=overhead,
        chain=Kernels().chain * min(1.0, overhead),
    )


class StepParts(NamedTuple):
    """Seconds of one step by part, exposed ones only."""

    products_s: float
    attention_s: float
    memory_s: float
    fixed_s: float
    tensor_s: float
    context_s: float
    expert_s: float
    pipeline_s: float
    bubble_s: float
    data_s: float
    optimizer_s: float

    @property
    def total_s(self) -> float:
        """The whole step."""
        return sum(self)


class _Layer(NamedTuple):
    """One pass through a layer, or through all of a stage, of one micro-batch."""

    products_s: float = 0.0
    attention_s: float = 0.0
    memory_s: float = 0.0
    fixed_s: float = 0.0
    tensor_s: float = 0.0
    context_s: float = 0.0
    expert_s: float = 0.0

    def plus(self, other: _Layer, times: float = 1.0) -> _Layer:
        return _Layer(*(mine + times * theirs for mine, theirs in zip(self, other, strict=True)))


class LayoutModel:
    """Prices layouts of a transformer on one type of GPU and precision."""

    def __init__(
        self, shape: Transformer, gpu: Accelerator, precision: str, kernels: Kernels | None = None
    ) -> None:
        self.shape = shape
        self.gpu = gpu
        self.kernels = kernels or Kernels()
        self._base_rate = gpu.peak_tflops["bf16"] * TERA * gpu.efficiency
        self._rate = gpu.peak_tflops[precision] * TERA * gpu.efficiency
        self._attention_rate = gpu.peak_tflops["bf16"] * TERA * gpu.attention * self.kernels.attention
        self._memory = gpu.memory_gb_s * GIGA * self.kernels.memory
        self._operand = OPERAND_BYTES.get(precision, 2.0)

    def fabric(self) -> Fabric:
        """The GPU's links as its type has them."""
        gpu, kernels = self.gpu, self.kernels
        return Fabric(gpu.domain, gpu.fabric_gb_s * GIGA * kernels.fabric, gpu.nic_gb_s * GIGA * kernels.nic)

    def rates(self, layout: Layout) -> GroupRates:
        """Of ranks in their usual order on a cluster of such GPUs."""
        return in_order(layout, self.fabric(), self.gpu.nic_gb_s * GIGA * self.kernels.single_ring)

    def step(self, layout: Layout, rates: GroupRates | None = None) -> StepParts:
        """Seconds of a step by part; on a cluster of such GPUs, unless the groups' rates are given."""
        rates = rates or self.rates(layout)
        forward, backward = self._stage(layout, rates)
        micro = layout.micro_batches
        both = forward.plus(backward)
        return StepParts(
            **{name: micro * part for name, part in both._asdict().items()},
            pipeline_s=micro * self._sends_s(layout, rates),
            bubble_s=(layout.pp - 1) / layout.vpp * sum(both),
            data_s=self._data_s(layout, rates, sum(forward), sum(backward)),
            optimizer_s=self._optimizer_s(layout) + self.kernels.step_s,
        )

    def passes_s(self, layout: Layout, rates: GroupRates) -> tuple[float, float]:
        """Seconds of one micro-batch's forward and backward pass in the slowest stage."""
        forward, backward = self._stage(layout, rates)
        return sum(forward), sum(backward)

    # One micro-batch.

    def _stage(self, layout: Layout, rates: GroupRates) -> tuple[_Layer, _Layer]:
        """The forward and the backward pass of the slowest stage."""
        shape = self.shape
        experts = shape.expert_layers()
        forward, backward = _Layer(), _Layer()
        share, heads = self._share(layout)
        for count, ffn, own in ((shape.layers - experts, shape.ffn, None), (experts, 0, shape.experts)):
            if count:
                there = self._forward(layout, rates, ffn, own)
                forward = forward.plus(there, count * share)
                backward = backward.plus(self._backward(layout, rates, there), count * share)
        there, back = self._head(layout)
        return forward.plus(there, heads), backward.plus(back, heads)

    def _share(self, layout: Layout) -> tuple[float, float]:
        """Share of the layers in the fullest stage, and whether it has the head too (1) or not (0).

        Where the layers do not divide evenly, the embedding and the head take the place of layers.
        """
        chunks, layers = layout.pp * layout.vpp, self.shape.layers
        if layers % chunks == 0:
            return 1.0 / layout.pp, 1.0
        return -(-layers // chunks) * layout.vpp / layers, 0.0

    def _forward(self, layout: Layout, rates: GroupRates, ffn: int, experts: ExpertMix | None) -> _Layer:
        """One layer; `ffn` 0: it has experts alone."""
        shape, kernels = self.shape, self.kernels
        tokens, tp, width = layout.tokens, layout.tp, shape.hidden
        products_s = self._attention_products_s(layout)
        moved = tokens / tp * (kernels.passes * width + 3.0 * ffn)
        if ffn:
            products_s += self._block_s(tokens, ffn / tp)
        expert_s, fixed_s = 0.0, kernels.layer_s
        if experts is not None:
            if experts.shared_ffn:
                products_s += self._block_s(tokens, experts.shared_ffn / tp)
            copies = tokens / tp * experts.per_token
            products_s += self._block_s(copies, experts.ffn, experts.number / layout.ep)
            moved += copies * kernels.expert_overhead * kernels.expert_passes * width
            moved += copies * experts.ffn * (3.0 + (kernels.chain if experts.chained else 0.0))
            fabric_s, nic_s = self._exchange_s(layout, rates)
            exposed_s = max(kernels.expert_exposed * fabric_s, kernels.expert_nic_exposed * nic_s)
            expert_s = kernels.expert_overhead * exposed_s
            fixed_s += kernels.expert_overhead * kernels.expert_s
        attention_s = tokens * shape.attention_flops(layout.seq) / tp / self._attention_rate
        ring_s = self._ring_s(layout, rates)
        return _Layer(
            products_s=products_s,
            attention_s=attention_s,
            memory_s=2.0 * moved / self._memory,
            fixed_s=fixed_s,
            tensor_s=kernels.exposed * self._tensor_s(layout, rates),
            context_s=max(ring_s - attention_s, FIRST_SHARE * ring_s),
            expert_s=expert_s,
        )

    def _backward(self, layout: Layout, rates: GroupRates, forward: _Layer) -> _Layer:
        """The same layer on the way back, with what it computes again."""
        ring_s = self._ring_s(layout, rates)
        attention_s = ATTENTION_BACKWARD * forward.attention_s
        backward = forward._replace(
            products_s=(1.0 if layout.frozen else 2.0) * forward.products_s,
            attention_s=attention_s,
            memory_s=2.0 * forward.memory_s,
            fixed_s=2.0 * forward.fixed_s,
            context_s=max(2.0 * ring_s - attention_s, 2.0 * FIRST_SHARE * ring_s),
        )
        if layout.recompute == "full":
            return backward.plus(forward)
        if layout.recompute == "early":
            return backward.plus(forward._replace(products_s=forward.products_s * self.kernels.early))
        if layout.recompute == "selective":
            return backward.plus(_Layer(attention_s=forward.attention_s, memory_s=0.5 * forward.memory_s))
        return backward

    def _attention_products_s(self, layout: Layout) -> float:
        """Queries, keys, values and the output of one layer."""
        shape, tokens, tp = self.shape, layout.tokens, layout.tp
        if shape.latent is not None:
            return self._product_s(tokens, shape.hidden, shape.attention_params() / shape.hidden / tp)
        inner = shape.head_width * shape.heads / tp
        keys = shape.head_width * 2 * max(shape.kv_heads / tp, 1)
        return self._product_s(tokens, shape.hidden, inner + keys) + self._product_s(tokens, inner, shape.hidden)

    def _product_s(self, tokens: float, inner: float, outer: float) -> float:
        flops = 2.0 * tokens * inner * outer
        moved = self._operand * (tokens * inner + inner * outer) + 2.0 * tokens * outer
        return flops / self._rate + moved / self._memory

    def _block_s(self, tokens: float, ffn: float, experts: float = 1.0) -> float:
        """A dense block, or local experts that share the tokens evenly."""
        shape = self.shape
        weights = shape.block_params(1) * ffn
        moved = self._operand * weights * experts
        moved += tokens * (self._operand + 2.0) * (shape.hidden + ffn * (2 if shape.gated else 1))
        return 2.0 * tokens * weights / self._rate + moved / self._memory

    def _head(self, layout: Layout) -> tuple[_Layer, _Layer]:
        """The head and the loss, in bf16: forward and backward."""
        outer = self.shape.vocab / layout.tp
        products_s = 2.0 * layout.tokens * self.shape.hidden * outer / self._base_rate
        memory_s = 12.0 * layout.tokens * outer / self._memory
        times = 1.0 if layout.frozen else 2.0
        return _Layer(products_s, memory_s=memory_s), _Layer(times * products_s, memory_s=memory_s)

    # Traffic of one micro-batch, and of a step.

    def _tensor_s(self, layout: Layout, rates: GroupRates) -> float:
        """A pass through a layer gathers and scatters the tokens twice."""
        nbytes = 4.0 * 2.0 * layout.tokens * self.shape.hidden * (layout.tp - 1) / layout.tp
        return nbytes / rates.tensor

    def _ring_s(self, layout: Layout, rates: GroupRates) -> float:
        """Keys and values of all other parts of the sequence, handed on round the ring."""
        width = 2.0 * self.shape.head_width * max(self.shape.kv_heads / layout.tp, 1)
        return 2.0 * layout.tokens * width * (layout.cp - 1) / rates.context

    def _exchange_s(self, layout: Layout, rates: GroupRates) -> tuple[float, float]:
        """To experts and back, over fabric and NICs. A token goes once to a domain with experts of its choice."""
        experts = self.shape.experts
        if layout.ep == 1 or experts is None:
            return 0.0, 0.0
        domains = rates.expert_domains
        copies = 2.0 * 2.0 * layout.tokens / layout.tp * self.shape.hidden
        chosen = domains * (1.0 - (1.0 - 1.0 / domains) ** experts.per_token)
        inside = layout.ep / domains
        fabric_s = copies * experts.per_token * (inside - 1.0) / inside / rates.expert_fabric
        return fabric_s, copies * chosen * (domains - 1.0) / domains / rates.expert_nic

    def _sends_s(self, layout: Layout, rates: GroupRates) -> float:
        """What a stage hands on, and the products of another micro-batch do not hide."""
        if layout.pp == 1:
            return 0.0
        nbytes = 4.0 * layout.tokens * self.shape.hidden / layout.tp * layout.vpp
        return nbytes / rates.pipeline * self.kernels.exposed

    def _data_s(self, layout: Layout, rates: GroupRates, forward_s: float, backward_s: float) -> float:
        """What replicas' gradients and weights add to a step: what passes do not hide, and what slows them down."""
        late_s = self.late_s(layout, rates, forward_s, backward_s)
        hidden_s = max(self.gather_s(layout, rates) * self.gathers(layout) - late_s, 0.0)
        return late_s + self.kernels.hindrance * hidden_s

    def late_s(self, layout: Layout, rates: GroupRates, forward_s: float, backward_s: float) -> float:
        """Gradients and weights between replicas, less what passes hide."""
        gather_s = self.gather_s(layout, rates)
        if gather_s == 0.0:
            return 0.0
        first_s = self.first_s(layout, rates)
        if layout.zero >= SHARDED_WEIGHTS:
            late_s = max(gather_s - forward_s, 0.0) + max(2.0 * gather_s - backward_s, 0.0)
            return layout.micro_batches * late_s + first_s
        scatter_s = gather_s * self.kernels.gradient_bytes / 2.0
        if layout.eager:  # all-reduced each time: nobody owns a part of sums that go on growing
            late_s = max(2.0 * scatter_s - HIDDEN_SHARE * backward_s, 0.0) + first_s
            return layout.micro_batches * late_s
        late_s = max(gather_s - HIDDEN_SHARE * forward_s, 0.0)
        return late_s + max(scatter_s - HIDDEN_SHARE * backward_s, 0.0) + first_s

    def gather_s(self, layout: Layout, rates: GroupRates) -> float:
        """Seconds to gather all weights of a stage once, or to scatter their gradients in 2 bytes."""
        weights, own = self._data_bytes(layout)
        return weights / rates.data + own / rates.expert_data

    def _data_bytes(self, layout: Layout) -> tuple[float, float]:
        """Bytes that a GPU sends to gather its stage's weights once, and its experts'."""
        ranks = layout.dp * layout.cp
        if layout.frozen or ranks == 1:
            return 0.0, 0.0
        shape = self.shape
        weights = (
            2.0 * (shape.shared_params() + shape.table_params()) / (layout.tp * layout.pp) * (ranks - 1) / ranks
        )
        peers = max(1, layout.gpus // (layout.pp * layout.ep))
        own = 2.0 * shape.expert_params() / (layout.ep * layout.pp) * (peers - 1) / peers
        return weights, own

    def first_s(self, layout: Layout, rates: GroupRates) -> float:
        """Of it, the first layer's weights and the last one's gradients, which nothing hides."""
        return 2.0 * self.gather_s(layout, rates) / self.shape.layers

    def gathers(self, layout: Layout) -> float:
        """How many times a step gathers the weights, or scatters as many bytes."""
        if layout.zero >= SHARDED_WEIGHTS:
            return 3.0 * layout.micro_batches
        if layout.eager:
            return layout.micro_batches * self.kernels.gradient_bytes
        return 1.0 + self.kernels.gradient_bytes / 2.0

    def traffic(self, layout: Layout, rates: GroupRates) -> dict[str, float]:
        """Bytes that a member of a ring of each kind sends in a step; of experts, what leaves its domain."""
        layers = layout.micro_batches * self.shape.layers / layout.pp
        passes = 3.0 if layout.recompute in ("early", "full") else 2.0
        tensor, context = self._tensor_s(layout, rates) * rates.tensor, self._ring_s(layout, rates) * rates.context
        experts = layout.micro_batches * self.shape.expert_layers() / layout.pp
        weights, own = self._data_bytes(layout)
        times = self.gathers(layout)
        return {
            "tensor": layers * passes * tensor,
            "context": layers * (passes + 1.0) * context,
            "data": times * weights,
            "pipeline": layout.micro_batches * 4.0 * layout.tokens * self.shape.hidden / layout.tp * layout.vpp,
            "expert": experts * passes * self._exchange_s(layout, rates)[1] * rates.expert_nic,
            "expert_data": times * own,
        }

    def _optimizer_s(self, layout: Layout) -> float:
        if layout.frozen:
            return 0.0
        shape = self.shape
        weights = (shape.shared_params() + shape.table_params()) / (layout.tp * layout.pp)
        own = weights / (layout.dp * layout.cp if layout.zero else 1)
        if shape.experts is not None:
            peers = max(1, layout.gpus // (layout.pp * layout.ep))
            own += shape.expert_params() / (layout.ep * layout.pp) / (peers if layout.zero else 1)
        return ADAM_BYTES * own / self._memory


def measured_efficiency(
    shape: Transformer,
    gpu: Accelerator,
    precision: str,
    layout: Layout,
    step_s: float,
    kernels: Kernels | None = None,
) -> float:
    """The efficiency of large products at which a step takes as long as it was measured to, from 0.02 to 2."""
    low, high = 0.02, 2.0
    for _ in range(30):
        middle = sqrt(low * high)
        model = LayoutModel(shape, gpu._replace(efficiency=middle), precision, kernels)
        if model.step(layout).total_s > step_s:
            low = middle
        else:
            high = middle
    return sqrt(low * high)
