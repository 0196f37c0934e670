"""Where a job goes: the decisions of `PlaceJobs-v0`, and of the policies learned there."""

from __future__ import annotations

from math import log2
from typing import Final

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.errors import InputError
from dally.model import Action, Allocation, Job, Start
from dally.pickles import picklable
from dally.policies.choices.base import Choices, bounded, log_time, lost_speed
from dally.policies.placement.best_fit import best_fit, fit_into

PLACE_COLUMNS: Final = (
    "tier", "farther", "machines", "free_after", "slowdown", "inflicted", "exact", "size", "waited", "decline",
    "exchange", "free", "demand", "lost_speed",
)  # fmt: skip
PLACE_WIDTH: Final = len(PLACE_COLUMNS)
OWN_COLUMNS: Final = 10  # of the candidate; the others are the same in all rows


@mypyc_attr(allow_interpreted_subclasses=True)
class PlaceChoices(Choices):
    """The first job of the queue is shown domains with room: up to `per_tier` of each tier, the fullest first.

    Declining closes the queue for jobs that ask for the same until the next event; it needs a job that runs.
    """

    columns: tuple[str, ...] = PLACE_COLUMNS

    def __init__(self, visible: i64 = 8, per_tier: i64 = 3) -> None:
        if visible < 2 or per_tier < 1:
            raise InputError(f"visible {int(visible)}, per_tier {int(per_tier)}: must be 2 and 1 or more")
        super().__init__(visible, PLACE_WIDTH)
        self.per_tier: i64 = per_tier
        self._job: Job | None = None
        self._places: list[Allocation] = []

    def next(self) -> bool:
        queue = self.queue
        cluster = self.cluster
        assert queue is not None
        assert cluster is not None
        while True:
            job = queue.best(float(cluster.all_free()))
            if job is None:
                return False
            self._places = self._candidates(job, cluster)
            if self._places:
                self._job = job
                self._write(job, cluster)
                return True
            queue.close(job)

    def take(self, choice: i64) -> list[Action]:
        job = self._job
        queue = self.queue
        assert job is not None
        assert queue is not None
        if choice < len(self._places):
            return [Start(job, self._places[choice])]
        queue.close(job)
        return []

    def close(self) -> Action | None:
        self._job = None  # a job that is gone is kept by nobody
        return None

    def _candidates(self, job: Job, cluster: Cluster) -> list[Allocation]:
        """Places for the job, closest tier first; no two on the same machines."""
        cluster.focus(job)
        places: list[Allocation] = []
        for tier in range(cluster.root + 1):
            if job.group > 1 and tier > 0 and not cluster.in_groups:
                grouped = best_fit(cluster, tier, job.gpus, job.group)
                if grouped is not None:
                    add_place(places, grouped, self.visible)
                continue
            for domain in cluster.fullest(tier, job.gpus, self.per_tier):
                add_place(places, fit_into(cluster, tier, domain, job.gpus), self.visible)
        return places

    def _write(self, job: Job, cluster: Cluster) -> None:
        rows = self.rows
        mask = self.mask
        count: i64 = len(self._places)
        total = float(cluster.topology.total_gpus())
        size = float(job.gpus)
        common = [
            self.intensity(job),
            float(cluster.all_free()) / total,
            bounded(float(self.waiting_gpus) / total),
            lost_speed(cluster),
        ]
        for place in range(self.visible + 1):
            at: i64 = place * PLACE_WIDTH
            is_row = place < count or place == self.visible
            for column in range(PLACE_WIDTH):
                rows[at + column] = 0.0
            if place < count:
                self._write_place(job, self._places[place], at, cluster)
            if is_row:
                rows[at + 7] = log2(size) / log2(total) if total > 1.0 else 0.0
                rows[at + 8] = log_time(self.now - job.lost_s)
                for column in range(len(common)):
                    rows[at + OWN_COLUMNS + column] = common[column]
            mask[place] = 1 if place < count else 0
        rows[self.visible * PLACE_WIDTH + 9] = 1.0
        mask[self.visible] = 1 if len(cluster.running) > 0 else 0

    def _write_place(self, job: Job, allocation: Allocation, at: i64, cluster: Cluster) -> None:
        rows = self.rows
        view = self.view
        assert view is not None
        tier = cluster.topology.tier_of(allocation)
        root = float(cluster.root) if cluster.root > 0 else 1.0
        own, inflicted = view.slowdown(job, allocation)
        left: i64 = 0
        for machine in allocation.machines:
            left += cluster.free_on(machine)
        parts = float(len(allocation.machines))
        rows[at] = float(tier) / root
        rows[at + 1] = float(tier - cluster.closest_tier(job)) / root
        rows[at + 2] = bounded(parts - 1.0)
        rows[at + 3] = bounded(float(left - job.gpus) / float(job.gpus))
        rows[at + 4] = 1.0 - 1.0 / own if own > 1.0 else 0.0
        rows[at + 5] = bounded(inflicted)
        rows[at + 6] = 1.0 if left == job.gpus else 0.0


picklable(PlaceChoices)


def add_place(places: list[Allocation], allocation: Allocation, most: i64) -> None:
    """Add it unless there are enough, or one on the same machines."""
    if len(places) >= most:
        return
    for other in places:
        if other.parts() == allocation.parts():
            return
    places.append(allocation)
