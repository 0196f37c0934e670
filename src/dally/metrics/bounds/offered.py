"""What the bounds know of a workload: when each gang came, its size and the least time it needs.

The third bound charges for GPU-seconds: time is cut into equal bins with a price each.
"""

from __future__ import annotations

from math import isfinite
from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.model import Job


class Workload:
    """The jobs in order of submission, one entry of each list per job; times count from the first submission."""

    __slots__ = ("duration_s", "gpus", "size", "submit_s")

    def __init__(self, gpus: int) -> None:
        self.gpus: float = float(gpus)  # of the cluster
        self.submit_s: vec[float] = vec[float]()
        self.size: vec[float] = vec[float]()  # GPUs of the gang
        self.duration_s: vec[float] = vec[float]()  # at its best possible speed

    def __len__(self) -> int:
        return len(self.submit_s)

    def add(self, submit_s: float, size: float, duration_s: float) -> None:
        """One more job, submitted no earlier than those before."""
        if not isfinite(submit_s + duration_s):
            raise ValueError(
                f"a job of {duration_s} s, submitted at {submit_s} s: no bound knows what to do with it"
            )
        self.submit_s = append(self.submit_s, submit_s)
        self.size = append(self.size, size)
        self.duration_s = append(self.duration_s, duration_s)

    def durations_s(self) -> float:
        """The sum of all durations."""
        total = 0.0
        for duration_s in self.duration_s:
            total += duration_s
        return total


def workload_of(jobs: list[Job], gpus: int, slowdowns: list[float] | None = None) -> Workload:
    """Jobs in order of submission; `slowdowns`: by how much no placement can do better than each duration."""
    workload = Workload(gpus)
    for place in range(len(jobs)):
        job = jobs[place]
        slowdown = 1.0 if slowdowns is None else slowdowns[place]
        workload.add(job.submit_s - jobs[0].submit_s, float(job.gpus), job.duration_s * slowdown)
    return workload


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
