"""Which job comes next: the decisions of `OrderJobs-v0`, and of the policies learned there."""

from __future__ import annotations

from math import log2
from typing import Final

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.errors import InputError
from dally.model import RUNNING, Action, Allocation, Job, Preempt, Start
from dally.pickles import picklable
from dally.policies.choices.base import (
    KNOWS,
    Choices,
    bounded,
    is_settled,
    largest_domain,
    log_time,
    lost_speed,
    time_left,
)
from dally.policies.placement.best_fit import BestFit
from dally.policies.queue import Queue

COLUMNS: Final = (
    "waited", "size", "share", "attained", "left", "runs", "farther", "exchange", "place", "decline",
    "free", "running", "demand", "largest_domain", "unfitting", "lost_speed",
)  # fmt: skip
WIDTH: Final = len(COLUMNS)
JOB_COLUMNS_COUNT: Final = 10  # the others are the same in all rows


@mypyc_attr(allow_interpreted_subclasses=True)
class OrderChoices(Choices):
    """One job after the other is chosen to hold GPUs, at the closest tier with room.

    Shown are jobs that fit: the first and the last of the queue, half each, so that it does not go stale. With
    `preempt` running jobs are shown too, those that have computed longest: choosing one lets it go on, and what is
    not chosen may be preempted for what is. Declining ends the pass; it needs a job that runs, whose end leads
    to the next, and no running job among the rows: to keep these, one chooses them.
    """

    columns: tuple[str, ...] = COLUMNS

    def __init__(self, visible: i64 = 16, knows: str = "nothing", preempt: bool = False) -> None:
        if visible < 2:
            raise InputError(f"visible {int(visible)}: must be 2 or more")
        if knows not in KNOWS:
            raise InputError(f"knows {knows!r}: must be one of {', '.join(KNOWS)}")
        super().__init__(visible, WIDTH)
        self.knows: str = knows
        self.preempt: bool = preempt
        self._place: BestFit = BestFit()
        self._shown: list[Job] = []
        self._settled: list[Job] = []  # running jobs that this pass has not chosen
        self._chosen: list[Job] = []  # waiting jobs that need GPUs of others
        self._first: list[Job] = []  # waiting jobs that an operator has put first
        self._room: i64 = 0
        self._declined: bool = False

    def open(self, now: float, queue: Queue, cluster: Cluster) -> None:
        super().open(now, queue, cluster)
        self._declined = False
        self._chosen = []
        self._settled = []
        self._first = [job for job in self.waiting if job.prioritized]
        self._room = cluster.all_free()
        if self.preempt and len(self.waiting) > 0:
            settled = [job for job in cluster.running.values() if is_settled(job, now)]
            settled.sort(key=lambda job: (-job.done_s(now), int(job.index)))
            self._settled = settled[: int(self.visible) // 2]
            for job in self._settled:
                self._room += job.gpus

    def next(self) -> bool:
        if self._declined or len(self.waiting) == 0:
            return False
        shown = self._fitting(self.visible - len(self._settled))
        if not shown:
            return False
        self._shown = shown + self._settled
        self._write()
        return True

    def take(self, choice: i64) -> list[Action]:
        if choice >= len(self._shown):
            self._declined = True
            return []
        job = self._shown[choice]
        self._room -= job.gpus
        if job.status == RUNNING:
            self._settled.remove(job)
            return []
        cluster = self.cluster
        assert cluster is not None
        if not self.preempt or is_special(job):
            place = self._place.place(job, self.now, cluster)
            self._declined = place is None
            return [] if place is None else [Start(job, place)]
        self._chosen.append(job)
        return []

    def close(self) -> Action | None:
        """Preempt as many of those not chosen as the chosen need, the longest-computing first, and start these."""
        cluster = self.cluster
        assert cluster is not None
        missing: i64 = -cluster.all_free()
        for job in self._chosen:
            missing += job.gpus
        if missing > 0 and len(self._settled) > 0:
            return Preempt(self._settled.pop(0))
        while len(self._chosen) > 0:
            job = self._chosen.pop(0)
            place: Allocation | None = self._place.place(job, self.now, cluster)
            if place is not None:
                return Start(job, place)
        self._shown = []  # a job that is gone is kept by nobody
        self._settled = []
        self._first = []
        return None

    def _fitting(self, most: i64) -> list[Job]:
        """Waiting jobs that could hold GPUs now: the first in the queue and the last, half each.

        There is no choice while a job that an operator has put first could.
        """
        fits: dict[int, bool] = {}
        for job in self._first:
            if self._fits(job, fits):
                return [job]
        first: list[Job] = []
        last: list[Job] = []
        low: i64 = 0
        high: i64 = len(self.waiting) - 1
        while low <= high and len(first) + len(last) < most:
            if len(first) <= len(last):
                job = self.waiting[low]
                low += 1
                if self._fits(job, fits):
                    first.append(job)
            else:
                job = self.waiting[high]
                high -= 1
                if self._fits(job, fits):
                    last.append(job)
        last.reverse()
        return first + last

    def _fits(self, job: Job, known: dict[int, bool]) -> bool:
        """Whether the job could hold GPUs now; the answer is the same for all that ask for the same."""
        queue = self.queue
        cluster = self.cluster
        assert queue is not None
        assert cluster is not None
        if not queue.shows(job) or job.gpus > self._room or job in self._chosen:
            return False
        if self.preempt and not is_special(job):
            return True
        key = int(job.slot_class)
        fits = known.get(key)
        if fits is None:
            cluster.focus(job)
            fits = self._place.offered(cluster, job.gpus, job.group) >= 0
            known[key] = fits
        return fits

    def _write(self) -> None:
        """The rows and the mask of the decision."""
        cluster = self.cluster
        assert cluster is not None
        count: i64 = len(self._shown)
        common = self._common(cluster)
        rows = self.rows
        mask = self.mask
        total = float(cluster.topology.total_gpus())
        for place in range(self.visible + 1):
            at: i64 = place * WIDTH
            if place < count:
                self._write_job(self._shown[place], at, total, cluster)
                rows[at + 8] = float(place) / float(count)
                mask[place] = 1
            else:
                for column in range(JOB_COLUMNS_COUNT):
                    rows[at + column] = 0.0
                mask[place] = 0
            for column in range(len(common)):
                rows[at + JOB_COLUMNS_COUNT + column] = (
                    common[column] if place < count or place == self.visible else 0.0
                )
        rows[self.visible * WIDTH + 9] = 1.0
        # A row is scored by itself, so declining cannot be weighed against the running jobs that it would keep.
        mask[self.visible] = 1 if len(cluster.running) > 0 and len(self._settled) == 0 else 0

    def _write_job(self, job: Job, at: i64, total: float, cluster: Cluster) -> None:
        rows = self.rows
        now = self.now
        size = float(job.gpus)
        runs = job.status == RUNNING
        rows[at] = 0.0 if runs else log_time(now - job.lost_s)
        rows[at + 1] = log2(size) / log2(total) if total > 1.0 else 0.0
        rows[at + 2] = size / total
        rows[at + 3] = log_time(job.done_s(now))
        rows[at + 4] = time_left(job, self.knows, now)
        rows[at + 5] = 1.0 if runs else 0.0
        rows[at + 6] = 0.0
        if not runs and cluster.root > 0:
            cluster.focus(job)
            offered = self._place.offered(cluster, job.gpus, job.group)
            if offered < 0:
                offered = cluster.root
            rows[at + 6] = float(offered - cluster.closest_tier(job)) / float(cluster.root)
        rows[at + 7] = self.intensity(job)
        rows[at + 9] = 0.0

    def _common(self, cluster: Cluster) -> list[float]:
        """What is the same for all candidates: the state of cluster, queue and network."""
        total = float(cluster.topology.total_gpus())
        running = float(len(cluster.running))
        waiting = float(len(self.waiting))
        cluster.focus(None)
        largest = largest_domain(cluster)
        shown: i64 = 0
        for job in self._shown:
            if job.status != RUNNING:
                shown += job.gpus
        return [
            float(cluster.all_free()) / total,
            running / (running + waiting),
            bounded(float(self.waiting_gpus) / total),
            largest,
            bounded(float(self.waiting_gpus - shown) / total),
            lost_speed(cluster),
        ]


picklable(OrderChoices)


def is_special(job: Job) -> bool:
    """Whether enough free GPUs need not be a place for the job."""
    return job.group > 1 or job.signature > 0
