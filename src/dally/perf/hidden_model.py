"""A simulation in which the engine knows what jobs train, and the policy what it can find out."""

from __future__ import annotations

from typing import Any

from mypy_extensions import i64

from dally.errors import InputError
from dally.model import Allocation, Job, Profile
from dally.perf.base import LinkLoad, Speed, SpeedModel
from dally.perf.measured_model import MeasuredModel
from dally.perf.network_model import NetworkModel


class HiddenModel(SpeedModel):
    """Speeds as they are for the engine, and as they are believed to be for the policy."""

    def __init__(self, true: SpeedModel, believed: MeasuredModel) -> None:
        self.true: SpeedModel = true
        self.believed: MeasuredModel = believed
        self.profiles = true.profiles

    def __reduce__(self) -> tuple[object, ...]:
        return (HiddenModel, (self.true, self.believed))

    def anew(self, sharing: str) -> SpeedModel:
        believed: Any = self.believed.anew(sharing)
        return HiddenModel(self.true.anew(sharing), believed)

    # What is.

    def placed(self, job: Job) -> list[Speed]:
        self.believed.placed(job)
        return self.true.placed(job)

    def removed(self, job: Job) -> list[Speed]:
        self.believed.removed(job)
        return self.true.removed(job)

    def forget(self, job: Job) -> None:
        self.believed.forget(job)

    def rescaled(self, share: float) -> list[Speed]:
        self.believed.rescaled(share)
        return self.true.rescaled(share)

    def slowed(self, machine: i64, factor: float, jobs: list[Job]) -> list[Speed]:
        self.believed.slowed(machine, factor, jobs)
        return self.true.slowed(machine, factor, jobs)

    def narrowed(self, link: i64, share: float) -> list[Speed]:
        self.believed.narrowed(link, share)
        return self.true.narrowed(link, share)

    def slow_factor(self, machine: i64) -> float:
        return self.true.slow_factor(machine)

    def link_share(self, link: i64) -> float:
        return self.true.link_share(link)

    def link_shares(self, job: Job) -> list[tuple[int, float]]:
        return self.true.link_shares(job)

    def link_loads(self) -> list[LinkLoad]:
        return self.true.link_loads()

    def link_name(self, link: i64) -> str:
        return self.true.link_name(link)

    def closest_s(self, job: Job, compute_s: float) -> float:
        return self.true.closest_s(job, compute_s)

    def least_slowdown(self, job: Job) -> float:
        return self.true.least_slowdown(job)

    def comm_floor_s(self, job: Job) -> float:
        return self.true.comm_floor_s(job)

    def comm_floor_at_s(self, job: Job, gpus: i64, work_s: float) -> float:
        return self.true.comm_floor_at_s(job, gpus, work_s)

    def speedup(self, job: Job, gpus: i64) -> float:
        return self.true.speedup(job, gpus)

    # What the policy is told.

    def measured(self, job: Job, step_s: float) -> list[Speed]:
        if not self.believed.measured(job, step_s):
            return []
        return [Speed(job, job.rate, job.comm_rate)]  # as it was; the policy has to look at it again

    def model_of(self, job: Job) -> str:
        return self.believed.model_of(job)

    def origin_of(self, job: Job) -> str:
        return self.believed.origin_of(job)

    def slowdown_now(self, job: Job) -> float:
        return self.believed.slowdown_now(job)

    def best(self, job: Job) -> float:
        return self.believed.best(job)

    def best_at(self, job: Job, gpus: i64) -> float:
        return self.believed.best_at(job, gpus)

    def alone(self, job: Job, allocation: Allocation) -> float:
        return self.believed.alone(job, allocation)

    def slowdown(self, job: Job, allocation: Allocation) -> tuple[float, float]:
        return self.believed.slowdown(job, allocation)

    def profile(self, job: Job) -> Profile | None:
        return self.believed.profile(job)


def hide(true: SpeedModel, models: list[str], usual: str) -> SpeedModel:
    """The same for a policy that does not know what jobs train, and takes them all for `usual` if that is given."""
    if not isinstance(true, NetworkModel):
        raise InputError("--sensitivity: it needs a network, and GPUs of one type: others are not modelled")
    assert true.profiles is not None
    whole, quiet, share = true.networks()
    believed = MeasuredModel(whole, quiet, true.profiles, true.sharing(), share, models, usual, True)
    return HiddenModel(true, believed)
