"""What a policy may ask of the world beyond queue and cluster: speeds, costs, profiles."""

from __future__ import annotations

from math import floor

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.cluster.feasibility.signatures import Signatures
from dally.model import Allocation, Costs, Job, Profile
from dally.perf.base import SpeedModel
from dally.pickles import picklable


@mypyc_attr(allow_interpreted_subclasses=True)
class View:
    """Handed to the policy once, in `begin`. Asking changes nothing.

    Slowdowns are against the job alone at its closest placement on a quiet network: `1 / rate`.
    """

    __slots__ = ("_best", "_checkpoint_every_s", "_empty", "_restart_per_gpu_s", "_restart_s", "_speed")

    def __init__(self, speed: SpeedModel, costs: Costs) -> None:
        self._speed: SpeedModel = speed
        self._restart_s: float = costs.restart_s
        self._restart_per_gpu_s: float = costs.restart_per_gpu_s
        self._checkpoint_every_s: float = costs.checkpoint_every_s
        self._empty: list[Cluster] = []  # where jobs have constraints, the cluster with no job on it
        self._best: dict[tuple[int, int, str], float] = {}  # there, by signature, GPUs and model

    def constrain(self, cluster: Cluster, signatures: Signatures) -> None:
        """Jobs have constraints: the closest placement is another one for each signature."""
        empty = Cluster(cluster.topology, cluster.network)
        empty.constrain(signatures)
        self._empty.append(empty)

    def for_type(self, gpu_type: str) -> View:
        """The same for a policy that has GPUs of that type alone."""
        costs = Costs(self._restart_s, self._restart_per_gpu_s, self._checkpoint_every_s)
        view = View(self._speed.for_type(gpu_type), costs)
        view._empty = self._empty
        return view

    def best(self, job: Job) -> float:
        """The least slowdown to hope for: alone at its closest placement, beside the background load."""
        if job.signature > 0 and len(self._empty) > 0:
            return self._best_of(job)
        return self._speed.best(job)

    def best_at(self, job: Job, gpus: i64) -> float:
        """The same on another number of GPUs, against the closest placement of so many."""
        return self._speed.best_at(job, gpus)

    def speedup(self, job: Job, gpus: i64) -> float:
        """Its speed on so many GPUs against that on those it asks for, at the closest placement of each."""
        return self._speed.speedup(job, gpus)

    def resize_s(self, job: Job, gpus: i64) -> float:
        """Seconds it takes the job to go on with so many GPUs instead of those it has."""
        stated_s = None if job.size_account is None else job.size_account.resize_s
        return self._restart_s + self._restart_per_gpu_s * float(gpus) if stated_s is None else stated_s

    def _best_of(self, job: Job) -> float:
        """The same for a job with constraints: where it may be, in its shape."""
        key = (int(job.signature), int(job.gpus), self._speed.model_of(job))
        best = self._best.get(key)
        if best is None:
            from dally.policies.placement.best_fit import closest_place  # which imports this module

            place = closest_place(job, self._empty[0])
            best = self._speed.best(job) if place is None else self._speed.alone(job, place)
            self._best[key] = best
        return best

    def slowdown(self, job: Job, allocation: Allocation) -> tuple[float, float]:
        """(own, inflicted): the job's slowdown there under today's loads, and what it adds to others' slowdowns.

        Those count by their GPUs ÷ the job's, and never come to less than 0. A running job's own load is taken off
        its links first. One step: how others would adapt in turn is left out.
        """
        return self._speed.slowdown(job, allocation)

    def slowdown_now(self, job: Job) -> float:
        """The slowdown of a running job where it sits."""
        return self._speed.slowdown_now(job)

    def restart_s(self, job: Job) -> float:
        """Seconds it takes the gang to work again after it lost its GPUs."""
        return self._restart_s + self._restart_per_gpu_s * float(job.gpus)

    def at_risk_s(self, job: Job, now: float) -> float:
        """Seconds of work that a failure would undo now; 0 where failures undo nothing."""
        if job.unsaved:
            return job.done_s(now) - job.saved_work_s
        every_s = job.checkpoints_s(self._checkpoint_every_s)
        if every_s <= 0.0:
            return 0.0
        since_s = job.done_s(now) - job.saved_work_s
        return since_s - float(floor(since_s / every_s)) * every_s

    def profile(self, job: Job) -> Profile | None:
        """How the job's model computes and communicates; None where that is not known."""
        return self._speed.profile(job)

    def queue_of(self, job: Job) -> str:
        """The name of the queue it was submitted to."""
        return ""


picklable(View, SpeedModel(), Costs())
