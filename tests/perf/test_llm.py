"""Large models: parameters, what each part of a step costs, and the efficiency that a measured step fixes."""

from __future__ import annotations

from typing import Any

import pytest

from dally.perf.llm.accelerators import find_gpu, gpu_types, known_models
from dally.perf.llm.group_rates import Fabric, in_order
from dally.perf.llm.layout import Layout
from dally.perf.llm.step import Kernels, LayoutModel, StepParts, kernels_of, measured_efficiency
from dally.perf.llm.transformer import Transformer, gated_by_size

LLAMA_70B = Transformer(80, 8192, 64, 8, 28672, 128256)
H100 = gpu_types()["H100"].at("bf16", 0.6)
LAYOUT = Layout(gpus=64, seq=8192, global_batch=128, tp=8, pp=4, vpp=5)


def step(layout: Layout, precision: str = "bf16", shape: Transformer = LLAMA_70B) -> StepParts:
    return LayoutModel(shape, H100, precision).step(layout)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("deepseekv3", 671),
        ("kimik2", 1026),  # the model card says 1 T
        ("gptoss120b", 116.8),
        ("qwen330ba3b", 30.5),
        ("qwen3235ba22b", 235),
        ("llama4scout", 107.8),  # 109 with its encoder of images
        ("llama4maverick", 400),
        ("mixtral8x7b", 46.7),
        ("mixtral8x22b", 140.6),
        ("deepseekv2", 236),
    ],
)
def test_known_models_have_their_published_parameters(name: str, billions: float) -> None:
    assert known_models()[name].params() / 1e9 == pytest.approx(billions, rel=0.01)


def test_blocks_have_as_many_matrices_as_the_stated_parameters_say() -> None:
    llama = gated_by_size(Transformer(80, 8192, 64, 8, 28672, 128256), 70.6e9)
    gpt = gated_by_size(Transformer(96, 12288, 96, 96, 49152, 51200), 174.6e9)
    assert llama.gated
    assert not gpt.gated
    assert gpt.params() == pytest.approx(174.6e9, rel=0.01)


def test_products_take_six_flops_a_parameter_and_token() -> None:
    """On one GPU without recomputation; what products move through memory comes on top."""
    layout = Layout(gpus=8, seq=4096, global_batch=8)
    tokens = 4096
    flops = 6.0 * (LLAMA_70B.params() - LLAMA_70B.vocab * LLAMA_70B.hidden) * tokens
    assert 1.0 < step(layout).products_s / (flops / (989.5e12 * 0.6)) < 1.15


def test_the_bubble_is_a_stage_less_than_there_are_by_chunks() -> None:
    """4 stages, 64 micro-batches: 3/64 of the work without interleaving, a fifth of it with five chunks."""
    plain, woven = step(LAYOUT._replace(vpp=1)), step(LAYOUT)
    assert LAYOUT.micro_batches == 64
    work_s = sum(plain) - plain.bubble_s - plain.pipeline_s - plain.data_s - plain.optimizer_s
    assert plain.bubble_s == pytest.approx(work_s * 3 / 64)
    assert woven.bubble_s == pytest.approx(plain.bubble_s / 5)
    assert woven.pipeline_s == pytest.approx(5 * plain.pipeline_s)


def test_recomputation_adds_a_forward_pass() -> None:
    none, full, early = (step(LAYOUT._replace(recompute=kind)) for kind in ("none", "full", "early"))
    head_s = 3 * 2.0 * 8192 * 8192 * (128256 / 8) / (989.5e12 * 0.6) * 64
    assert full.products_s - head_s == pytest.approx((none.products_s - head_s) * 4 / 3)
    assert none.products_s < early.products_s < full.products_s
    assert full.tensor_s == pytest.approx(none.tensor_s * 1.5)


def test_adapters_have_no_gradients_of_weights() -> None:
    whole, adapter = step(LAYOUT), step(LAYOUT._replace(frozen=True))
    assert adapter.products_s == pytest.approx(whole.products_s * 2 / 3)
    assert adapter.data_s == 0.0


def test_tensor_groups_that_leave_the_machine_wait_for_nics() -> None:
    inside, outside = step(LAYOUT), step(LAYOUT._replace(tp=16, pp=2))
    assert step(LAYOUT._replace(tp=1, pp=16)).tensor_s == 0.0
    assert outside.tensor_s > inside.tensor_s


