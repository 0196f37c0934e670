"""What pods take of the machines that the scheduler's own jobs do not: daemons, other schedulers', no GPUs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from dally.cluster.feasibility.statement import amounts
from dally.job_spec import JobSpec
from dally.live.backends import base
from dally.live.backends.base import ObservedJob, ObservedMachine
from dally.live.backends.kubernetes.pod_needs import MB, Needs
from dally.live.backends.kubernetes.pod_record import PodRecord

DIGITS = 4  # of CPUs and MB, so that sums of the same pods are the same


def with_needs(spec: JobSpec, pods: Sequence[PodRecord]) -> JobSpec:
    """The same with what each of its GPUs takes along, by the pod that takes most."""
    cpus, memory, others = 0.0, 0.0, dict[str, float]()
    for pod in pods:
        gpus = pod.needs.gpus
        cpus, memory = max(cpus, pod.needs.cpus / gpus), max(memory, pod.needs.memory / gpus)
        for name, amount in pod.needs.others:
            others[name] = max(others.get(name, 0.0), amount / gpus)
    stated = ",".join(f"{name}={amount:.9g}" for name, amount in sorted(others.items()))
    return replace(spec, cpus_per_gpu=cpus, memory_mb_per_gpu=memory / MB, resources_per_gpu=stated)


def with_usage(
    machines: Iterable[ObservedMachine], jobs: Iterable[ObservedJob], usage: Callable[[str], Needs]
) -> list[ObservedMachine]:
    """The machines with what is taken there of `usage`, less what managed jobs have."""
    ours: dict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    known: dict[tuple[float, float, str], dict[str, float]] = {}
    for job in jobs:
        if not job.managed or job.state in base.ENDED or not job.placement:
            continue
        spec = job.spec
        needs = spec.cpus_per_gpu, spec.memory_mb_per_gpu, spec.resources_per_gpu
        each = known.get(needs)
        if each is None:
            each = {"cpus": needs[0], "memory_mb": needs[1], **amounts("resources_per_gpu", needs[2])}
            known[needs] = each
        for name, gpus in job.placement.items():
            for resource, amount in each.items():
                ours[name][resource] += amount * gpus
    result = []
    for machine in machines:
        taken, mine = usage(machine.name), ours[machine.name]
        others = {name: _left(amount, mine[name]) for name, amount in taken.others}
        result.append(
            replace(
                machine,
                cpus_taken=_left(taken.cpus, mine["cpus"]),
                memory_mb_taken=_left(taken.memory / MB, mine["memory_mb"]),
                resources_taken={name: amount for name, amount in others.items() if amount > 0.0},
            )
        )
    return result


class MachineUsage:
    """The same, worked out again once something changed."""

    def __init__(self, usage: Callable[[str], Needs]) -> None:
        """`usage`: what the pods of a node take."""
        self._usage = usage
        self._machines: tuple[ObservedMachine, ...] = ()
        self._of: tuple[int, list[ObservedMachine], tuple[ObservedJob, ...]] = -1, [], ()

    def of(
        self, machines: list[ObservedMachine], jobs: tuple[ObservedJob, ...], moves: int
    ) -> tuple[ObservedMachine, ...]:
        """With what pods that are not of `jobs` take; `moves` counts changes of pods on nodes."""
        if self._of != (moves, machines, jobs):
            self._machines = tuple(with_usage(machines, jobs, self._usage))
            self._of = moves, machines, jobs
        return self._machines


def _left(taken: float, mine: float) -> float:
    return max(0.0, round(taken - mine, DIGITS))
