"""Pollux: sizes by the power mean of speedups over a fair share."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from dally.model import Job
from dally.policies.base import Param, Policy
from dally.policies.declaration import NOTHING, NamedPolicy
from dally.policies.goodput.knapsack import SizeOptions
from dally.policies.goodput.rounds import GoodputRounds
from dally.policies.goodput.sia import ELASTIC, HELD, ROUND
from dally.policies.placement.closest_tier import holds_closest
from dally.policies.settings import Settings


@mypyc_attr(allow_interpreted_subclasses=True)
class PolluxPolicy(GoodputRounds):
    """Every 60 s a size for each job: the power mean of all speedups over an equal share of the GPUs.

    Qiao et al., Pollux, OSDI 2021. A size's goodput counts against that of the job at an equal share of all
    GPUs and, if the job would have to restart, times the share of its time that it would have worked if it
    restarted as often. The mean to the power of -1 of all jobs is made largest, which is to make the sum of the
    inverses least. The paper searches for it with a genetic algorithm over jobs and machines; here sizes are
    chosen exactly. A job without GPUs counts as `starved` (0.1) times its share: the paper's jobs can run on
    one GPU each, gangs cannot.
    """

    def __init__(self, round_s: float, scatters: bool, elastic: bool, starved: float) -> None:
        super().__init__(round_s, scatters, elastic)
        self._starved: float = starved

    def costs(self, job: Job, sizes: list[int], jobs: i64, gpus: i64, now: float) -> SizeOptions:
        result = SizeOptions()
        share = self._at_share(job, sizes, float(gpus) / float(jobs))
        for size in sizes:
            speedup = self.restart_factor(job, size, now) * self.goodput(job, size) / share
            result.add(size, 1.0 / speedup)
        result.add(0, 1.0 / self._starved)
        return result

    def _at_share(self, job: Job, sizes: list[int], share: float) -> float:
        """Its goodput at the largest size within the share; less than the least size counts by the GPU."""
        if share < float(sizes[0]):
            return self.goodput(job, sizes[0]) * share / float(sizes[0])
        fitting = [size for size in sizes if float(size) <= share]
        return self.goodput(job, fitting[-1])


def _pollux(settings: Settings) -> Policy:
    return PolluxPolicy(
        settings["round_s"], not holds_closest(settings["tier"]), settings["elastic"], settings["starved"]
    )


POLLUX: Final = NamedPolicy(
    "pollux", _pollux, "speedup over an equal share", "closest tier, largest first", "rounds", NOTHING,
    "Qiao et al., Pollux, OSDI 2021",
    (
        ROUND,
        HELD,
        ELASTIC,
        Param("starved", 0.1, "the speedup that a job without GPUs counts as", 1e-6),
    ),
    in_all=False,
)  # fmt: skip