def test_members_in_a_domain_add_up_their_nics() -> None:
    fabric = Fabric(domain=8, fabric=360e9, nic=45e9)
    assert fabric.ring(1, 8) == 360e9
    assert fabric.ring(1, 16) == 360e9  # 8 NICs of 45 GB/s
    assert fabric.ring(4, 4) == 90e9
    assert fabric.ring(8, 8) == 45e9
    rates = in_order(LAYOUT, fabric, 30e9)
    assert (rates.tensor, rates.data, rates.pipeline) == (360e9, 45e9, 45e9)
    assert in_order(LAYOUT._replace(single_ring=True, tp=1), fabric, 30e9).data == 30e9


def test_sharded_weights_are_gathered_for_every_micro_batch() -> None:
    small = Layout(gpus=512, seq=256, global_batch=512, zero=3)
    one, four = step(small), step(small._replace(global_batch=2048))
    assert one.data_s > 0.0  # short sequences: traffic shows
    assert four.data_s > 3 * one.data_s
    assert step(small._replace(zero=1, global_batch=2048)).data_s < four.data_s


def test_experts_far_apart_cost_more() -> None:
    shape = known_models()["qwen3235ba22b"]
    layout = Layout(gpus=64, seq=4096, global_batch=64, ep=8)
    near, far = step(layout, shape=shape), step(layout._replace(ep=64), shape=shape)
    assert step(layout._replace(ep=1), shape=shape).expert_s == 0.0
    assert 0.0 < near.expert_s < far.expert_s


def test_experts_wait_for_nics_more_than_for_the_fabric() -> None:
    shape = known_models()["gptoss120b"]
    layout = Layout(gpus=64, seq=4096, global_batch=64, ep=64)
    wide = LayoutModel(shape, H100._replace(domain=64, fabric_gb_s=H100.nic_gb_s * 0.9 / 0.8), "bf16").step(layout)
    assert step(layout, shape=shape).expert_s > 2 * wide.expert_s  # fewer bytes leave a domain, hardly any hide


def test_hidden_traffic_slows_what_hides_it() -> None:
    calm = LayoutModel(LLAMA_70B, H100, "fp8", Kernels(hindrance=0.0))
    model = LayoutModel(LLAMA_70B, H100, "fp8")
    rates = model.rates(LAYOUT)
    traffic_s = model.gather_s(LAYOUT, rates) * model.gathers(LAYOUT)
    late_s = calm.step(LAYOUT).data_s
    assert late_s == model.late_s(LAYOUT, rates, *model.passes_s(LAYOUT, rates)) < traffic_s
    assert model.step(LAYOUT).data_s == pytest.approx(late_s + 0.2 * (traffic_s - late_s))


def test_a_measured_step_fixes_the_efficiency() -> None:
    model = LayoutModel(LLAMA_70B, H100, "fp8")
    found = measured_efficiency(LLAMA_70B, H100, "fp8", LAYOUT, model.step(LAYOUT).total_s)
    assert found == pytest.approx(0.6, rel=1e-4)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tp": 3}, "does not divide"),
        ({"global_batch": 3}, "no multiple of dp 2"),
        ({"ep": 5}, "ep 5 does not divide the 16 GPUs of a stage"),
        ({"vpp": 50}, "200 chunks"),
    ],
)
def test_degrees_that_cannot_be(change: dict[str, Any], reason: str) -> None:
    problem = LAYOUT._replace(**change).problem(80)
    assert reason in problem or (reason == "200 chunks" and "vpp 50" in problem)
    assert LAYOUT.problem(80) == ""


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("H100-80GB SXM", "H100"),
        ("H100-96GB HBM2e, 500 W limit", "H100-500W"),
        ("Blackwell Ultra GPU (GB300)", "GB300"),
        ("Blackwell GPU (B200-SXM-180GB)", "B200"),
        ("B200, power limited", "B200-limited"),
        ("A100-40GB SXM", "A100-40GB"),
    ],
)
def test_the_longest_match_names_the_type(text: str, name: str) -> None:
    found = find_gpu(text)
    assert found is not None
    assert found.accelerator.name == name


def test_an_unknown_type_is_none() -> None:
    assert find_gpu("TPU-v5p") is None


def test_kernels_follow_the_software() -> None:
    early, late = kernels_of(2511, fsdp=False, gpu=H100), kernels_of(2608, fsdp=False, gpu=H100)
    assert early.expert_overhead > late.expert_overhead
    assert 0.0 < late.chain < early.chain
    assert kernels_of(2306, fsdp=True, gpu=H100).attention < Kernels().attention
