"""Mean JCT, bound (c): every job chooses its cheapest time under prices on GPU-seconds."""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from dally.metrics.bounds.choice import Choice
from dally.metrics.bounds.grid import Grid
from dally.metrics.bounds.workload import Workload


class Ruling:
    """What prices come to: the bound on the sum of completion times, and by how much each bin is overdrawn."""

    __slots__ = ("overdrawn", "total_s", "visits")

    def __init__(self, total_s: float, overdrawn: vec[float], visits: i64) -> None:
        self.total_s: float = total_s
        self.overdrawn: vec[float] = overdrawn  # GPU-seconds asked for beyond those there are, by bin
        self.visits: i64 = visits


def priced(workload: Workload, grid: Grid) -> Ruling:
    """The bound that the grid's prices give; sound for any prices that are not negative."""
    choice = Choice(grid)
    total_s = 0.0
    for place in range(len(workload)):
        total_s += choice.least_s(workload.submit_s[place], workload.size[place], workload.duration_s[place])
    room = workload.gpus * grid.width_s
    overdrawn = choice.used
    for place in range(len(overdrawn)):
        total_s -= grid.price[place] * room
        overdrawn[place] -= room
    return Ruling(total_s, overdrawn, choice.visits)
