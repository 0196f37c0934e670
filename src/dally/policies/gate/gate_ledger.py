"""What the gate knows: whose jobs they are, what tenants hold, demand and are due, and what is noted of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.cluster.feasibility.signatures import Signatures
from dally.model import CANCELLED, INFINITY, Job
from dally.pickles import picklable
from dally.policies import events
from dally.policies.base import Policy
from dally.policies.composed import ComposedPolicy
from dally.policies.events import PolicyEvent
from dally.policies.gate.fair_shares import FairShares
from dally.policies.gate.notes import Reclaimed, Sample, Stall, cause_of, stall
from dally.policies.gate.pools import Pool, kinds_of
from dally.policies.gate.tenants import Tenant, Tenants
from dally.policies.preemption.base import NoPreemption
from dally.policies.queue import Queue
from dally.policies.view import View
from dally.quotas.tree import QueueNode, QueueTree

SAMPLE_EVERY_S: Final = 3600.0
REVIEW_S: Final = 300.0  # while somebody waits: past use fades, and so does what tenants are due


class Stake:
    """What a tenant has and wants of a pool. Its number is `job.tenant` of its jobs."""

    def __init__(self, number: int, tenant: Tenant, pool: Pool) -> None:
        self.number: int = number
        self.tenant: Tenant = tenant
        self.pool: Pool = pool
        self.jobs: int = 0  # so far
        self.stirred: bool = True  # something happened to its jobs since the policy last looked at them
        self.served: int = -1  # the pass in which it did
        self.settled: int = -1  # stops so far when it had seen all it may, and wanted no more
        self.able: bool = False  # whether a look at what it is due may come to anything in this pass
        self.claim_s: float = -INFINITY  # when to look again whether others must give back what it is due
        self.ripe_s: float = INFINITY  # when those have run long enough that hold it
        self.owed: bool = False  # whether they hold GPUs of its guarantee that they need not give back yet
        self.noted_cause: str = ""  # what its first job waits for, as last told,
        self.noted_of: str = ""  # and whose that is


class GateQueue(Queue):
    """Where jobs wait: each belongs to a stake before it is in."""

    __slots__ = ("gate",)

    def __init__(self) -> None:
        super().__init__()
        self.gate: GateLedger | None = None

    def add(self, job: Job, key: float, tie: float) -> None:
        if job.slot < 0 and self.gate is not None:
            self.gate.stake(job)
        super().add(job, key, tie)

    def enter(self, stake: i64) -> None:
        """Jobs of that stake may come."""
        self._own(stake)


picklable(Stake, 0, Tenant(0, QueueNode(""), None, [""]), Pool(0, "", 0, Cluster.grid(1, 1, 1), True))
picklable(GateQueue)


@mypyc_attr(allow_interpreted_subclasses=True)
class GateLedger(Policy):
    """What the gate knows: tenants and their stakes, what they hold and demand, what they are due."""

    def __init__(self, tree: QueueTree, build: Callable[[], Policy], pools: list[Pool]) -> None:
        self.pools: list[Pool] = pools
        self.policies: list[Policy] = [build() for _ in self.pools]  # by pool
        self.registered_name = self.policies[0].registered_name
        self.views: list[View] = []  # likewise
        self.tenants: Tenants = Tenants(tree, kinds_of(self.pools))
        self.samples: list[Sample] = []
        self.reclaimed: list[Reclaimed] = []
        self.stalls: list[Stall] = []
        self._stakes: list[Stake] = []  # by number
        self._owners: list[Tenant] = []  # theirs
        self._at: dict[tuple[int, int], Stake] = {}  # by tenant and pool
        self._known: dict[int, bool] = {}  # indexes of jobs that have a stake
        self._waiting: dict[int, bool] = {}  # indexes of jobs that are counted as waiting
        self.demanded: list[int] = [0] * len(self.pools)  # GPUs that jobs wait for, by pool
        self._limited: list[Tenant] = []  # those with others below them that share a limit
        self._lends_partly: bool = False  # whether a tenant does not lend all of its guarantee
        self._reserved: dict[
            tuple[int, int], tuple[int, float]
        ] = {}  # by tenant and pool: GPUs for it, and until when
        self._stopped_for: dict[int, set[int]] = {}  # by job, those for whom it was stopped: it does not stop them
        self._vain: dict[int, tuple[int, float]] = {}  # by tenant: a claim that did not help, GPUs and until when
        self._shares: dict[int, FairShares] = {}  # by kind, in this pass
        self._sample_due_s: float = -INFINITY
        self._recorded_s: float = -INFINITY  # when all were last told what they wait for
        self._now: float = -INFINITY
        self._due_s: float = INFINITY  # when the gate itself wants another pass
        self._pass: int = 0
        self._stops: int = 0  # jobs that gave GPUs back so far
        self._lease_ended: dict[int, bool] = {}  # numbers of stakes: of some of their jobs, since the last pass
        # Numbers of tenants that hold or ask for more or less than when all were due what they want; none: all.
        self._changed: dict[int, bool] = {}
        self._scarce: bool = False  # whether more is asked for than is free
        self._recount: bool = True  # machines failed or were repaired
        waits = GateQueue()
        waits.gate = self
        self.queue = waits
        self._queue: GateQueue = waits
        self._own: PolicyEvent = PolicyEvent()  # what the gate tells policies by itself
        first = self.policies[0]
        self.answer_for(first)
        own = isinstance(first, ComposedPolicy) and isinstance(first.preemption, NoPreemption)
        self._replaces: bool = not own  # whether a job may take the place of another of its tenant

    @property
    def tree(self) -> QueueTree:
        """All queues as they were written down, and those that were made of jobs."""
        return self.tenants.tree

    def constrain(self, signatures: Signatures) -> None:
        for pool in self.pools:
            if not pool.whole:
                pool.cluster.constrain(signatures)
        for policy in self.policies:
            policy.constrain(signatures)

    def begin(self, view: View) -> None:
        super().begin(view)
        self.views = [view if pool.whole else view.for_type(pool.name) for pool in self.pools]
        for pool, policy in zip(self.pools, self.policies, strict=True):
            policy.begin(self.views[pool.number])
            policy.reasons = self.reasons

    # Whose jobs they are.

    def knows(self, job: Job) -> bool:
        """Whether the job is one of a tenant's here."""
        return int(job.index) in self._known

    def queue_of(self, job: Job) -> str:
        """The path of the queue that the job is in."""
        return self.stake(job).tenant.path

    def stake(self, job: Job) -> Stake:
        """The stake that the job belongs to; its tenant comes into being if it is the first."""
        if int(job.index) in self._known:
            return self._stakes[job.tenant]
        result = self.stake_at(self.tenants.of(job), self.first_pool(job))
        self.assign(job, result)
        return result

    def first_pool(self, job: Job) -> Pool:
        """Where a job that comes is to run."""
        return self.pools[0]

    def assign(self, job: Job, stake: Stake) -> None:
        """The job, which is not in the queue, is the stake's from now on."""
        self._known[int(job.index)] = True
        job.tenant = stake.number
        job.number = stake.jobs
        stake.jobs += 1
        job.slot = -1

    def stake_at(self, tenant: Tenant, pool: Pool) -> Stake:
        """The tenant's stake in the pool."""
        result = self._at.get((tenant.number, pool.number))
        if result is None:
            result = Stake(len(self._stakes), tenant, pool)
            self._stakes.append(result)
            self._owners.append(tenant)
            self._queue.enter(result.number)
            self._at[tenant.number, pool.number] = result
            self._limited = [other for other in self.tenants.all if other.children and other.is_limited()]
            part = self._part(pool)
            self._lends_partly = self._lends_partly or any(
                other.lends_all_but(pool.kind, part) > 0.0 for other in self.tenants.all
            )
        return result

    # What happens.

    def on(self, event: PolicyEvent) -> None:
        job = event.job
        if job is None:
            self._on_cluster(event)
            return
        kind = event.kind
        stake = self.stake(job)
        policy = self.policies[stake.pool.number]
        if kind == events.RERATED:
            policy.on(event)
            return
        stake.stirred = True
        if kind == events.STARTED:
            self.count_demand(job, False)
            self._count_held(job, stake, 1, event.now)
        elif kind == events.STOPPED:
            self._count_held(job, stake, -1, event.now)
        elif kind == events.QUEUED or kind == events.WITHDRAWN:
            self.count_demand(job, kind == events.QUEUED)
            stake.claim_s = -INFINITY
        elif kind == events.LEASE_ENDED:
            self._lease_ended[stake.number] = True
        policy.on(event)
        if kind == events.STOPPED or kind == events.STARTED:
            self.moved(job, stake, kind, event.now)
        elif kind == events.FINISHED or (kind == events.WITHDRAWN and job.status == CANCELLED):
            self.forget(job)

    def moved(self, job: Job, stake: Stake, kind: i64, now: float) -> None:
        """The job got GPUs or gave them back, and its policy knows."""

    def forget(self, job: Job) -> None:
        """The job is gone for good."""
        self._known.pop(int(job.index), None)
        self._stopped_for.pop(int(job.index), None)

    def _on_cluster(self, event: PolicyEvent) -> None:
        """What happened to a machine or to the network concerns all."""
        kind, machine = event.kind, int(event.machine)
        if kind == events.PASS_ENDED:
            for policy in self.policies:
                policy.on(event)
            self._set_wakeup(event.now)
            return
        for pool in self.pools:
            if kind == events.MACHINE_FAILED:
                pool.fail(machine)
            elif kind == events.MACHINE_REPAIRED:
                pool.repair(machine)
            elif kind == events.UNSCHEDULABLE:
                pool.set_aside(machine, int(event.gpus))
        if kind != events.UNSCHEDULABLE:
            for policy in self.policies:
                policy.on(event)
        self._recount = True
        self._stir_all()

    def notify(self, policy: Policy, kind: i64, job: Job | None, now: float) -> None:
        """Notify a policy of what the engine does not report."""
        self._own.kind = kind
        self._own.job = job
        self._own.now = now
        policy.on(self._own)

    def _stir_all(self) -> None:
        for stake in self._stakes:
            stake.stirred = True

    def count_demand(self, job: Job, waits: bool) -> None:
        """Count what a job asks for while it waits."""
        index = int(job.index)
        if waits == (index in self._waiting):
            return
        stake = self._stakes[job.tenant]
        change = job.gpus if waits else -job.gpus
        stake.tenant.demanded[stake.pool.kind] += change
        self.demanded[stake.pool.number] += int(change)
        if waits:
            self._waiting[index] = True
        else:
            del self._waiting[index]
        self._note_change(stake.tenant)

    def _note_change(self, tenant: Tenant | None) -> None:
        """It and those above it want more or less than before."""
        while self._changed and tenant is not None:
            self._changed[tenant.number] = True
            tenant = tenant.parent

    def _count_held(self, job: Job, stake: Stake, sign: i64, now: float) -> None:
        """Count the GPUs that a job was given or gives back."""
        allocation = job.allocation
        assert allocation is not None
        for pool in self.pools:
            if sign > 0:
                pool.take(job, allocation)
            else:
                pool.give_back(job, allocation)
        tenant: Tenant | None = stake.tenant
        while tenant is not None:
            if sign > 0 and job.placed_s < now:
                tenant.charge(job, now)
            tenant.hold_more(stake.pool.kind, sign * job.gpus, now)
            tenant = tenant.parent
        self._note_change(stake.tenant)
        if sign < 0:
            self._stops += 1

    def _set_wakeup(self, now: float) -> None:
        result = self._due_s
        for tenant in self.tenants.with_budgets:
            result = min(result, tenant.budget_changes_s(now))
        for policy in self.policies:
            if now < policy.wakeup_s < result:
                result = policy.wakeup_s
        self.wakeup_s = result

    def save(self) -> dict[str, Any]:
        learnt = {_key(pool): policy.save() for pool, policy in zip(self.pools, self.policies, strict=True)}
        kind = type(self.policies[0]).__qualname__
        return {"tenants": self.tenants.save(), "policy": kind, "learnt": learnt}

    def load(self, saved: dict[str, Any]) -> None:
        """What tenants used counts under any policy; what another kind of policy had learnt does not."""
        self.tenants.load(saved["tenants"])
        for pool, policy in zip(self.pools, self.policies, strict=True):
            if saved["policy"] == type(policy).__qualname__ and _key(pool) in saved["learnt"]:
                policy.load(saved["learnt"][_key(pool)])

    def shares(self, pool: Pool) -> FairShares:
        """Who is due what of the pool's GPUs: in a pass nobody's starts and stops change it."""
        result = self._shares.get(pool.kind)
        if result is None:
            self.tenants.bring_up(self._now)
            gpus = self.pools[pool.kind].gpus
            result = FairShares(self.tenants.root, len(self.tenants.all), pool.kind, gpus, self._part(pool))
            self._shares[pool.kind] = result
        return result

    def forget_shares(self) -> None:
        """Jobs ask for GPUs of another pool."""
        self._shares.clear()

    def _part(self, pool: Pool) -> float:
        """What GPUs of its type are of all GPUs."""
        if len(self.pools) == 1:
            return 1.0 if self.pools[0].gpus > 0 else 0.0
        total = sum([each.gpus for each in self.pools if len(each.types) == 1])
        return self.pools[pool.kind].gpus / total if total > 0 else 0.0

    # What is told.

    def take_notes(self) -> list[Sample | Reclaimed | Stall]:
        """What was noted since this was last asked; it is not kept any longer."""
        result: list[Sample | Reclaimed | Stall] = [*self.samples, *self.reclaimed, *self.stalls]
        self.samples, self.reclaimed, self.stalls = [], [], []
        return result

    def due_gpu_s(self, now: float) -> dict[str, float]:
        """By queue, what it was due over time."""
        return {tenant.path: tenant.due_so_far(now) for tenant in self.tenants.all}

    def _note_dues(self, now: float) -> None:
        """What everybody is due until somebody looks again."""
        result = [self.shares(pool) for pool in self.pools if pool.gpus > 0]
        for tenant in self.tenants.all:
            due = 0.0
            for shares in result:
                due += shares.due[tenant.number]
            tenant.be_due(due, now)
        self._changed = {}

    def _note_demands(self, now: float) -> None:
        """The same where there is enough for all: what each holds and asks for within its limits."""
        if len(self.pools) > 1:
            self._note_dues(now)
            return
        numbers = sorted(self._changed, reverse=True) if self._changed else range(len(self.tenants.all) - 1, 0, -1)
        for number in numbers:  # those below before those above
            tenant = self.tenants.all[number]
            held = float(tenant.held[0])
            demand = held + float(tenant.demanded[0])
            if tenant.children:
                demand = 0.0
                for child in tenant.children:
                    demand += child.due
            tenant.be_due(min(demand, held + max(0.0, tenant.room(0))), now)
        self._changed = {0: True}

    def _note_stalls(self, now: float) -> None:
        """What the first job of every tenant waits for, where that changed."""
        review = now >= self._recorded_s + REVIEW_S
        if review:
            self._recorded_s = now
        for stake in self._stakes:
            if not (review or stake.served == self._pass) or self._queue.waiting[stake.number] == 0:
                continue
            job = self._queue.best_of(stake.number, INFINITY)
            if job is None or stake.pool.gpus == 0:
                continue
            due = self.shares(stake.pool).due[stake.tenant.number] if self._scarce else INFINITY
            cause, of = cause_of(stake.tenant, stake.pool.kind, job, due)
            path = of.path if cause else ""
            if stake.noted_cause != cause or stake.noted_of != path:
                stake.noted_cause, stake.noted_of = cause, path
                self.stalls.append(stall(stake.tenant, stake.pool.name, stake.pool.kind, cause, of, due, now))

    def _take_samples(self, now: float) -> None:
        """At the first pass of every hour."""
        self._sample_due_s = (now // SAMPLE_EVERY_S + 1.0) * SAMPLE_EVERY_S
        for pool in self.pools:
            shares = self.shares(pool)
            for tenant in self.tenants.all[1:]:
                request = demanded_in(tenant, pool.kind)
                due, sure = shares.due[tenant.number], shares.guaranteed[tenant.number]
                held, used_gpu_s = int(tenant.held[pool.kind]), tenant.used_gpu_s
                self.samples.append(Sample(now, tenant.path, pool.name, held, request, due, sure, used_gpu_s))


def demanded_in(tenant: Tenant, kind: int) -> int:
    """By it and those below it."""
    return int(tenant.demanded[kind]) + sum([demanded_in(child, kind) for child in tenant.children])


def _key(pool: Pool) -> str:
    """What a pool is called where it is saved."""
    return f":{pool.name}"
