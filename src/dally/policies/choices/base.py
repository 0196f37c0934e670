"""What a decision is to a learner: candidates as rows of numbers, one of which is chosen."""

from __future__ import annotations

from math import log1p
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import NEVER, RUNNING, Action, Job
from dally.pickles import picklable
from dally.policies.queue import Queue
from dally.policies.view import View

LOG_WEEK: Final = log1p(604800.0)
KNOWS: Final = ("nothing", "limits", "durations")
LINK_BYTES_PER_S: Final = 12.5e9  # of 100 Gb/s: what a gradient exchange is measured by


@mypyc_attr(allow_interpreted_subclasses=True)
class Choices:
    """The decisions of one pass, one after the other: `open`, then `next` and `take` until no more, then `close`.

    A row for each candidate, and a last one for declining: `rows` has `visible + 1` of them, `width` numbers each,
    and `mask` says which may be chosen. The same class feeds a learner (dally.gym) and the policy that was learned.
    """

    columns: tuple[str, ...] = ()  # what the numbers of a row are

    def __init__(self, visible: i64, width: i64) -> None:
        self.visible: i64 = visible
        self.width: i64 = width
        self.rows: vec[float] = vec[float]([0.0] * int((visible + 1) * width))
        self.mask: vec[i64] = vec[i64]([0] * int(visible + 1))
        self.forced: bool = False  # whether the decision at hand is none: its first row is taken
        self.view: View | None = None
        self.queue: Queue | None = None
        self.cluster: Cluster | None = None
        self.now: float = 0.0
        self.waiting: list[Job] = []  # in the order in which they began to wait
        self.waiting_gpus: i64 = 0
        self._intensity: dict[tuple[str, int], float] = {}

    def begin(self, view: View) -> None:
        """A run begins."""
        self.view = view

    def open(self, now: float, queue: Queue, cluster: Cluster) -> None:
        """A pass begins."""
        self.now = now
        self.queue = queue
        self.cluster = cluster

    def next(self) -> bool:
        """Write down the next decision; False: the pass has no more."""
        raise NotImplementedError

    def take(self, choice: i64) -> list[Action]:
        """What choosing that row leads to at once."""
        raise NotImplementedError

    def close(self) -> Action | None:
        """The next of what the whole pass leads to in the end; None: no more."""
        return None

    def queued(self, job: Job) -> None:
        """The job waits."""
        self.waiting.append(job)
        self.waiting_gpus += job.gpus

    def left(self, job: Job) -> None:
        """The job no longer waits, whatever the reason."""
        if job in self.waiting:
            self.waiting.remove(job)
            self.waiting_gpus -= job.gpus

    def intensity(self, job: Job) -> float:
        """Seconds of its gradient exchange at 100 Gb/s against those of compute, from 0 to 1."""
        key = (job.model, int(job.gpus))
        share = self._intensity.get(key)
        if share is None:
            share = 0.0
            profile = self.view.profile(job) if self.view is not None else None
            if profile is not None and profile.compute_s() > 0.0:
                share = bounded(profile.nbytes / LINK_BYTES_PER_S / profile.compute_s())
            self._intensity[key] = share
        return share


picklable(Choices, 1, 1)


def bounded(value: float) -> float:
    """A number from 0 up, squeezed below 1."""
    return value / (1.0 + value)


def log_time(seconds: float) -> float:
    """Seconds on a scale where a week is 1."""
    return log1p(seconds) / LOG_WEEK if seconds > 0.0 else 0.0


def time_left(job: Job, knows: str, now: float) -> float:
    """What is known of the time that the job still needs, as `log_time`; 0: nothing."""
    if knows == "durations":
        return log_time(job.remaining_s(now))
    if knows == "limits" and job.limit_s != NEVER:
        return log_time(job.limit_s - job.run_s(now))
    return 0.0


def largest_domain(cluster: Cluster) -> float:
    """Free GPUs of the emptiest domain below the root ÷ GPUs, whatever jobs may use."""
    if cluster.root == 0:
        return 1.0
    top = cluster.children[cluster.root][0]
    return float(top.free[top.emptiest()]) / float(cluster.topology.total_gpus())


def lost_speed(cluster: Cluster) -> float:
    """The share of running gangs' GPU time that the network takes now."""
    gpus = 0.0
    lost = 0.0
    for job in cluster.running.values():
        gpus += float(job.gpus)
        lost += float(job.gpus) * (1.0 - job.rate)
    return lost / gpus if gpus > 0.0 else 0.0


def is_settled(job: Job, now: float) -> bool:
    """Whether the job runs and may be preempted without wasting a restart that is under way."""
    return job.status == RUNNING and job.since_s <= now and not job.non_preemptible and not job.prioritized
