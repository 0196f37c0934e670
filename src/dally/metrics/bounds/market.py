"""Mean JCT, bound (c): every job chooses its cheapest time under prices on GPU-seconds."""

from __future__ import annotations

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.metrics.bounds.choice import Choice
from dally.metrics.bounds.grid import Grid
from dally.metrics.bounds.offered import Workload


class Ruling:
    """What prices come to: the bound on the sum of completion times, and by how much each bin is overdrawn."""

    __slots__ = ("overdrawn", "total_s", "visits")

    def __init__(self, total_s: float, overdrawn: vec[float], visits: i64) -> None:
        self.total_s: float = total_s
        self.overdrawn: vec[float] = overdrawn  # GPU-seconds asked for beyond those there are, by bin
        self.visits: i64 = visits


class _Gangs:
    """All gangs of one size, and what they use of each bin if they all run at once when they come."""

    __slots__ = ("durations_s", "places", "size", "used")

    def __init__(self, size: float) -> None:
        self.size: float = size
        self.places: vec[i64] = vec[i64]()  # in the workload
        self.durations_s: float = 0.0
        self.used: vec[float] = vec[float]()  # GPU-seconds


class Market:
    """A workload, ready to be asked what it does under prices."""

    __slots__ = ("_gangs", "grid", "workload")

    def __init__(self, workload: Workload, grid: Grid) -> None:
        """`grid` must cost nothing yet."""
        self.workload: Workload = workload
        self.grid: Grid = grid
        self._gangs: list[_Gangs] = _by_size(workload)
        for gangs in self._gangs:
            choice = Choice(grid)
            self._chosen_s(gangs, choice)
            gangs.used = choice.used

    def ruling(self) -> Ruling:
        """The bound that the grid's prices give; sound for any prices that are not negative."""
        choice = Choice(self.grid)
        room = self.workload.gpus * self.grid.width_s
        total_s = 0.0
        dearest = 0.0
        for price in self.grid.price:
            total_s -= price * room
            if price > dearest:
                dearest = price
        overdrawn = vec[float]([-room] * int(self.grid.bins))
        for gangs in self._gangs:
            if gangs.size * dearest > 1.0:
                total_s += self._chosen_s(gangs, choice)
                continue
            # A second later saves them less than a second: all run at once.
            total_s += gangs.durations_s
            for place in range(self.grid.bins):
                overdrawn[place] += gangs.used[place]
                total_s += gangs.used[place] * self.grid.price[place]
        for place in range(self.grid.bins):
            overdrawn[place] += choice.used[place]
        return Ruling(total_s, overdrawn, choice.visits)

    def _chosen_s(self, gangs: _Gangs, choice: Choice) -> float:
        workload = self.workload
        total_s = 0.0
        for place in gangs.places:
            total_s += choice.least_s(workload.submit_s[place], gangs.size, workload.duration_s[place])
        return total_s


def _by_size(workload: Workload) -> list[_Gangs]:
    result: dict[float, _Gangs] = {}
    for place in range(len(workload)):
        size = workload.size[place]
        gangs = result.get(size)
        if gangs is None:
            gangs = _Gangs(size)
            result[size] = gangs
        gangs.places = append(gangs.places, place)
        gangs.durations_s += workload.duration_s[place]
    return list(result.values())
