"""Rows of published training runs: the transformer, layout and GPU that each states, or why it is not priced."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from dally.perf.catalogue import plain
from dally.perf.llm.accelerators import GpuType, find_gpu, known_models
from dally.perf.llm.layout import SHARDED_WEIGHTS, Layout
from dally.perf.llm.step import Kernels, LayoutModel, StepParts, kernels_of, measured_efficiency
from dally.perf.llm.transformer import Transformer, gated_by_size

NEEDED = ("gpus", "seq", "global_batch", "tp", "pp")
OF_DENSE = ("layers", "hidden", "ffn", "vocab", "params_b")
CONTAINER = re.compile(r"container (\d\d)\.(\d\d)")  # of NeMo: its year and month
USUAL_YEAR = 2024
MOST_DEVIATION = 0.1  # of the stated parameters from those of layers and widths


class UnpricedError(Exception):
    """Why a row is not modelled."""


class PublishedRun(NamedTuple):
    """What a row states, as far as the model of a step goes."""

    shape: Transformer
    layout: Layout
    gpu: GpuType
    precision: str
    software: int  # year and month, 2604 for April 2026
    overlapped: bool  # its pipeline computes while tokens go to their experts

    def step(self, efficiency: float = 0.0) -> StepParts:
        """Seconds by part; at the GPU type's own efficiency unless said."""
        accelerator = self.gpu.at(self.precision, efficiency)
        return LayoutModel(self.shape, accelerator, self.precision, self.kernels()).step(self.layout)

    def kernels(self) -> Kernels:
        """Those of the row's software."""
        fsdp = self.layout.zero >= 2 and not self.layout.single_ring
        kernels = kernels_of(self.software, fsdp, self.gpu.accelerator)
        return kernels._replace(expert_nic_exposed=kernels.expert_exposed) if self.overlapped else kernels

    def efficiency(self, step_s: float) -> float:
        """At which the step would take that long."""
        gpu, kernels = self.gpu.accelerator, self.kernels()
        return measured_efficiency(self.shape, gpu, self.precision, self.layout, step_s, kernels)


def read_run(row: Mapping[str, str]) -> PublishedRun:
    """The run of a row, or UnpricedError."""
    missing = [key for key in NEEDED if not row[key]]
    if missing:
        raise UnpricedError(f"not stated: {', '.join(missing)}")
    gpu = find_gpu(row["gpu"])
    if gpu is None:
        raise UnpricedError(f"GPU type {row['gpu']!r} is not known")
    shape = _shape(row)
    precision = _precision(row, gpu)
    if precision not in gpu.accelerator.peak_tflops:
        raise UnpricedError(f"{gpu.accelerator.name} has no {precision}")
    layout = _layout(row, shape)
    problem = layout.problem(shape.layers)
    if problem:
        raise UnpricedError(problem)
    return PublishedRun(shape, layout, gpu, precision, _software(row), "DualPipe" in row["note"])


def _count(row: Mapping[str, str], key: str, default: int) -> int:
    return int(float(row[key])) if row[key] else default


def _shape(row: Mapping[str, str]) -> Transformer:
    known = known_models().get(plain(row["model"]))
    if known is not None:
        return known
    if _count(row, "ep", 1) > 1:
        raise UnpricedError(f"experts of {row['model']!r} are not known")
    missing = [key for key in OF_DENSE if not row[key]]
    if missing:
        raise UnpricedError(f"not stated: {', '.join(missing)}")
    layers, hidden, ffn, vocab = (_count(row, key, 0) for key in ("layers", "hidden", "ffn", "vocab"))
    heads = _count(row, "heads", hidden // 128)
    shape = Transformer(layers, hidden, heads, _count(row, "kv_heads", heads), ffn, vocab)
    stated = float(row["params_b"]) * 1e9
    shape = gated_by_size(shape, stated)
    if abs(shape.params() / stated - 1) > MOST_DEVIATION:
        raise UnpricedError(
            f"layers and widths make {shape.params() / 1e9:.3g} B parameters, not {row['params_b']} B"
        )
    return shape


def _layout(row: Mapping[str, str], shape: Transformer) -> Layout:
    sharding = row["zero_fsdp"].lower()
    fsdp = "fsdp" in sharding
    zero = SHARDED_WEIGHTS if fsdp or "zero-3" in sharding else 0 if sharding == "none" else 1
    if "shard_grad_op" in sharding:
        zero = 2
    recompute = row["recompute"].lower()
    if recompute not in ("", "none", "full"):
        recompute = "selective"
    elif recompute == "full" and fsdp:
        recompute = "early"  # PyTorch stops once it has what the backward pass needs
    layout = Layout(
        gpus=_count(row, "gpus", 1),
        seq=_count(row, "seq", 1),
        global_batch=_count(row, "global_batch", 1),
        micro_batch=_count(row, "micro_batch", 1),
        tp=_count(row, "tp", 1),
        pp=_count(row, "pp", 1),
        cp=_count(row, "cp", 1),
        ep=_count(row, "ep", 1),
        zero=zero,
        recompute=recompute or "none",
        single_ring="zero-3" in sharding and not fsdp,
        frozen=re.search(r"\blora\b", f"{row['model']} {row['note']}", re.IGNORECASE) is not None,
    )
    chunks = _count(row, "vpp", 0) or usual_chunks(layout, shape)
    return layout._replace(vpp=chunks)


def usual_chunks(layout: Layout, shape: Transformer) -> int:
    """Where it is not stated: a layer a chunk, if layers and micro-batches divide as interleaving needs it."""
    model = layout.tp * layout.pp * layout.cp
    if layout.pp == 1 or shape.experts is not None or layout.gpus % model or shape.layers % layout.pp:
        return 1
    return shape.layers // layout.pp if layout.micro_batches % layout.pp == 0 else 1


def _precision(row: Mapping[str, str], gpu: GpuType) -> str:
    """Of products. Where it is not stated: MLPerf's runs are in FP8 where the GPU has it, others in bf16."""
    text = row["precision"].lower()
    if not text and row["source"].startswith("mlcommons"):
        text = "fp4" if "fp4" in row["note"] else "fp8" if "fp8" in gpu.accelerator.peak_tflops else ""
    if "fp4" in text:
        return "fp4"
    if "mx" in text or "rowwise" in text:  # scaled by rows or blocks
        return "mxfp8"
    if "fp8" in text:
        return "fp8"
    return "fp16" if text == "fp16" else "bf16"


def _software(row: Mapping[str, str]) -> int:
    match = CONTAINER.search(row["note"])
    if match:
        return int(match[1]) * 100 + int(match[2])
    return (_count(row, "year", USUAL_YEAR) - 2000) * 100 + 6  # the middle of the year
