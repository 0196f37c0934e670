"""Slurm's usual scheduler: jobs by priority, and backfill that plans with time limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.errors import InputError
from dally.heap import IndexedHeap
from dally.model import INFINITY, Action, Allocation, Job, Start
from dally.policies import events
from dally.policies.base import Param, Policy
from dally.policies.declaration import NOTHING, NamedPolicy
from dally.policies.events import PolicyEvent
from dally.policies.placement.best_fit import best_fit
from dally.policies.queue import Queue, demand
from dally.policies.settings import Settings
from dally.policies.slurm.machine_plan import MachinePlan
from dally.policies.slurm.multifactor import MultifactorOrder, Weights

CALC_S: Final = 300.0  # PriorityCalcPeriod


class Backfill(NamedTuple):
    """SchedulerParameters."""

    interval_s: float = 30.0
    window_s: float = 86400.0
    resolution_s: float = 60.0
    max_job_test: int = 500
    default_limit_s: float = 86400.0  # of jobs that state none


@mypyc_attr(allow_interpreted_subclasses=True)
class SlurmBackfill(Policy):
    """Multifactor priority, strictly while jobs fit, then backfill that knows time limits, not durations.

    Slurm's manual: priority/multifactor, sched/backfill, select/cons_tres with topology/tree. At every event, jobs
    start in order of priority until one does not fit. At most every `bf_interval_s`, the first `bf_max_job_test`
    jobs are planned: each reserves the earliest time at which machines are free for as long as its limit, where
    running jobs are expected to end at their limits. Later jobs start now only on machines without a reservation in
    that time. As in Slurm, a plan takes whole machines, a job beyond `bf_window_s` is not planned, and the moments
    considered get farther apart. A gang that fits a machine requests --nodes=1; larger gangs take the closest free
    GPUs. A job that outlasts its limit is not killed here, because its trace records that it ran; it is then
    expected to end at any moment. If the trace has no time limits, all jobs have the same one, and short ones
    start no sooner than long ones.
    """

    def __init__(self, weights: Weights, backfill: Backfill) -> None:
        ranks = MultifactorOrder(weights)
        self.order = ranks
        self._ranks: MultifactorOrder = ranks
        self._backfill: Backfill = backfill
        self._running: dict[int, Job] = {}
        self._ends: IndexedHeap = IndexedHeap()  # running jobs by when their limit runs out
        self._ranked_s: float = -INFINITY  # when priorities were last worked out
        self._changes: int = 1
        # By tenant (policies/gate) when its last plan was made, and after how many changes.
        self._plans: dict[int, tuple[float, int]] = {}
        self._waits: bool = False

    def on(self, event: PolicyEvent) -> None:
        job = event.job
        if job is not None:
            self._on_job(event.kind, job, event.now)
        elif event.kind == events.MACHINE_REPAIRED:
            self._changes += 1
        elif event.kind == events.PASS_ENDED:
            self.wakeup_s = self._next_s(event.now)

    def _on_job(self, kind: i64, job: Job, now: float) -> None:
        if kind == events.QUEUED:
            self._ranks.shares.meet(job)
            self._changes += 1
        elif kind == events.STARTED:
            self._changes += 1
            self._running[int(job.index)] = job
            self._ends.put(job.index, job.since_s + self.limit_s(job), 0.0)
            self._ranks.shares.started(job, now)
        elif kind == events.STOPPED:
            self._changes += 1
            del self._running[int(job.index)]
            self._ends.remove(job.index)
            self._ranks.shares.stopped(job, now)
        elif kind == events.WITHDRAWN:
            self._changes += 1
        elif kind == events.PREEMPTION_FAILED:
            self._on_job(events.STOPPED, job, now)
            self._on_job(events.STARTED, job, now)

    def limit_s(self, job: Job) -> float:
        """How long Slurm lets it run, as far as that is known."""
        limit_s = job.limit_s
        return limit_s if limit_s > 0.0 else self._backfill.default_limit_s

    def _next_s(self, now: float) -> float:
        """The next plan if anything changed since the last one, and new priorities."""
        if not self._waits:
            return INFINITY
        next_s = self._ranked_s + CALC_S
        for planned_s, changes in self._plans.values():
            plan_s = planned_s + self._backfill.interval_s
            if changes != self._changes and now < plan_s < next_s:
                next_s = plan_s
        return next_s

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        self._ranks.total_gpus = int(cluster.topology.total_gpus())
        self._waits = len(queue) > 0
        if not self._waits:
            return []
        if now >= self._ranked_s + CALC_S:
            self._rank(now, queue)
        return self._offer(now, queue, cluster)

    def _rank(self, now: float, queue: Queue) -> None:
        """Priorities anew, as Slurm does every five minutes."""
        self._ranked_s = now
        self._changes += 1
        self._ranks.shares.bring_up(now)
        for job in queue.all_jobs():
            queue.rerank(job, self._ranks.key(job, now), 0.0)

    def _offer(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        while True:
            head = queue.best()
            if head is None:
                self._waits = len(queue) > 0
                self.reasons.reserved(None, INFINITY)
                return
            allocation = place(head, cluster)
            if allocation is None:
                break
            yield Start(head, allocation)
        planned_s, changes = self._plans.get(int(queue.tenant), (-INFINITY, 0))
        if changes != self._changes and now >= planned_s + self._backfill.interval_s:
            self._plans[int(queue.tenant)] = (now, self._changes)
            yield from self._plan(now, queue, cluster)

    def _plan(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        """Plan jobs in order of priority; those whose time is now start."""
        plan = MachinePlan(cluster, self._limits_run_out(now), now, self._backfill.window_s)
        hopeless: dict[int, float] = {}  # by GPUs, the shortest limit for which the window has no room
        tested: i64 = 0
        for job in queue:
            tested += 1
            if tested > self._backfill.max_job_test:
                break
            length_s = self.limit_s(job)
            if length_s >= hopeless.get(demand(job), INFINITY):
                continue
            moment = self._reserve(job, length_s, plan)
            if moment < 0:
                hopeless[demand(job)] = length_s
            if tested == 1:
                self.reasons.reserved(job, plan.moments_s[moment] if moment >= 0 else INFINITY)
            if moment == 0:
                allocation = place_around(job, length_s, plan, cluster)
                if allocation is not None:
                    plan.take(job, allocation, now + length_s)
                    yield Start(job, allocation)

    def _reserve(self, job: Job, length_s: float, plan: MachinePlan) -> i64:
        """The first moment at which the job can run, or -1; machines are booked for it unless that is now."""
        for moment in range(len(plan.moments_s)):
            machines = plan.machines_for(job, moment, length_s)
            if len(machines) > 0:
                if moment > 0:
                    start_s = plan.moments_s[moment]
                    plan.reserve(machines, start_s, start_s + self._whole(length_s))
                return moment
        return -1

    def _whole(self, length_s: float) -> float:
        """The next multiple of the resolution."""
        return float(-(-length_s // self._backfill.resolution_s)) * self._backfill.resolution_s

    def _limits_run_out(self, now: float) -> list[tuple[float, Job]]:
        """Running jobs by when their limits run out; those past it within a second."""
        rows = [(max(self._ends.key(index), now + 1.0), job) for index, job in self._running.items()]
        rows.sort(key=_first)
        return rows


def _first(pair: tuple[float, Job]) -> tuple[float, int]:
    return pair[0], int(pair[1].index)


def place(job: Job, cluster: Cluster) -> Allocation | None:
    """Free GPUs in one machine if it fits one, else the closest there are."""
    cluster.focus(job)
    if cluster.closest_tier(job) == 0:
        return best_fit(cluster, 0, job.gpus, job.group)
    for tier in range(1, cluster.root + 1):
        allocation = best_fit(cluster, tier, job.gpus, job.group)
        if allocation is not None:
            return allocation
    return None


def place_around(job: Job, length_s: float, plan: MachinePlan, cluster: Cluster) -> Allocation | None:
    """The same on machines that nobody has booked for any of the next so many seconds."""
    now = plan.moments_s[0]
    cluster.focus(job)
    with cluster.trial() as trial:
        for machine in range(len(cluster.down)):
            if cluster.free[0][machine] > 0 and not plan.is_open(machine, now, now + length_s):
                trial.block(0, machine)
        return place(job, cluster)


def points(name: str, text: str) -> dict[str, float]:
    """`high:1000,low:10` as a table; InputError for anything else."""
    table: dict[str, float] = {}
    for part in text.split(",") if text else []:
        token, _, value = part.rpartition(":")
        try:
            table[token.strip()] = float(value)
        except ValueError:
            raise InputError(
                f"--set {name}={text}: {part!r}: must be a name and its points, as high:1000"
            ) from None
    return table


def _slurm_backfill(settings: Settings) -> Policy:
    weights = Weights(
        settings["age"], settings["size"], settings["fair_share"], settings["max_age_s"], settings["half_life_s"],
        points("partitions", settings["partitions"]), points("qos", settings["qos"]),
    )  # fmt: skip
    backfill = Backfill(
        settings["bf_interval_s"], settings["bf_window_s"], settings["bf_resolution_s"],
        settings["bf_max_job_test"], settings["limit_s"],
    )  # fmt: skip
    return SlurmBackfill(weights, backfill)


USUAL: Final = Weights()
PLANS: Final = Backfill()
SLURM_BACKFILL: Final = NamedPolicy(
    "slurm-backfill", _slurm_backfill, "multifactor priority", "one machine, or the closest", "never", NOTHING,
    "Slurm, priority/multifactor and sched/backfill",
    (
        Param("age", USUAL.age, "PriorityWeightAge"),
        Param("size", USUAL.size, "PriorityWeightJobSize"),
        Param("fair_share", USUAL.fair_share, "PriorityWeightFairshare"),
        Param("max_age_s", USUAL.max_age_s, "PriorityMaxAge", 1.0),
        Param("half_life_s", USUAL.half_life_s, "PriorityDecayHalfLife", 1.0),
        Param("partitions", "", "points of partitions: long:0,short:1000"),
        Param("qos", "", "points of QOS: normal:0,high:10000"),
        Param("bf_interval_s", PLANS.interval_s, "seconds between two plans at least", 1.0),
        Param("bf_window_s", PLANS.window_s, "seconds that a plan looks ahead", 60.0),
        Param("bf_resolution_s", PLANS.resolution_s, "seconds that bookings are rounded up to", 1.0),
        Param("bf_max_job_test", PLANS.max_job_test, "jobs that are planned", 1.0),
        Param("limit_s", PLANS.default_limit_s, "time limit of jobs that state none", 1.0),
    ),
)  # fmt: skip
