"""Who held how much over a run, from the event log: by queue, borrowed and lent, and by type of GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dally.model import CANCEL, EVICT, FINISH, HOLD, MIGRATE, PREEMPT, RELEASE, RESIZE, START, SUBMIT, Job

if TYPE_CHECKING:
    from dally.metrics.simulated import Simulated
    from dally.quotas.tree import QueueTree

OTHER = "other"  # where jobs are that belong to no queue
AWAY, WAITS, RUNS = 0, 1, 2
BECOMES = {
    SUBMIT: WAITS, START: RUNS, PREEMPT: WAITS, EVICT: WAITS, FINISH: AWAY, CANCEL: AWAY, HOLD: AWAY,
    RELEASE: WAITS, RESIZE: RUNS,
}  # fmt: skip


@dataclass
class QueueUse:
    """One queue: GPU-seconds, and how things stand as of the latest change."""

    guarantee: float = 0.0  # GPUs, of all types
    part: float = 1.0  # its weight's part of the whole, all queues present
    gpu_s: float = 0.0
    borrowed_gpu_s: float = 0.0  # held above its guarantee
    lent_gpu_s: float = 0.0  # of its guarantee, held by others
    vied_s: float = 0.0  # it had jobs waiting, and so had another queue
    vied_gpu_s: float = 0.0  # what it held then
    held: int = 0
    waiting: int = 0
    since_s: float = 0.0
    lent_until: float = 0.0  # the clocks of `_Clocks` at `since_s`
    vied_until: float = 0.0

    def unused(self) -> float:
        """GPUs of its guarantee that it does not hold."""
        return max(0.0, self.guarantee - self.held)

    def borrowed(self) -> float:
        """GPUs it holds above its guarantee."""
        return max(0.0, self.held - self.guarantee)


class _Clocks:
    """What all queues have in common, so that a change costs the same however many there are.

    `lent` runs at the share of unused guarantees that others hold; `vied` while two queues or more wait.
    """

    def __init__(self, gpus: int, uses: dict[str, QueueUse]) -> None:
        self.now = 0.0
        self.lent = 0.0
        self.vied = 0.0
        guaranteed = 0.0
        for use in uses.values():
            guaranteed += use.guarantee
        self._unsure = max(0.0, float(gpus) - guaranteed)  # guaranteed to nobody
        self._borrowed = 0.0
        self._unused = guaranteed
        self._waiting: int = 0

    def go_on(self, now: float) -> None:
        passed_s = now - self.now
        if passed_s > 0.0:
            if self._unused > 1e-9:
                self.lent += min(1.0, max(0.0, self._borrowed - self._unsure) / self._unused) * passed_s
            self.vied += passed_s if self._waiting > 1 else 0.0
            self.now = now

    def settle(self, use: QueueUse) -> None:
        """Bring the queue's figures up to now."""
        passed_s = self.now - use.since_s
        use.gpu_s += use.held * passed_s
        use.borrowed_gpu_s += use.borrowed() * passed_s
        use.lent_gpu_s += use.unused() * (self.lent - use.lent_until)
        if use.waiting:
            use.vied_s += self.vied - use.vied_until
            use.vied_gpu_s += use.held * (self.vied - use.vied_until)
        use.since_s, use.lent_until, use.vied_until = self.now, self.lent, self.vied

    def change(self, use: QueueUse, held: int, waiting: int) -> None:
        """From now on the queue holds so many GPUs more, and so many jobs more wait."""
        self.settle(use)
        self._borrowed -= use.borrowed()
        self._unused -= use.unused()
        self._waiting -= int(use.waiting > 0)
        use.held += held
        use.waiting += waiting
        self._borrowed += use.borrowed()
        self._unused += use.unused()
        self._waiting += int(use.waiting > 0)


def queue_of(tree: QueueTree, job: Job) -> str:
    """The queue whose job it is."""
    return tree.queue_of(job) or OTHER


def queues_by_job(tree: QueueTree, jobs: list[Job]) -> list[str]:
    """The same of all: jobs that ask for the same often share a spec, and its queue."""
    by_spec: dict[int, str] = {}
    result: list[str] = []
    for job in jobs:
        spec = id(job.spec)
        path = by_spec.get(spec)
        if path is None:
            path = by_spec[spec] = queue_of(tree, job)
        result.append(path)
    return result


