"""Speeds where nothing is known of the network: a gang computes as fast as its slowest machine."""

from __future__ import annotations

from collections.abc import Callable

from mypy_extensions import i64

from dally.model import Job, Profile
from dally.perf.base import Speed, SpeedModel


class SlowMachines(SpeedModel):
    """The model `none` on a cluster whose machines may be slow."""

    def __init__(
        self,
        factors: dict[int, float] | None = None,
        profiles: Callable[[str, int], Profile] | None = None,
    ) -> None:
        self.profiles = profiles
        self._factors: dict[int, float] = dict(factors or {})  # of machines that are slow

    def __reduce__(self) -> tuple[object, ...]:
        return (SlowMachines, (self._factors, self.profiles))

    def anew(self, sharing: str) -> SpeedModel:
        return SlowMachines(self._factors, self.profiles)

    def placed(self, job: Job) -> list[Speed]:
        speed = self._speed(job)
        return [speed] if speed.rate != 1.0 else []

    def slowed(self, machine: i64, factor: float, jobs: list[Job]) -> list[Speed]:
        self._factors[int(machine)] = factor
        if factor == 1.0:
            del self._factors[int(machine)]
        return [self._speed(job) for job in jobs]

    def slow_factor(self, machine: i64) -> float:
        return self._factors.get(int(machine), 1.0)

    def _speed(self, job: Job) -> Speed:
        allocation = job.allocation
        assert allocation is not None
        slowest = 1.0
        for machine in allocation.machines:
            factor = self._factors.get(int(machine), 1.0)
            if factor > slowest:
                slowest = factor
        return Speed(job, self.speedup(job, job.gpus) / slowest, 0.0)
