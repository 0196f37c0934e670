"""Time in equal bins, and a price of a GPU-second in each: what the third bound charges."""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

LEAST_WIDTH_S: Final = 1e-9  # where all jobs end at once, too


class Grid:
    """Bins from the first submission on. After the last bin GPUs cost nothing."""

    __slots__ = ("bins", "price", "width_s")

    def __init__(self, horizon_s: float, bins: i64) -> None:
        self.bins: i64 = bins
        self.width_s: float = max(horizon_s / float(bins), LEAST_WIDTH_S)
        self.price: vec[float] = vec[float]([0.0] * int(bins))

    def bin_of(self, time_s: float) -> i64:
        """The bin that holds the time; the number of bins if it is later than all."""
        place = time_s / self.width_s
        return i64(place) if place < float(self.bins) else self.bins

    def end_s(self, place: i64) -> float:
        """When the bin ends."""
        return float(place + 1) * self.width_s if place < self.bins else float("inf")

    def add(self, start_s: float, length_s: float, first: float, last: float) -> None:
        """Add to each bin its mean of a line that falls from `first` to `last` over that time."""
        slope = (last - first) / length_s
        place = self.bin_of(start_s)
        at_s = start_s
        while place < self.bins and at_s < start_s + length_s:
            end_s = min(self.end_s(place), start_s + length_s)
            if end_s > at_s:
                middle = first + slope * (0.5 * (at_s + end_s) - start_s)
                self.price[place] += middle * (end_s - at_s) / self.width_s
                at_s = end_s
            place += 1
