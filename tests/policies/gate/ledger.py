"""An account of a run by its log alone: who held and waited when, by queue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dally.engine.simulate import Simulation
from dally.model import EVICT, FINISH, KIND_NAMES, MIGRATE, PREEMPT, START, SUBMIT, Job
from dally.quotas.tree import QueueTree


@dataclass
class Moment:
    """From `time_s` until the next: GPUs held by every queue and those above it, and jobs that wait, by leaf."""

    time_s: float
    held: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, dict[int, Job]] = field(default_factory=dict)
    free: int = 0


def moments(simulation: Simulation, tree: QueueTree) -> Iterator[Moment]:
    """The states between the instants at which something happened, each as it stands after all of that instant."""
    log, jobs = simulation.state.log, simulation.jobs
    now = Moment(0.0, free=simulation.state.cluster.topology.total_gpus())
    for row in range(len(log)):
        kind, job = KIND_NAMES[int(log.kinds[row])], int(log.jobs[row])
        if log.times[row] > now.time_s:
            yield now
            now.time_s = log.times[row]
        if job >= 0:
            _happen(now, kind, jobs[job], tree)
    yield now


def _happen(now: Moment, kind: str, job: Job, tree: QueueTree) -> None:
    leaf = tree.queue_of(job)
    names = {value: KIND_NAMES[value] for value in (START, PREEMPT, EVICT, FINISH, SUBMIT, MIGRATE)}
    change = {names[START]: 1, names[PREEMPT]: -1, names[EVICT]: -1, names[FINISH]: -1}.get(kind, 0)
    for node in tree.above(leaf):
        now.held[node.path] = now.held.get(node.path, 0) + change * int(job.gpus)
    now.free -= change * int(job.gpus)
    waiting = now.waiting.setdefault(leaf, {})
    if kind in (names[SUBMIT], names[PREEMPT], names[EVICT]):
        waiting[int(job.index)] = job
    elif kind in (names[START], names[FINISH]):
        waiting.pop(int(job.index), None)
