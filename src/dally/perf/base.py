"""The interface between the engine and a model of speed, and the model that knows no network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mypy_extensions import i64, mypyc_attr

from dally.errors import InputError
from dally.model import Allocation, Job, Profile
from dally.sizes import rate_here


class Speed:
    """A running job's speed from now on."""

    __slots__ = ("comm_rate", "job", "rate")

    def __init__(self, job: Job, rate: float, comm_rate: float) -> None:
        self.job = job
        self.rate = rate  # seconds of work (of the job's duration_s) per second
        self.comm_rate = comm_rate  # share of the time that is exposed communication


class LinkLoad:
    """The share of time that a link is busy with our jobs, from now on."""

    __slots__ = ("link", "load")

    def __init__(self, link: i64, load: float) -> None:
        self.link: i64 = link
        self.load: float = load


@mypyc_attr(allow_interpreted_subclasses=True)
class SpeedModel:
    """Says whose speed changes when a gang is placed or removed. A job starts at speed 1.

    This base is the model `none`: a job takes exactly its `duration_s` anywhere.
    """

    profiles: Callable[[str, int], Profile] | None = None  # of (model, GPUs)

    def anew(self, sharing: str) -> SpeedModel:
        """The same model with nobody placed, for jobs that share links in the way of that name."""
        result = SpeedModel()
        result.profiles = self.profiles
        return result

    def for_type(self, gpu_type: str) -> SpeedModel:
        """What policies may ask, of places on GPUs of that type alone."""
        return self

    def placed(self, job: Job) -> list[Speed]:
        """The gang was placed on `job.allocation`: the new speeds, its own among them if not 1."""
        return [] if job.gpus == job.requested else [Speed(job, self.speedup(job, job.gpus), 0.0)]

    def removed(self, job: Job) -> list[Speed]:
        """The gang left `job.allocation`: the new speeds of those who shared links with it."""
        return []

    def forget(self, job: Job) -> None:
        """The job will not come back."""

    def measured(self, job: Job, step_s: float) -> list[Speed]:
        """The running job takes so many seconds for a step: the speeds that this changes, as far as is known."""
        return []

    def model_of(self, job: Job) -> str:
        """What the job is taken to train."""
        return job.model

    def origin_of(self, job: Job) -> str:
        """How that is known; empty: the job's user says so, or nothing is learnt."""
        return ""

    def saved(self) -> dict[str, Any]:
        """What it has learnt, as plain values; empty: it does not learn."""
        return {}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on with what `saved` gave."""

    def rescaled(self, share: float) -> list[Speed]:
        """Every link above the machine has that share of its bandwidth from now on: the new speeds."""
        return []

    def slowed(self, machine: i64, factor: float, jobs: list[Job]) -> list[Speed]:
        """Computing takes `factor` times as long on the machine, where these jobs run: the new speeds."""
        return []

    def narrowed(self, link: i64, share: float) -> list[Speed]:
        """The link has that share of its bandwidth from now on: the new speeds."""
        return []

    def slow_factor(self, machine: i64) -> float:
        """How many times as long computing takes on the machine now."""
        return 1.0

    def link_share(self, link: i64) -> float:
        """The share of its bandwidth that the link has now."""
        return 1.0

    def link_shares(self, job: Job) -> list[tuple[int, float]]:
        """Links that a running job uses, and by what share of its step it is longer if one takes twice as long."""
        return []

    def link_loads(self) -> list[LinkLoad]:
        """Links whose load changed since this was last asked."""
        return []

    def link_name(self, link: i64) -> str:
        """What a link is called."""
        return ""

    def closest_s(self, job: Job, compute_s: float) -> float:
        """`duration_s` of a job of which only the compute time is known."""
        return compute_s

    def speedup(self, job: Job, gpus: i64) -> float:
        """Its speed on so many GPUs against that on those it asks for, at the closest placement of each.

        Where nothing is known of its model, twice the GPUs are twice as fast.
        """
        return float(gpus) / float(job.requested)

    # What policies may ask (policies/view.py).

    def best(self, job: Job) -> float:
        """The slowdown alone at the closest placement, beside the background load."""
        return 1.0

    def best_at(self, job: Job, gpus: i64) -> float:
        """The same at another of its sizes, against the closest placement of that size."""
        return 1.0

    def alone(self, job: Job, allocation: Allocation) -> float:
        """The slowdown alone at that placement, beside the background load."""
        return 1.0

    def slowdown(self, job: Job, allocation: Allocation) -> tuple[float, float]:
        """(own, inflicted) if the job sat there; nothing changes by asking."""
        return 1.0, 0.0

    def slowdown_now(self, job: Job) -> float:
        """The slowdown of a running job where it sits, as things are."""
        return 1.0 / rate_here(job)

    def profile(self, job: Job) -> Profile | None:
        """The profile of the job's model at its size, or None."""
        if self.profiles is None or not job.model:
            return None
        try:
            return self.profiles(job.model, int(job.gpus))
        except InputError:
            return None

    def least_slowdown(self, job: Job) -> float:
        """How many times its `duration_s` the job needs at least, wherever it is placed; 1 or more."""
        return 1.0

    def comm_floor_at_s(self, job: Job, gpus: i64, work_s: float) -> float:
        """The same for so much of its work, done on so many GPUs."""
        return 0.0

    def comm_floor_s(self, job: Job) -> float:
        """Exposed communication the job cannot avoid: alone, at its best placement, in seconds."""
        return 0.0
