"""Types of GPU: how much slower a job computes on one than on the fastest that it accepts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mypy_extensions import i64

from dally.errors import InputError
from dally.model import Allocation, Job, Profile
from dally.perf.base import LinkLoad, Speed, SpeedModel
from dally.perf.catalogue import Catalogue
from dally.perf.profiles import find_profile, shipped

MIX = "+"  # joins types that one gang may mix: A100+V100
OR = "|"  # separates types of which a job accepts any


def accepted(job: Job, types: Sequence[str]) -> list[str]:
    """Of the cluster's types those that the job accepts, also several to mix; all of them if it names none."""
    if not job.gpu_type:
        return list(types)
    return [name for name in job.gpu_type.split(OR) if name in types or (MIX in name and _all_in(name, types))]


def _all_in(mixed: str, types: Sequence[str]) -> bool:
    return all(name in types for name in mixed.split(MIX))


class TypeSpeeds:
    """Seconds of compute of a step by model and type, in any unit: from profiles, else from stated speeds."""

    def __init__(self, types: Sequence[str], stated: dict[str, float], catalogue: Catalogue | None = None) -> None:
        self.types = list(types)
        self._stated = {name.lower(): speed for name, speed in stated.items()}
        self._catalogue = catalogue or shipped()
        self._known: dict[tuple[str, str], float] = {}

    def unknown(self) -> list[str]:
        """Types of which no speed is known: taken for as fast as an A100."""
        return [name for name in self.types if name.lower() not in self._stated and not self._listed(name)]

    def step_s(self, model: str, name: str) -> float:
        """Against an A100, for models of which nothing is known."""
        result = self._known.get((model, name))
        if result is None:
            result = max(self._one_s(model, part) for part in name.split(MIX))
            self._known[model, name] = result
        return result

    def _one_s(self, model: str, name: str) -> float:
        if name.lower() in self._stated:
            return 1.0 / self._stated[name.lower()]
        gpu = self._listed(name)
        if not gpu:
            return 1.0
        try:
            on_a100 = find_profile(model, "a100", catalogue=self._catalogue).compute_s
            return find_profile(model, gpu, catalogue=self._catalogue).compute_s / on_a100
        except InputError:
            return 1.0 / self._catalogue.gpus[gpu].speed["vision"]["amp"]

    def _listed(self, name: str) -> str:
        """The catalogue's name of a type, as `a100` of NVIDIA-A100-SXM4-80GB; empty if it has none."""
        result = [gpu for gpu in self._catalogue.gpus if gpu in name.lower()]
        return max(result, key=len) if result else ""

    def factor(self, job: Job, name: str) -> float:
        """The speed of the job's computation there, against the fastest type that it accepts; at most 1."""
        fastest_s = min((self.step_s(job.model, other) for other in accepted(job, self.types)), default=1.0)
        return min(1.0, fastest_s / self.step_s(job.model, name))


