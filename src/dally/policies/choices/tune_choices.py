"""Which policy, or which settings of one, are in use for the next hours: the decisions of `TunePolicy-v0`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log1p, sqrt
from typing import Final

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.errors import InputError
from dally.model import Action, Job
from dally.pickles import picklable
from dally.policies.base import Policy
from dally.policies.choices.base import LOG_WEEK, Choices, bounded, largest_domain, log_time, lost_speed

STATE_COLUMNS: Final = (
    "free", "running", "demand", "largest_domain", "lost_speed", "waited", "attained", "small", "arrived", "came",
    "ended", "length", "spread",
)  # fmt: skip
MOST_CANDIDATES: Final = 16


@mypyc_attr(allow_interpreted_subclasses=True)
class TuneChoices(Choices):
    """A row for each candidate: which one it is, whether it is in use, and how the last hours went.

    The last row, to decline, is never allowed: to choose what is in use changes nothing.
    """

    def __init__(self, candidates: Sequence[Callable[[], Policy]], hours: float = 6.0) -> None:
        count = len(candidates)
        if count < 2 or count > MOST_CANDIDATES:
            raise InputError(f"candidates: must be from 2 to {MOST_CANDIDATES}, not {count}")
        if not 0.0 < hours < 1e6:
            raise InputError(f"hours {hours:g}: must be above 0")
        super().__init__(count, count + 2 + len(STATE_COLUMNS))
        self.columns = (*(f"is_{number}" for number in range(count)), "in_use", "decline", *STATE_COLUMNS)
        self.candidates: list[Callable[[], Policy]] = list(candidates)
        self.window_s: float = hours * 3600.0
        self.in_use: i64 = 0
        self.came: i64 = 0  # jobs, in the window so far
        self.came_gpus: i64 = 0
        self.ended: i64 = 0
        self._logs: float = 0.0  # of their durations: sum, and sum of squares
        self._squares: float = 0.0

    def arrived(self, job: Job) -> None:
        """A job was submitted."""
        self.came += 1
        self.came_gpus += job.gpus

    def finished(self, job: Job) -> None:
        """A job is done."""
        self.ended += 1
        value = log1p(job.done_s(self.now)) / LOG_WEEK
        self._logs += value
        self._squares += value * value

    def next(self) -> bool:
        """The rows of the window that ends now, and a new window."""
        cluster = self.cluster
        assert cluster is not None
        common = self._common(cluster)
        count = self.visible
        rows = self.rows
        for place in range(count + 1):
            at: i64 = place * self.width
            for column in range(count):
                rows[at + column] = 1.0 if column == place else 0.0
            rows[at + count] = 1.0 if place == self.in_use else 0.0
            rows[at + count + 1] = 1.0 if place == count else 0.0
            for column in range(len(common)):
                rows[at + count + 2 + column] = common[column]
            self.mask[place] = 1 if place < count else 0
        self.came = 0
        self.came_gpus = 0
        self.ended = 0
        self._logs = 0.0
        self._squares = 0.0
        return True

    def take(self, choice: i64) -> list[Action]:
        self.in_use = choice
        return []

    def _common(self, cluster: Cluster) -> list[float]:
        cluster.focus(None)
        total = float(cluster.topology.total_gpus())
        waiting = float(len(self.waiting))
        running = float(len(cluster.running))
        waited = 0.0
        small = 0.0
        for job in self.waiting:
            waited += log_time(self.now - job.lost_s)
            small += 1.0 if job.gpus == 1 else 0.0
        attained = 0.0
        for job in cluster.running.values():
            attained += log_time(job.done_s(self.now))
        ended = float(self.ended)
        mean = self._logs / ended if ended > 0.0 else 0.0
        square = self._squares / ended - mean * mean if ended > 0.0 else 0.0
        return [
            float(cluster.all_free()) / total,
            running / (running + waiting) if running + waiting > 0.0 else 0.0,
            bounded(float(self.waiting_gpus) / total),
            largest_domain(cluster),
            lost_speed(cluster),
            waited / waiting if waiting > 0.0 else 0.0,
            attained / running if running > 0.0 else 0.0,
            small / waiting if waiting > 0.0 else 0.0,
            bounded(float(self.came_gpus) / total),
            bounded(float(self.came) / (running + 1.0)),
            bounded(ended / (running + 1.0)),
            mean,
            sqrt(square) if square > 0.0 else 0.0,
        ]


def _nothing() -> Policy:
    return Policy()


picklable(TuneChoices, [_nothing, _nothing])
