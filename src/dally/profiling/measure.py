"""Measures one model at one batch and precision: a record of plain values, with where it was made."""

from __future__ import annotations

import gc
import os
import platform
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from statistics import median
from typing import Any, NamedTuple

import torch

from dally.errors import InputError
from dally.profiling.buckets import Gradient, buckets_of
from dally.profiling.builtin import Task
from dally.profiling.measuring import MAX_ISA, short_name
from dally.profiling.training_step import (
    Timing,
    Training,
    graph_steps_s,
    optimizer_s,
    passes_s,
    ready_gradients,
    spread,
)


def where(device: str) -> dict[str, str]:
    """What stands beside every figure; of a CPU also to which instructions it was limited."""
    import torch

    limit = os.environ.get(MAX_ISA, "") if device == "cpu" else ""
    return {
        "gpu": short_name(torch.cuda.get_device_name()) if device == "cuda" else "cpu",
        "device": torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine(),
        "driver": _driver() if device == "cuda" else "none",
        "torch": str(torch.__version__),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    } | ({"max_isa": limit} if limit else {})


def _driver() -> str:
    request = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        output = subprocess.run(request, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return output.strip().splitlines()[0]


def step_flops(training: Training) -> int:
    """Floating-point operations of the products and convolutions of one forward and backward pass."""
    from torch.utils.flop_counter import FlopCounterMode

    counter: Any = FlopCounterMode(display=False)
    with counter:
        training.step()
    return int(counter.get_total_flops())


def step_bytes(training: Training) -> int:
    """Bytes of weights read in both passes and gradients written; activations are left out, so it is a floor.

    Of a table that is looked up, nothing is counted: how many rows a batch touches depends on the batch.
    """
    total = 0
    for _, weight in training.parameters():
        if weight.grad is not None and not weight.grad.is_sparse:
            total += 3 * weight.numel() * weight.element_size()
    return total


DIGITS = 6  # of a second or a share: microseconds


class Setting(NamedTuple):
    """What of a model is measured."""

    batch: int
    precision: str
    optimizer: str = "adamw"
    graph: bool = False


def usable_device(desired: str) -> str:
    """`cuda` or `cpu`: as wanted, or by what is there."""
    if desired not in ("auto", "cuda", "cpu"):
        raise InputError(f"--device {desired}: must be auto, cuda or cpu")
    if desired == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: torch sees no GPU here; --device cpu measures on the CPU")
    return desired if desired != "auto" else "cuda" if torch.cuda.is_available() else "cpu"


def measured(
    name: str, build: Callable[[int], Task], setting: Setting, device: str, timing: Timing
) -> dict[str, Any]:
    """The record of one model, batch and precision. What cannot be measured here is left out."""
    torch.set_float32_matmul_precision("high")  # TF32 products, as convolutions have them anyway
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    _forget(device)
    with torch.device(device):
        task = build(setting.batch)
    training = Training(task, device, setting.precision)
    del task
    forward, backward = passes_s(training, timing)
    record: dict[str, Any] = {
        "model": name,
        "batch": setting.batch,
        "precision": setting.precision,
        "params": sum(weight.numel() for _, weight in training.parameters()),
        "forward_s": median(forward),
        "backward_s": median(backward),
        "forward_spread": spread(forward),
        "backward_spread": spread(backward),
        "forward_steps_s": _rounded(forward),
        "backward_steps_s": _rounded(backward),
        "memory_bytes": torch.cuda.max_memory_allocated() if device == "cuda" else 0,
    }
    record |= _gradients(ready_gradients(training, timing))
    record["flops"], record["weight_bytes"] = step_flops(training), step_bytes(training)
    if setting.graph and device == "cuda":
        record["graph_s"] = _in_a_graph(training, timing)
    training.step()
    stepping = optimizer_s(training, setting.optimizer, timing)
    record |= {
        "optimizer": setting.optimizer,
        "optimizer_s": median(stepping),
        "optimizer_spread": spread(stepping),
        "train_memory_bytes": torch.cuda.max_memory_allocated() if device == "cuda" else 0,
    }
    return record | where(device)


def _gradients(gradients: list[Gradient]) -> dict[str, Any]:
    buckets = buckets_of(gradients)
    return {
        "gradient_bytes": sum(gradient.nbytes for gradient in gradients),
        "largest_bytes": max((gradient.nbytes for gradient in gradients), default=0.0),
        "last_bucket_bytes": buckets[-1].nbytes if buckets else 0.0,
        "buckets": [[bucket.nbytes, round(bucket.ready, DIGITS)] for bucket in buckets],
    }


def _in_a_graph(training: Training, timing: Timing) -> float | None:
    """The step's seconds, or None where it cannot be captured."""
    try:
        return median(graph_steps_s(training, timing))
    except RuntimeError:
        return None
    finally:
        training.model.zero_grad(set_to_none=True)
        torch.cuda.synchronize()


def _rounded(seconds: list[float]) -> list[float]:
    return [round(one, DIGITS) for one in seconds]


def _forget(device: str) -> None:
    """Give back what earlier measurements left, so that the peak is this one's."""
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
