"""Mean JCT, bounds (a) and (b): all GPUs are one fast machine.

(a) is its least sum of completion times, (b) how late the work of a job lies on average when small jobs go first.
"""

from __future__ import annotations

from librt.vecs import vec
from mypy_extensions import i64

from dally.heap import IndexedHeap
from dally.metrics.bounds.offered import Grid, Workload


def srpt_total_s(workload: Workload) -> float:
    """The least sum of completion times on one machine: shortest remaining processing time first."""
    left = IndexedHeap()  # by seconds of work left
    total = 0.0
    now = 0.0
    submit_s: vec[float] = workload.submit_s
    for place in range(len(workload)):
        while len(left) > 0:
            first = left.first()
            done_s = now + left.key(first)
            if done_s > submit_s[place]:
                left.put(first, done_s - submit_s[place], 0.0)
                break
            left.remove(first)
            now = done_s
            total += done_s - submit_s[first]
        now = submit_s[place]
        left.put(place, workload.duration_s[place] * workload.size[place] / workload.gpus, 0.0)
    while len(left) > 0:
        first = left.first()
        now += left.key(first)
        total += now - submit_s[first]
        left.remove(first)
    return total


def busy_time_total_s(workload: Workload, grid: Grid) -> float:
    """Sum of the mean busy times, counted from submission, plus half of each duration.

    The machine of all GPUs serves the smallest GPU work first and is taken by whoever is smaller. How many
    jobs are unfinished on it, by the share of their work, is added to the grid: the starting prices.
    """
    machine = _Machine(workload, grid)
    for place in range(len(workload)):
        machine.serve_until(workload.submit_s[place])
        machine.submit(place)
    machine.serve_until(float("inf"))
    return machine.total_s + 0.5 * workload.durations_s()


class _Machine:
    __slots__ = ("alive", "grid", "left_s", "now_s", "total_s", "waiting", "workload")

    def __init__(self, workload: Workload, grid: Grid) -> None:
        self.workload: Workload = workload
        self.grid: Grid = grid
        self.waiting: IndexedHeap = IndexedHeap()  # by seconds of the machine that a job needs in all
        self.left_s: vec[float] = vec[float]([0.0] * len(workload))
        self.alive: float = 0.0  # jobs, each by the share of its work that is left
        self.now_s: float = 0.0
        self.total_s: float = 0.0  # mean busy times after submission

    def submit(self, place: i64) -> None:
        whole_s = self.workload.duration_s[place] * self.workload.size[place] / self.workload.gpus
        if whole_s > 0.0:
            self.left_s[place] = whole_s
            self.alive += 1.0
            self.waiting.put(place, whole_s, 0.0)

    def serve_until(self, end_s: float) -> None:
        while len(self.waiting) > 0 and self.now_s < end_s:
            job = self.waiting.first()
            spent_s = self.left_s[job]
            if self.now_s + spent_s > end_s:
                spent_s = end_s - self.now_s
            else:
                self.waiting.remove(job)
            self._serve(job, spent_s)
        if len(self.waiting) == 0:
            self.now_s = end_s
            self.alive = 0.0  # but for rounding

    def _serve(self, job: i64, spent_s: float) -> None:
        share = spent_s / self.waiting.key(job)
        self.total_s += share * (self.now_s + 0.5 * spent_s - self.workload.submit_s[job])
        self.grid.add(self.now_s, spent_s, self.alive, self.alive - share)
        self.left_s[job] -= spent_s
        self.alive -= share
        self.now_s += spent_s
