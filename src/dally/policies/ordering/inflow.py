"""How much work comes in: that of the last day counts, older work the less."""

from __future__ import annotations

import math
from typing import Final

from dally.pickles import picklable

MEMORY_S: Final = 86400.0  # work that came so long ago counts for 1/e; a day evens out nights


class Inflow:
    """The GPU time that jobs were expected to take when they came, per second."""

    __slots__ = ("_latest_s", "_sum_gpu_s")

    def __init__(self) -> None:
        self._latest_s: float = 0.0  # when the latest job came
        self._sum_gpu_s: float = 0.0  # as it counts then

    def came(self, gpu_s: float, at_s: float) -> None:
        """A job came at that moment, which may be before another's."""
        if at_s > self._latest_s:
            self._sum_gpu_s *= math.exp((self._latest_s - at_s) / MEMORY_S)
            self._latest_s = at_s
        self._sum_gpu_s += gpu_s * math.exp((at_s - self._latest_s) / MEMORY_S)

    def gpus(self, now: float) -> float:
        """GPUs that are needed for what comes in."""
        return self._sum_gpu_s / MEMORY_S * math.exp((self._latest_s - now) / MEMORY_S)


picklable(Inflow)