class TypedSpeed(SpeedModel):
    """Another model's speeds on GPUs of several types: computing takes longer on slower ones, exchanges do not.

    A job's duration is that on the fastest type it accepts. What a slower type hides of an exchange is left out.
    """

    def __init__(self, inner: SpeedModel, machine_types: list[str], speeds: TypeSpeeds) -> None:
        self.inner = inner
        self.speeds = speeds
        self.profiles = inner.profiles
        self._machine_types = machine_types

    # What mypyc keeps for a pickle are the attributes of the compiled base alone.
    def __reduce__(self) -> tuple[object, ...]:
        return (TypedSpeed, (self.inner, self._machine_types, self.speeds))

    def anew(self, sharing: str) -> SpeedModel:
        return TypedSpeed(self.inner.anew(sharing), self._machine_types, self.speeds)

    def type_of(self, allocation: Allocation) -> str:
        """The type of its GPUs; several joined."""
        return MIX.join(dict.fromkeys(self._machine_types[machine] for machine, _ in allocation.parts()))

    def for_type(self, gpu_type: str) -> SpeedModel:
        return OnOneType(self, gpu_type)

    def placed(self, job: Job) -> list[Speed]:
        result = [self._typed(speed) for speed in self.inner.placed(job)]
        if not any(speed.job is job for speed in result):
            result.append(self._typed(Speed(job, 1.0, 0.0)))
        return result

    def removed(self, job: Job) -> list[Speed]:
        return [self._typed(speed) for speed in self.inner.removed(job)]

    def rescaled(self, share: float) -> list[Speed]:
        return [self._typed(speed) for speed in self.inner.rescaled(share)]

    def slowed(self, machine: i64, factor: float, jobs: list[Job]) -> list[Speed]:
        return [self._typed(speed) for speed in self.inner.slowed(machine, factor, jobs)]

    def narrowed(self, link: i64, share: float) -> list[Speed]:
        return [self._typed(speed) for speed in self.inner.narrowed(link, share)]

    def slow_factor(self, machine: i64) -> float:
        return self.inner.slow_factor(machine)

    def link_share(self, link: i64) -> float:
        return self.inner.link_share(link)

    def link_shares(self, job: Job) -> list[tuple[int, float]]:
        return self.inner.link_shares(job)

    def forget(self, job: Job) -> None:
        self.inner.forget(job)

    def measured(self, job: Job, step_s: float) -> list[Speed]:
        if job.allocation is None:
            return []
        factor = self.speeds.factor(job, self.type_of(job.allocation))  # as if on the fastest type
        return [self._typed(speed) for speed in self.inner.measured(job, step_s * factor)]

    def model_of(self, job: Job) -> str:
        return self.inner.model_of(job)

    def saved(self) -> dict[str, Any]:
        return self.inner.saved()

    def restore(self, saved: dict[str, Any]) -> None:
        self.inner.restore(saved)

    def _typed(self, speed: Speed) -> Speed:
        """With its compute stretched: of an iteration, `comm_rate` is exchange and the rest computing."""
        assert speed.job.allocation is not None
        factor = self.speeds.factor(speed.job, self.type_of(speed.job.allocation))
        whole = 1.0 - speed.comm_rate + speed.comm_rate * factor
        return Speed(speed.job, speed.rate * factor / whole, speed.comm_rate * factor / whole)

    def link_loads(self) -> list[LinkLoad]:
        return self.inner.link_loads()

    def link_name(self, link: i64) -> str:
        return self.inner.link_name(link)

    def closest_s(self, job: Job, compute_s: float) -> float:
        return self.inner.closest_s(job, compute_s)

    def speedup(self, job: Job, gpus: i64) -> float:
        return self.inner.speedup(job, gpus)

    def best(self, job: Job) -> float:
        return self.inner.best(job)

    def best_at(self, job: Job, gpus: i64) -> float:
        return self.inner.best_at(job, gpus)

    def alone(self, job: Job, allocation: Allocation) -> float:
        return self.inner.alone(job, allocation)

    def slowdown(self, job: Job, allocation: Allocation) -> tuple[float, float]:
        own, inflicted = self.inner.slowdown(job, allocation)
        return own / self.speeds.factor(job, self.type_of(allocation)), inflicted

    def profile(self, job: Job) -> Profile | None:
        return self.inner.profile(job)

    def least_slowdown(self, job: Job) -> float:
        return self.inner.least_slowdown(job)

    def comm_floor_s(self, job: Job) -> float:
        return self.inner.comm_floor_s(job)

    def comm_floor_at_s(self, job: Job, gpus: i64, work_s: float) -> float:
        return self.inner.comm_floor_at_s(job, gpus, work_s)


class OnOneType(SpeedModel):
    """What a policy may ask that has GPUs of one type alone: no place there is faster than that type."""

    def __init__(self, typed: TypedSpeed, gpu_type: str) -> None:
        self._typed = typed
        self._gpu_type = gpu_type
        self.profiles = typed.profiles

    def __reduce__(self) -> tuple[object, ...]:
        return (OnOneType, (self._typed, self._gpu_type))

    def speedup(self, job: Job, gpus: i64) -> float:
        return self._typed.speedup(job, gpus)

    def best(self, job: Job) -> float:
        return self._typed.best(job) / self._typed.speeds.factor(job, self._gpu_type)

    def best_at(self, job: Job, gpus: i64) -> float:
        return self._typed.best_at(job, gpus) / self._typed.speeds.factor(job, self._gpu_type)

    def alone(self, job: Job, allocation: Allocation) -> float:
        return self._typed.alone(job, allocation) / self._typed.speeds.factor(job, self._gpu_type)

    def slowdown(self, job: Job, allocation: Allocation) -> tuple[float, float]:
        return self._typed.slowdown(job, allocation)

    def profile(self, job: Job) -> Profile | None:
        return self._typed.profile(job)


def read_speeds(text: str) -> dict[str, float]:
    """`V100=0.4,T4=0.2` as a table; InputError for anything else."""
    result: dict[str, float] = {}
    for part in text.split(",") if text else []:
        name, _, value = part.partition("=")
        try:
            speed = float(value)
        except ValueError:
            speed = -1.0
        if not name.strip() or not 0.0 < speed < float("inf"):
            raise InputError(
                f"--gpu-speeds {text}: {part!r}: must be a type and its speed against an A100, as V100=0.4"
            )
        result[name.strip()] = speed
    return result