def queue_use(record: Simulated, tree: QueueTree, homes: list[str]) -> dict[str, QueueUse]:
    """The uses of all queues that hold jobs, as of the run's end, in the order written; `homes`: queues by job."""
    paths = [*tree.leaves(), *([OTHER] if OTHER in homes else [])]
    uses = {path: QueueUse(_guarantee(tree, path), _part(tree, path)) for path in dict.fromkeys(paths)}
    clocks = _Clocks(record.topology.total_gpus(), uses)
    standing = [AWAY] * len(homes)
    holding = [0] * len(homes)
    jobs = record.outcomes
    log = record.log
    for row in range(len(log)):
        becomes = BECOMES.get(int(log.kinds[row]))
        number = int(log.jobs[row])
        if becomes is None or number < 0:
            continue
        was = standing[number]
        standing[number] = becomes
        clocks.go_on(log.times[row])
        before = holding[number]
        holding[number] = _placed_gpus(record, row, jobs[number]) if becomes == RUNS else 0
        clocks.change(uses[homes[number]], holding[number] - before, int(becomes == WAITS) - int(was == WAITS))
    clocks.go_on(record.end_s)
    for use in uses.values():
        clocks.settle(use)
    return uses


def _placed_gpus(record: Simulated, row: int, job: Job) -> int:
    """GPUs that the job holds from that row on."""
    return int(job.gpus) if len(job.sizes) == 0 else sum([gpus for _, gpus in record.log.parts(row)])


def _guarantee(tree: QueueTree, path: str) -> float:
    quotas = tree.nodes[path].quotas.values() if path in tree.nodes else ()
    return sum([quota.guarantee for quota in quotas], 0.0)


def _part(tree: QueueTree, path: str) -> float:
    """Its weight over its siblings', times that of every queue above it."""
    part = 1.0
    for node in tree.above(path) if path in tree.nodes else ():
        part *= node.weight / sum([tree.nodes[other].weight for other in tree.children[node.parent]], 0.0)
    return part


MIX = "+"  # between types of one gang


@dataclass(frozen=True)
class TypeUse:
    """By type of GPU: how many there are, GPU-seconds held and offered; by job, on which it ran last."""

    gpus: dict[str, int]
    gpu_s: dict[str, float]
    span_s: float
    last: dict[int, str]  # by the job's index

    def summary(self) -> dict[str, dict[str, float]]:
        """As summary.json has it; empty where types are not told apart."""
        if not any(self.gpus):
            return {}
        return {
            name: {
                "gpus": gpus,
                "gpu_h": self.gpu_s[name] / 3600.0,
                "utilization": self.gpu_s[name] / (gpus * self.span_s) if gpus and self.span_s > 0.0 else 0.0,
            }
            for name, gpus in self.gpus.items()
        }


def type_use(record: Simulated) -> TypeUse:
    """The use of every type, from the log."""
    topology, log = record.topology, record.log
    gpus: dict[str, int] = dict.fromkeys(topology.gpu_types, 0)
    for kind, count in zip(topology.gpu_types, topology.gpus[0], strict=True):
        gpus[kind] += int(count)
    gpu_s = dict.fromkeys(gpus, 0.0)
    open_: dict[int, tuple[float, dict[str, int]]] = {}
    last: dict[int, str] = {}
    part = 0
    for row in range(len(log)):
        event, number, end = int(log.kinds[row]), int(log.jobs[row]), int(log.part_ends[row])
        if event in (FINISH, PREEMPT, EVICT, MIGRATE, RESIZE) and number in open_:
            _close(open_.pop(number), log.times[row], gpu_s)
        if event in (START, MIGRATE, RESIZE):
            held: dict[str, int] = {}
            for place in range(part, end):
                kind = topology.gpu_types[int(log.part_machines[place])]
                held[kind] = held.get(kind, 0) + int(log.part_gpus[place])
            open_[number] = (log.times[row], held)
            last[number] = MIX.join(held)
        part = end
    for interval in open_.values():
        _close(interval, record.end_s, gpu_s)
    first_s = record.outcomes[0].submit_s if record.outcomes else 0.0
    return TypeUse(gpus, gpu_s, record.end_s - first_s, last)


def crowding(record: Simulated) -> dict[int, tuple[float, float]]:
    """By finished job: the integral over time of demands ÷ GPUs, at least 1, at its submission and at its end."""
    gpus = float(record.topology.total_gpus())
    begun: dict[int, float] = {}
    result: dict[int, tuple[float, float]] = {}
    integral = demand = now = 0.0
    jobs = record.outcomes
    log = record.log
    for row in range(len(log)):
        kind, number = int(log.kinds[row]), int(log.jobs[row])
        if number < 0 or kind not in (SUBMIT, FINISH, CANCEL):
            continue
        time_s = log.times[row]
        integral += (time_s - now) * max(1.0, demand / gpus)
        now = time_s
        if kind == SUBMIT:
            begun[number] = integral
            demand += float(jobs[number].gpus)
        elif number in begun:
            demand -= float(jobs[number].gpus)
            result[number] = (begun.pop(number), integral)
    return result


def _close(interval: tuple[float, dict[str, int]], end_s: float, gpu_s: dict[str, float]) -> None:
    since_s, held = interval
    for kind, gpus in held.items():
        gpu_s[kind] += gpus * (end_s - since_s)
