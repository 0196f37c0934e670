"""What pods take of the machines that the scheduler's own jobs do not: daemons, other schedulers', no GPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from operator import is_not
from typing import Final

from dally.cluster.feasibility.statement import amounts
from dally.job_spec import JobSpec
from dally.live.backends import base
from dally.live.backends.base import ObservedJob, ObservedMachine
from dally.live.backends.kubernetes.pod_needs import MB, Needs

DIGITS = 4  # of CPUs and MB, so that sums of the same pods are the same


def with_needs(spec: JobSpec, needs: Iterable[Needs]) -> JobSpec:
    """The same with what each of its GPUs takes along, by the pod that takes most."""
    cpus, memory, others = 0.0, 0.0, dict[str, float]()
    for one in needs:
        gpus = one.gpus
        cpus, memory = max(cpus, one.cpus / gpus), max(memory, one.memory / gpus)
        for name, amount in one.others:
            others[name] = max(others.get(name, 0.0), amount / gpus)
    stated = ",".join(f"{name}={amount:.9g}" for name, amount in sorted(others.items()))
    return replace(spec, cpus_per_gpu=cpus, memory_mb_per_gpu=memory / MB, resources_per_gpu=stated)


Holding = tuple[float, float, str, int]  # what a job takes along with each GPU, and its GPUs on a node
NOTHING: Final[list[Holding]] = []
LONGEST_CACHED: Final = 500  # characters of what jobs take along: most take the same
Made = tuple[ObservedMachine, Needs, list[Holding], ObservedMachine]  # the last of the others, for one machine


class MachineUsage:
    """The machines with what pods take there, less what managed jobs have; what changed is made anew."""

    def __init__(self, usage: Callable[[str], Needs]) -> None:
        """`usage`: what the pods of a node take; the same object until one of them changes."""
        self._usage = usage
        self._machines: tuple[ObservedMachine, ...] = ()
        self._of: tuple[int, list[ObservedMachine], tuple[ObservedJob, ...]] = -1, [], ()
        self._made: dict[str, Made] = {}

    def of(
        self, machines: list[ObservedMachine], jobs: tuple[ObservedJob, ...], moves: int
    ) -> tuple[ObservedMachine, ...]:
        """With what pods that are not of `jobs` take; `moves` counts changes of pods on nodes."""
        moves_before, machines_before, jobs_before = self._of
        if moves != moves_before or machines is not machines_before or jobs is not jobs_before:
            result = tuple(self._renewed(machines, jobs))
            if len(result) != len(self._machines) or any(map(is_not, result, self._machines)):
                self._machines = result
            self._of = moves, machines, jobs
        return self._machines

    def _renewed(self, machines: list[ObservedMachine], jobs: tuple[ObservedJob, ...]) -> Iterator[ObservedMachine]:
        holdings = _holdings(jobs)
        before, self._made = self._made, {}
        for machine in machines:
            name = machine.name
            taken, ours = self._usage(name), holdings.get(name, NOTHING)
            made = before.get(name)
            if made is None or made[0] is not machine or made[1] is not taken or made[2] != ours:
                made = machine, taken, ours, _with_usage(machine, taken, ours, made)
            self._made[name] = made
            yield made[3]


def _holdings(jobs: Iterable[ObservedJob]) -> dict[str, list[Holding]]:
    """What managed jobs have, by node."""
    result: dict[str, list[Holding]] = {}
    for job in jobs:
        if job.placement and job.managed and job.state not in base.ENDED:
            spec = job.spec
            for name, gpus in job.placement.items():
                one = spec.cpus_per_gpu, spec.memory_mb_per_gpu, spec.resources_per_gpu, gpus
                result.setdefault(name, []).append(one)
    return result


def _with_usage(
    machine: ObservedMachine, taken: Needs, ours: Iterable[Holding], before: Made | None
) -> ObservedMachine:
    """The same object as before if that is equal."""
    mine: defaultdict[str, float] = defaultdict(float)
    for cpus, memory_mb, stated, gpus in ours:
        mine["cpus"] += cpus * gpus
        mine["memory_mb"] += memory_mb * gpus
        for resource, amount in _amounts(stated).items():
            mine[resource] += amount * gpus
    others = {name: _left(amount, mine[name]) for name, amount in taken.others}
    values = (
        _left(taken.cpus, mine["cpus"]),
        _left(taken.memory / MB, mine["memory_mb"]),
        {name: amount for name, amount in others.items() if amount > 0.0},
    )
    if before is not None and before[0] is machine:
        result = before[3]
        if values == (result.cpus_taken, result.memory_mb_taken, result.resources_taken):
            return result
    cpus_taken, memory_mb_taken, resources = values
    result = replace(machine, cpus_taken=cpus_taken, memory_mb_taken=memory_mb_taken, resources_taken=resources)
    return before[3] if before is not None and before[3] == result else result


def _amounts(stated: str) -> dict[str, float]:
    return _usual_amounts(stated) if len(stated) <= LONGEST_CACHED else amounts("resources_per_gpu", stated)


@lru_cache(maxsize=1000)
def _usual_amounts(stated: str) -> dict[str, float]:
    return amounts("resources_per_gpu", stated)


def _left(taken: float, mine: float) -> float:
    return max(0.0, round(taken - mine, DIGITS))
