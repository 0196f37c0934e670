"""Sia: sizes by an integer program over goodputs, each against the job's least."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, mypyc_attr

from dally.model import Job
from dally.policies.base import Param, Policy
from dally.policies.declaration import NOTHING, NamedPolicy
from dally.policies.goodput.knapsack import SizeOptions
from dally.policies.goodput.rounds import GoodputRounds
from dally.policies.placement.closest_tier import CLOSEST, TIER, holds_closest
from dally.policies.settings import Settings


@mypyc_attr(allow_interpreted_subclasses=True)
class SiaPolicy(GoodputRounds):
    """Every 60 s a size for each job: goodputs against its least, to a power, and a price for jobs left out.

    Jayaram Subramanya et al., Sia, SOSP 2023. A size's goodput counts against that of the job's least size and,
    if the job would have to restart, times the share of its time that it would have worked if it restarted as
    often. The sum of these to the power of `power` (0.5), and of `placed` (1.1) for every job that has GPUs, is
    made largest: the values and the form of the authors' later public program. A job begins at its least size and
    at most doubles from round to round.
    """

    def __init__(self, round_s: float, scatters: bool, elastic: bool, power: float, placed: float) -> None:
        super().__init__(round_s, scatters, elastic)
        self._power: float = power
        self._placed: float = placed

    def costs(self, job: Job, sizes: list[int], jobs: i64, gpus: i64, now: float) -> SizeOptions:
        result = SizeOptions()
        most = 2 * job.gpus if job.start_s >= 0.0 and job.allocation is not None else sizes[0]
        least = self.goodput(job, sizes[0])
        for size in sizes:
            if size <= max(most, sizes[0]):
                value = self.restart_factor(job, size, now) * self.goodput(job, size) / least
                result.add(size, -(value**self._power) - self._placed)
        result.add(0, 0.0)
        return result


def _sia(settings: Settings) -> Policy:
    tier, elastic = settings["tier"], settings["elastic"]
    return SiaPolicy(settings["round_s"], not holds_closest(tier), elastic, settings["power"], settings["placed"])


ROUND: Final = Param("round_s", 60.0, "seconds that a round lasts", 1e-3, period=True)
HELD: Final = TIER._replace(default=CLOSEST)
ELASTIC: Final = Param("elastic", True, "false: every job keeps the size that it asks for")
SIA: Final = NamedPolicy(
    "sia", _sia, "goodput against the least size's", "closest tier, largest first", "rounds", NOTHING,
    "Jayaram Subramanya et al., Sia, SOSP 2023",
    (
        ROUND,
        HELD,
        ELASTIC,
        Param("power", 0.5, "goodputs count to this power", 0.01),
        Param("placed", 1.1, "what it is worth that a job has GPUs, where its least size is worth 1"),
    ),
    in_all=False,
)  # fmt: skip
