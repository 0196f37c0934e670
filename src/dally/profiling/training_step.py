"""One training step, timed part by part: forward, backward, optimiser, and each gradient as it becomes ready.

As one CUDA graph it takes what the GPU needs when the host never makes it wait.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map

from dally.profiling.buckets import Gradient
from dally.profiling.builtin import Task


class Mark:
    """A point in time. On a GPU it is reached when the work queued before it is done."""

    def __init__(self, device: str) -> None:
        self._event: Any = None
        self._clock_s = 0.0
        if device == "cuda":
            self._event = torch.cuda.Event(enable_timing=True)
            self._event.record()
        else:
            self._clock_s = perf_counter()

    def until_s(self, later: Mark) -> float:
        """Seconds from here to there; on a GPU, call `settle` first."""
        if self._event is None:
            return later._clock_s - self._clock_s
        return float(self._event.elapsed_time(later._event)) / 1e3


def settle(device: str) -> None:
    """Wait until all that was queued is done."""
    if device == "cuda":
        torch.cuda.synchronize()


def spread(seconds: list[float]) -> float:
    """The middle half of the measurements, against their median: (p75 - p25) ÷ p50."""
    ordered = sorted(seconds)
    low, high = ordered[len(ordered) // 4], ordered[(3 * len(ordered)) // 4]
    return (high - low) / median(ordered)


class Timing(NamedTuple):
    """How often and how long to measure."""

    steps: int = 20
    warmup: int = 4
    most_s: float = 4.0  # after which five steps are enough
    ready_steps: int = 5


class Training:
    """A task on a device in one precision."""

    def __init__(self, task: Task, device: str, precision: str) -> None:
        self.device = device
        self.precision = precision
        self.loss = task.loss
        self.model = task.model.to(device).train()
        self.batch = tree_map(self._placed, task.batch)
        if precision == "bf16":
            self.model = self.model.to(torch.bfloat16)

    def _placed(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        whole = self.precision == "bf16" and value.is_floating_point()
        return value.to(self.device, torch.bfloat16) if whole else value.to(self.device)

    def parameters(self) -> list[tuple[str, Any]]:
        """Those that are trained, by name."""
        return [(name, weight) for name, weight in self.model.named_parameters() if weight.requires_grad]

    def forward(self) -> Any:
        """The loss of the batch."""
        with self._arithmetic():
            return self.loss(self.model, self.batch)

    def _arithmetic(self) -> AbstractContextManager[Any]:
        if self.precision != "amp":
            return nullcontext()
        mixed: AbstractContextManager[Any] = torch.autocast(self.device, dtype=torch.bfloat16)
        return mixed

    def step(self) -> tuple[Mark, Mark, Mark]:
        """Forward and backward once: the marks before, between and after."""
        self.model.zero_grad(set_to_none=True)
        start = Mark(self.device)
        loss = self.forward()
        between = Mark(self.device)
        loss.backward()
        return start, between, Mark(self.device)


def passes_s(training: Training, timing: Timing) -> tuple[list[float], list[float]]:
    """Forward and backward seconds of single steps, after a warm-up."""
    for _ in range(timing.warmup):
        training.step()
    settle(training.device)
    marks: list[tuple[Mark, Mark, Mark]] = []
    begun_s = perf_counter()
    while len(marks) < timing.steps and (len(marks) < 5 or perf_counter() - begun_s < timing.most_s):
        marks.append(training.step())
        settle(training.device)
    return (
        [start.until_s(between) for start, between, _ in marks],
        [between.until_s(end) for _, between, end in marks],
    )


def ready_gradients(training: Training, timing: Timing) -> list[Gradient]:
    """Each gradient with its bytes to reduce and when it is ready, as a share of the backward pass.

    A hook on every tensor notes the time at which its gradient is whole. Noting it costs time itself, so the
    shares are of the passes with hooks, and the pass without them is what counts.
    """
    named = training.parameters()
    seen: dict[str, Mark] = {}

    def note(name: str) -> Any:
        return lambda _: seen.__setitem__(name, Mark(training.device))

    hooks = [weight.register_post_accumulate_grad_hook(note(name)) for name, weight in named]
    shares: dict[str, list[float]] = {}
    try:
        for _ in range(timing.ready_steps):
            seen.clear()
            _, between, end = training.step()
            settle(training.device)
            whole_s = between.until_s(end)
            for name, mark in seen.items():
                shares.setdefault(name, []).append(between.until_s(mark) / whole_s)
    finally:
        for hook in hooks:
            hook.remove()
    return [
        Gradient(reduced_bytes(weight), min(1.0, max(0.0, median(shares[name]))))
        for name, weight in named
        if name in shares
    ]


def reduced_bytes(weight: Any) -> float:
    """Bytes of a tensor's gradient that this GPU all-reduces: fewer where others hold part of the tensor."""
    return float(weight.numel() * weight.element_size() * getattr(weight, "gradient_share", 1.0))


def optimizer_s(training: Training, name: str, timing: Timing) -> list[float]:
    """Seconds of single optimiser steps."""
    weights = [weight for _, weight in training.parameters()]
    optimizer: Any
    if name == "adamw":
        optimizer = torch.optim.AdamW(weights, lr=1e-6, fused=training.device == "cuda")
    else:
        # Rows of tables are sparse: momentum would touch all of them.
        momentum = 0.0 if any(weight.grad is not None and weight.grad.is_sparse for weight in weights) else 0.9
        optimizer = torch.optim.SGD(weights, lr=1e-6, momentum=momentum)
    seconds: list[float] = []
    for number in range(3 + max(5, timing.steps // 2)):
        start = Mark(training.device)
        optimizer.step()
        end = Mark(training.device)
        settle(training.device)
        if number >= 3:
            seconds.append(start.until_s(end))
    return seconds


def graph_steps_s(training: Training, timing: Timing) -> list[float]:
    """Seconds of forward and backward replayed from a graph."""
    training.model.zero_grad(set_to_none=True)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            _once(training)
    torch.cuda.current_stream().wait_stream(side)
    training.model.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _once(training)
    seconds: list[float] = []
    for number in range(timing.warmup + timing.steps):
        start = Mark("cuda")
        graph.replay()
        end = Mark("cuda")
        settle("cuda")
        if number >= timing.warmup:
            seconds.append(start.until_s(end))
    return seconds


def _once(training: Training) -> None:
    if training.precision == "amp":  # the cache of cast weights outlives a capture and must not
        with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
            loss: Any = training.loss(training.model, training.batch)
    else:
        loss = training.forward()
    loss.backward()
