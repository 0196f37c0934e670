"""Machines and links that are slow without the scheduler's knowledge: real speeds beside those to be expected."""

from __future__ import annotations

from mypy_extensions import i64

from dally.model import Allocation, Job, Profile
from dally.perf.base import LinkLoad, Speed, SpeedModel


class HiddenFaults(SpeedModel):
    """Jobs run as fast as `real` says; policies ask `expected`, in which everything is sound.

    What a policy is told of a place counts machines under suspicion as `believed`: how many times as long they
    compute. Nobody but the engine reads the real speeds.
    """

    def __init__(self, expected: SpeedModel, real: SpeedModel) -> None:
        self.expected: SpeedModel = expected
        self.real: SpeedModel = real
        self.profiles = expected.profiles
        self.believed: dict[int, float] = {}  # by machine
        self.rates: dict[int, tuple[float, float]] = {}  # rate and share of communication to expect, by job

    def __reduce__(self) -> tuple[object, ...]:
        return (HiddenFaults, (self.expected, self.real), {"believed": self.believed, "rates": self.rates})

    def __setstate__(self, state: dict[str, dict[int, float]]) -> None:
        for name, value in state.items():
            setattr(self, name, value)

    def anew(self, sharing: str) -> SpeedModel:
        result = HiddenFaults(self.expected.anew(sharing), self.real.anew(sharing))
        result.believed = dict(self.believed)
        return result

    def for_type(self, gpu_type: str) -> SpeedModel:
        return self.expected.for_type(gpu_type)

    def expected_rate(self, job: Job) -> tuple[float, float]:
        """The rate at which a running job should work at its place beside the others, and its `comm_rate`."""
        return self.rates.get(int(job.index), (1.0, 0.0))

    def placed(self, job: Job) -> list[Speed]:
        self._note(self.expected.placed(job))
        return self.real.placed(job)

    def removed(self, job: Job) -> list[Speed]:
        self._note(self.expected.removed(job))
        self.rates.pop(int(job.index), None)
        return self.real.removed(job)

    def rescaled(self, share: float) -> list[Speed]:
        self._note(self.expected.rescaled(share))
        return self.real.rescaled(share)

    def _note(self, speeds: list[Speed]) -> None:
        for speed in speeds:
            self.rates[int(speed.job.index)] = (speed.rate, speed.comm_rate)

    def slowed(self, machine: i64, factor: float, jobs: list[Job]) -> list[Speed]:
        return self.real.slowed(machine, factor, jobs)

    def narrowed(self, link: i64, share: float) -> list[Speed]:
        return self.real.narrowed(link, share)

    def slow_factor(self, machine: i64) -> float:
        return self.real.slow_factor(machine)

    def link_share(self, link: i64) -> float:
        return self.real.link_share(link)

    def link_shares(self, job: Job) -> list[tuple[int, float]]:
        return self.expected.link_shares(job)

    def link_loads(self) -> list[LinkLoad]:
        return self.real.link_loads()

    def link_name(self, link: i64) -> str:
        return self.expected.link_name(link)

    def closest_s(self, job: Job, compute_s: float) -> float:
        return self.expected.closest_s(job, compute_s)

    # What policies may ask.

    def slowdown_now(self, job: Job) -> float:
        assert job.allocation is not None
        account = job.size_account
        rate = self.rates.get(int(job.index), (1.0 if account is None else account.speedup, 0.0))[0]
        return self._believed(job.allocation) / (rate if account is None else rate / account.speedup)

    def speedup(self, job: Job, gpus: i64) -> float:
        return self.expected.speedup(job, gpus)

    def best(self, job: Job) -> float:
        return self.expected.best(job)

    def best_at(self, job: Job, gpus: i64) -> float:
        return self.expected.best_at(job, gpus)

    def alone(self, job: Job, allocation: Allocation) -> float:
        return self.expected.alone(job, allocation) * self._believed(allocation)

    def slowdown(self, job: Job, allocation: Allocation) -> tuple[float, float]:
        own, inflicted = self.expected.slowdown(job, allocation)
        return own * self._believed(allocation), inflicted

    def _believed(self, allocation: Allocation) -> float:
        """How many times as long the slowest member computes, as far as is believed."""
        slowest = 1.0
        if self.believed:
            for machine in allocation.machines:
                factor = self.believed.get(int(machine), 1.0)
                if factor > slowest:
                    slowest = factor
        return slowest

    def profile(self, job: Job) -> Profile | None:
        return self.expected.profile(job)

    def least_slowdown(self, job: Job) -> float:
        return self.expected.least_slowdown(job)

    def comm_floor_s(self, job: Job) -> float:
        return self.expected.comm_floor_s(job)

    def comm_floor_at_s(self, job: Job, gpus: i64, work_s: float) -> float:
        return self.expected.comm_floor_at_s(job, gpus, work_s)
