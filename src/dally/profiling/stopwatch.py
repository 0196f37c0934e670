"""Points in time on a device: CUDA events in its stream, the clock on a CPU."""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import Any

import torch


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
