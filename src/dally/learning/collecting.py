"""Where episodes are played: in this process, in others on this machine, or on Ray."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, Protocol

from dally.errors import InputError
from dally.extras import need
from dally.gym.window_env import WindowEnv
from dally.learning.actor_critic import Array, Scale
from dally.learning.ppo import Rollout, play
from dally.learning.training_plan import TrainingPlan

Seed = tuple[int, ...]
_ENVS: dict[str, WindowEnv] = {}  # of this process, by plan: traces are read once


def play_one(plan: TrainingPlan, parameters: dict[str, Array], scale: Scale, seed: Seed) -> Rollout:
    """The episode of that seed; it is the same wherever it is played."""
    key = plan.text()
    if key not in _ENVS:
        _ENVS[key] = plan.make("train")
    return play(_ENVS[key], parameters, scale, seed)


class Collector(Protocol):
    """Plays episodes, and gives them back in the order of their seeds."""

    def collect(self, parameters: dict[str, Array], scale: Scale, seeds: Sequence[Seed]) -> list[Rollout]:
        """An episode for each seed."""
        ...

    def close(self) -> None:
        """No more are played."""
        ...


class CollectHere:
    """In this process, one after the other."""

    def __init__(self, plan: TrainingPlan) -> None:
        self._plan = plan

    def collect(self, parameters: dict[str, Array], scale: Scale, seeds: Sequence[Seed]) -> list[Rollout]:
        """See Collector."""
        return [play_one(self._plan, parameters, scale, seed) for seed in seeds]

    def close(self) -> None:
        """See Collector."""


class CollectInProcesses:
    """In processes that live as long as the training."""

    def __init__(self, plan: TrainingPlan, workers: int) -> None:
        self._plan = plan
        self._pool = ProcessPoolExecutor(workers, get_context("spawn"))

    def collect(self, parameters: dict[str, Array], scale: Scale, seeds: Sequence[Seed]) -> list[Rollout]:
        """See Collector."""
        pending = [self._pool.submit(play_one, self._plan, parameters, scale, seed) for seed in seeds]
        try:
            return [one.result() for one in pending]
        except BrokenProcessPool:
            raise InputError("a training worker died; the same command goes on from the last checkpoint") from None

    def close(self) -> None:
        """See Collector."""
        self._pool.shutdown(wait=True, cancel_futures=True)


class CollectOnRay:
    """As tasks of a Ray cluster, or of one on this machine."""

    def __init__(self, plan: TrainingPlan, workers: int, address: str = "") -> None:
        need("ray", "--engine ray")
        from dally.sweep.workers.ray import RayWorkers

        self._plan = plan
        self._ray = RayWorkers(address, workers).connect()
        self._task = self._ray.remote(max_retries=3)(play_one)

    def collect(self, parameters: dict[str, Array], scale: Scale, seeds: Sequence[Seed]) -> list[Rollout]:
        """See Collector."""
        shared: Any = self._ray.put(parameters)
        result: list[Rollout] = self._ray.get(
            [self._task.remote(self._plan, shared, scale, seed) for seed in seeds]
        )
        return result

    def close(self) -> None:
        """See Collector."""
        self._ray.shutdown()


def collector(plan: TrainingPlan, workers: int, engine: str, address: str = "") -> Collector:
    """The one for that many workers of that engine."""
    if engine == "ray":
        return CollectOnRay(plan, workers, address)
    if engine != "local":
        raise InputError(f"--engine {engine}: must be local or ray")
    return CollectHere(plan) if workers == 1 else CollectInProcesses(plan, workers)
