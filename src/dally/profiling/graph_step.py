"""A step as one CUDA graph: what the GPU needs when the host never makes it wait."""

from __future__ import annotations

from typing import Any

import torch

from dally.profiling.stopwatch import Mark, settle
from dally.profiling.training_step import Timing, Training


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
