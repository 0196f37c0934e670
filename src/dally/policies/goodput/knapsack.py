"""One size for each job so that the sum of costs is least and the GPUs suffice: solved exactly.

Pollux searches for it with a genetic algorithm, Sia with an integer program. With one type of GPU the program is a
multiple-choice knapsack, and going through the jobs with the best cost for every number of GPUs is exact.
"""

from __future__ import annotations

from typing import Final

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.model import INFINITY

FIRST: Final = 1e9  # above any sum of other costs


class SizeOptions:
    """The sizes that a job may have, 0 among them if it may go without, and what each costs."""

    __slots__ = ("costs", "sizes")

    def __init__(self) -> None:
        self.sizes: vec[i64] = vec[i64]()
        self.costs: vec[float] = vec[float]()

    def add(self, size: i64, cost: float) -> None:
        """One more."""
        self.sizes = append(self.sizes, size)
        self.costs = append(self.costs, cost)

    def put_first(self) -> None:
        """The job goes without only if those that are put first need all GPUs."""
        for option in range(len(self.sizes)):
            if self.sizes[option] == 0:
                self.costs[option] += FIRST


def cheapest_sizes(jobs: list[SizeOptions], gpus: i64) -> list[int]:
    """The size of each job, by place. Of equal sums the one that gives the last jobs their first-named sizes."""
    if gpus < 0 or not jobs:
        return [0] * len(jobs)
    best: vec[float] = vec[float]([0.0] * (int(gpus) + 1))  # of the jobs so far, with at most so many GPUs
    choices: list[vec[i64]] = []
    for job in jobs:
        after: vec[float] = vec[float]([INFINITY] * (int(gpus) + 1))
        chosen: vec[i64] = vec[i64]([-1] * (int(gpus) + 1))
        for option in range(len(job.sizes)):
            size = job.sizes[option]
            cost = job.costs[option]
            for have in range(size, gpus + 1):
                total = best[have - size] + cost
                if total < after[have]:
                    after[have] = total
                    chosen[have] = option
        best = after
        choices.append(chosen)
    return _walk_back(jobs, choices, gpus)


def _walk_back(jobs: list[SizeOptions], choices: list[vec[i64]], gpus: i64) -> list[int]:
    """What was chosen, from the last job to the first; 0 where nothing fits."""
    result = [0] * len(jobs)
    left = gpus
    for place in range(len(jobs) - 1, -1, -1):
        option = choices[place][left]
        if option < 0:
            return [0] * len(jobs)
        size = jobs[place].sizes[option]
        result[place] = int(size)
        left -= size
    return result
