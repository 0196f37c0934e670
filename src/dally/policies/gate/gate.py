"""The gate: whose waiting jobs the policy sees, and how many GPUs they may take."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, Final

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import CANCELLED, INFINITY, WAITING, Action, Job, Preempt, Start
from dally.pickles import picklable
from dally.policies import events
from dally.policies.base import Policy
from dally.policies.composed import ComposedPolicy
from dally.policies.events import PolicyEvent
from dally.policies.gate.fair_shares import FairShares, standing
from dally.policies.gate.notes import EPSILON, Reclaimed, Sample, Stall, cause_of, stall
from dally.policies.gate.pools import Pool, kinds_of
from dally.policies.gate.reclaim import claim
from dally.policies.gate.tenants import Tenant, Tenants
from dally.policies.preemption.base import NoPreemption
from dally.policies.queue import Queue
from dally.policies.view import View
from dally.quotas.tree import QueueTree

SAMPLE_EVERY_S: Final = 3600.0
LONGEST_ROUND_S: Final = 3600.0  # policies that go by longer ones are not waited for
REVIEW_S: Final = 300.0  # while somebody waits: past use fades, and so does what tenants are due
MANY: Final = 1 << 30


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
        self.claim_s: float = -INFINITY  # when to look again whether others must give back what it is due
        self.ripe_s: float = INFINITY  # when those have run long enough that hold it
        self.owed: bool = False  # whether they hold GPUs of its guarantee that they need not give back yet
        self.noted: tuple[str, str] = ("", "")  # what its first job waits for, as last told


class GateQueue(Queue):
    """Where jobs wait: each belongs to a stake before it is in."""

    __slots__ = ("gate",)

    def __init__(self) -> None:
        super().__init__()
        self.gate: Gate | None = None

    def add(self, job: Job, key: float, tie: float) -> None:
        if job.slot < 0 and self.gate is not None:
            self.gate.stake(job)
        super().add(job, key, tie)

    def enter(self, stake: i64) -> None:
        """Jobs of that stake may come."""
        self._own(stake)


picklable(GateQueue)


@mypyc_attr(allow_interpreted_subclasses=True)
class Gate(Policy):
    """Tenants take turns before one policy, which sees the jobs of the one whose turn it is and knows of no others.

    A pass takes back what is lent to those who must give it back, and offers GPUs to every tenant up to its due.
    What is left goes to whoever may have more, in the fair order, one job at a time. Limits and budgets hold
    whatever the policy asks for. Of GPUs of several types, or in partitions, each pool has a policy of its own:
    speeds differ by type, and what a policy knows of places is about one cluster (policies/gate/pooled.py).
    """

    def __init__(self, tree: QueueTree, build: Callable[[], Policy], pools: list[Pool]) -> None:
        self.pools: list[Pool] = pools
        self.policies: list[Policy] = [build() for _ in self.pools]  # by pool
        self.views: list[View] = []  # likewise
        self.tenants: Tenants = Tenants(tree, kinds_of(self.pools))
        self.samples: list[Sample] = []
        self.reclaimed: list[Reclaimed] = []
        self.stalls: list[Stall] = []
        self._stakes: list[Stake] = []  # by number
        self._owners: list[Tenant] = []  # theirs
        self._at: dict[tuple[int, int], Stake] = {}  # by tenant and pool
        self._known: dict[int, bool] = {}  # indexes of jobs that have a stake
        self._asking: dict[int, bool] = {}  # indexes of jobs that are counted as asking
        self.demanded: list[int] = [0] * len(self.pools)  # GPUs that jobs wait for, by pool
        self._by_kind: list[Pool] = [pool for pool in self.pools if not pool.partition]
        self._keeps_back: bool = False  # whether anybody does not lend all that it is guaranteed
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
        self.order = first.order
        self.placement = first.placement
        self.predictor = first.predictor
        self.lease_s = first.lease_s
        self.suspend_s = first.suspend_s
        self.link_sharing = first.link_sharing
        self.migrates = first.migrates
        self.delay_overrides = first.delay_overrides
        own = isinstance(first, ComposedPolicy) and isinstance(first.preemption, NoPreemption)
        self._replaces: bool = not own  # whether a job may take the place of another of its tenant

    @property
    def tree(self) -> QueueTree:
        """All queues as they were written down, and those that were made of jobs."""
        return self.tenants.tree

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
            part = self._part(pool)
            self._keeps_back = self._keeps_back or any(
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
        for pool in self.pools:
            if kind == events.MACHINE_FAILED:
                pool.fail(machine)
            elif kind == events.MACHINE_REPAIRED:
                pool.repair(machine)
            elif kind == events.UNSCHEDULABLE:
                pool.withhold(machine, int(event.gpus))
        if kind != events.UNSCHEDULABLE:
            for policy in self.policies:
                policy.on(event)
        if kind == events.PASS_ENDED:
            self._set_wakeup(event.now)
        else:
            self._recount = True
            self._stir_all()

    def tell(self, policy: Policy, kind: i64, job: Job | None, now: float) -> None:
        """Tell a policy of what the engine does not."""
        self._own.kind = kind
        self._own.job = job
        self._own.now = now
        policy.on(self._own)

    def _stir_all(self) -> None:
        for stake in self._stakes:
            stake.stirred = True

    def count_demand(self, job: Job, asks: bool) -> None:
        """Count what a job asks for while it waits."""
        index = int(job.index)
        if asks == (index in self._asking):
            return
        stake = self._stakes[job.tenant]
        change = int(job.gpus) if asks else -int(job.gpus)
        stake.tenant.demanded[stake.pool.kind] += change
        self.demanded[stake.pool.number] += change
        if asks:
            self._asking[index] = True
        else:
            del self._asking[index]
        self._note_change(stake.tenant)

    def _note_change(self, tenant: Tenant | None) -> None:
        """It and those above it want more or less than before."""
        while self._changed and tenant is not None:
            self._changed[tenant.number] = True
            tenant = tenant.parent

    def _count_held(self, job: Job, stake: Stake, sign: int, now: float) -> None:
        """Count the GPUs that a job was given or gives back."""
        allocation = job.allocation
        assert allocation is not None
        for pool in self.pools:
            if sign > 0:
                pool.take(job, allocation)
            else:
                pool.give_back(job, allocation)
        for tenant in stake.tenant.up():
            if sign > 0 and job.placed_s < now:
                tenant.charge(job, now)
            tenant.hold_more(stake.pool.kind, sign * int(job.gpus), now)
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

    # The pass.

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        for pool in self.pools:
            if pool.whole:
                pool.cluster = cluster
            if self._recount:
                pool.count()
        self._recount = False
        if now >= self.wakeup_s:
            self._stir_all()
        self._shares.clear()
        self._due_s = INFINITY
        self._now = now
        self._pass += 1
        if now >= self._sample_due_s:
            self._take_samples(now)
        return self._rounds(now)

    def _rounds(self, now: float) -> Iterator[Action]:
        if self.tenants.with_budgets:
            self.tenants.bring_up(now)
            yield from self._stop_spent(now)
        self.choose_pools(now)
        for pool in self.pools:
            if pool.gpus > 0:
                yield from self._share_out(pool, now)
        for number in list(self._lease_ended):
            if self._stakes[number].served != self._pass:
                yield from self._serve(self._stakes[number], INFINITY, now, MANY)
        self._lease_ended.clear()
        yield from self.move_up(now)
        self._tell_stalls(now)

    def choose_pools(self, now: float) -> None:
        """Waiting jobs go to where they would be done sooner, where there are several pools."""

    def move_up(self, now: float) -> Iterator[Action]:
        """Gangs move to faster types of GPU."""
        return iter(())

    def _share_out(self, pool: Pool, now: float) -> Iterator[Action]:
        """The pass of one pool."""
        waiting = [
            stake for stake in self._stakes if stake.pool is pool and self._queue.waiting[stake.number] > 0
        ]  # fmt: skip
        alone = len(self.pools) == 1
        self._scarce = not (alone and self.demanded[0] <= pool.cluster.free_gpus and not self._keeps_back)
        if not waiting:
            if alone or self.migrates:  # running gangs may move
                yield from self._serve(self.stake_at(self.tenants.other, pool), INFINITY, now, MANY)
            self._note_wants(now)
            return
        if not self._scarce:  # there is enough for all
            for stake in self._in_fair_order(waiting):
                stake.owed = False
                yield from self._serve(stake, INFINITY, now, MANY)
            self._note_wants(now)
            return
        if any(self._is_able(stake, now) for stake in waiting):
            order = self._in_fair_order(waiting)
            yield from self._take_back([stake for stake in order if self._is_able(stake, now)], pool, now)
            if not any(stake.owed for stake in waiting):  # until then nobody borrows
                yield from self._leave_the_rest(order, pool, now)
            self._note_dues(now)
        if self.tenants.root.held_in_all > 0:  # else it takes a budget, an operator or nothing at all
            self._due_s = min(self._due_s, now + REVIEW_S)
            for stake in waiting:
                if now < stake.ripe_s < self._due_s:
                    self._due_s = stake.ripe_s

    def _is_able(self, stake: Stake, now: float) -> bool:
        """Whether a look at what the stake is due may come to anything."""
        if now >= stake.claim_s or (stake.stirred and self._replaces):
            return True
        return self._queue.least_gpus(stake.number) <= float(stake.pool.cluster.free_gpus)

    def _in_fair_order(self, stakes: list[Stake]) -> list[Stake]:
        if len(stakes) < 2:
            return stakes
        self.tenants.bring_up(self._now)
        return sorted(stakes, key=lambda stake: standing(stake.tenant))

    def _stop_spent(self, now: float) -> Iterator[Action]:
        """Jobs of those whose budget is used up."""
        for tenant in self.tenants.with_budgets:
            if tenant.budget_left_gpu_s() <= 0.0:
                for job in self._running_of(tenant):
                    if not job.non_preemptible:
                        yield Preempt(job)

    def _can_pay(self, job: Job, stake: Stake, now: float) -> bool:
        """Whether its restart, after those under way, leaves something of each budget: else nobody would get on."""
        cost_gpu_s = job.restart_due_s * float(job.gpus)
        if cost_gpu_s <= 0.0 or not self.tenants.with_budgets:
            return True
        for tenant in stake.tenant.up():
            if tenant.window_s < INFINITY:
                restarting = [
                    float(other.gpus) * max(0.0, other.since_s - now) for other in self._running_of(tenant)
                ]
                if tenant.budget_left_gpu_s() <= cost_gpu_s + sum(restarting):
                    return False
        return True

    def _running_of(self, tenant: Tenant) -> list[Job]:
        """Jobs of the tenant and of those below it."""
        result: list[Job] = []
        for stake in self._stakes:
            if tenant in stake.tenant.up():
                result += [job for job in stake.pool.cluster.running.values() if job.tenant == stake.number]
        return result

    def shares(self, pool: Pool) -> FairShares:
        """Who is due what of the pool's GPUs: in a pass nobody's starts and stops change it."""
        result = self._shares.get(pool.kind)
        if result is None:
            self.tenants.bring_up(self._now)
            gpus = self._by_kind[pool.kind].gpus
            result = FairShares(self.tenants.root, len(self.tenants.all), pool.kind, gpus, self._part(pool))
            self._shares[pool.kind] = result
        return result

    def forget_shares(self) -> None:
        """Jobs ask for GPUs of another pool."""
        self._shares.clear()

    def _part(self, pool: Pool) -> float:
        """What GPUs of its type are of all GPUs."""
        total = sum([each.gpus for each in self._by_kind if len(each.types) == 1])
        return self._by_kind[pool.kind].gpus / total if total > 0 else 0.0

    def _take_back(self, stakes: list[Stake], pool: Pool, now: float) -> Iterator[Action]:
        """Serve each tenant up to its due, and stop others for it where they hold more than theirs."""
        shares = self.shares(pool)
        first = [
            stake for stake in stakes
            if float(stake.tenant.held[pool.kind]) < shares.guaranteed[stake.tenant.number] - EPSILON
        ]  # fmt: skip
        for stake in [*first, *(stake for stake in stakes if stake not in first)]:
            due = shares.due[stake.tenant.number]
            stake.owed = False
            stake.ripe_s = INFINITY
            yield from self._serve(stake, due, now, MANY)
            while True:
                job = self._claimant(stake, due, now)
                if job is None:
                    stake.claim_s = now + REVIEW_S
                    break
                sure = float(stake.tenant.held[pool.kind] + int(job.gpus))
                is_sure = sure <= shares.guaranteed[stake.tenant.number] + EPSILON
                spared: set[int] = set() if is_sure else self._stopped_for.get(int(job.index), set())
                result = claim(job, pool.kind, shares, self._owners, pool.cluster, spared, now)
                if result is None or not result.losers:
                    stake.claim_s = now + REVIEW_S
                    if result is not None and result.ripe_s < INFINITY:
                        stake.ripe_s = result.ripe_s
                        stake.claim_s = min(stake.claim_s, result.ripe_s)
                        stake.owed = is_sure
                    break
                for loser in result.losers:
                    self._note(loser, job, stake, shares, now)
                    yield Preempt(loser)
                yield from self._serve(stake, due, now, MANY)
                if job.status == WAITING:
                    self._put_off(stake, job, now)
                    break

    def _put_off(self, stake: Stake, job: Job, now: float) -> None:
        """The policy did not start the job though it could: if it goes by rounds, keep the GPUs until the next."""
        policy = self.policies[stake.pool.number]
        self.tell(policy, events.PASS_ENDED, None, now)
        by_rounds = now < policy.wakeup_s <= now + LONGEST_ROUND_S
        until_s = policy.wakeup_s if by_rounds else now + max(REVIEW_S, stake.tenant.min_runtime_s)
        self._vain[stake.tenant.number] = (int(job.gpus), until_s)
        stake.claim_s = until_s
        if by_rounds:
            self._reserved[stake.tenant.number, stake.pool.number] = (int(job.gpus), until_s)

    def _claimant(self, stake: Stake, due: float, now: float) -> Job | None:
        """The best-ranked job of the tenant that its due and its limits have room for."""
        room = min(due - float(stake.tenant.held[stake.pool.kind]), self._allowed(stake))
        job = self._queue.best_of(stake.number, room + EPSILON)
        if job is None:
            return None
        gpus, until_s = self._vain.get(stake.tenant.number, (0, 0.0))
        vain = job.gpus == gpus and now < until_s
        return None if vain or not self._can_pay(job, stake, now) else job

    def _note(self, loser: Job, winner: Job, stake: Stake, shares: FairShares, now: float) -> None:
        tenant = self._owners[loser.tenant]
        self._stopped_for.setdefault(int(loser.index), set()).add(int(winner.index))
        self.reasons.lost(loser, winner)
        held, due = tenant.held[stake.pool.kind], shares.due[tenant.number]
        ran_s = now - loser.placed_s
        self.reclaimed.append(
            Reclaimed(
                now, loser.job_id, winner.job_id, tenant.path, stake.tenant.path, int(loser.gpus), ran_s, held, due
            )
        )

    def _leave_the_rest(self, stakes: list[Stake], pool: Pool, now: float) -> Iterator[Action]:
        """Offer what is left to whoever its limits let have more, one job at a time in the fair order."""
        again = True
        while again:
            again = False
            for stake in stakes:
                if self._queue.least_gpus(stake.number) > self._room(stake, INFINITY) + EPSILON:
                    continue
                if stake.settled == self._stops:
                    continue
                started = yield from self._serve(stake, INFINITY, now, 1)
                again = again or (started > 0 and pool.cluster.free_gpus > 0)

    def _serve(self, stake: Stake, due: float, now: float, most_starts: int) -> Generator[Action, None, int]:
        """One pass of the policy for a tenant's jobs, up to what it is due; returns how many jobs it started."""
        starts = freed = 0
        policy = self.policies[stake.pool.number]
        queue = self._queue
        self._open(stake, self._room(stake, due))
        saw_all = queue.shown == INFINITY
        self.reasons.tenant = stake.number
        stake.stirred = False
        stake.served = self._pass
        for action in policy.schedule(now, queue, stake.pool.cluster):
            gpus = int(action.job.gpus)
            if isinstance(action, Start):
                if not self._can_pay(action.job, stake, now):
                    queue.take(action.job)  # it comes back after the pass
                    continue
                if float(gpus) <= min(float(freed), self._allowed(stake)):  # it replaces others of its tenant
                    freed -= gpus
                elif starts >= most_starts or float(gpus) > self._room(stake, due) + EPSILON:
                    queue.take(action.job)  # it comes back after the pass
                    continue
                else:
                    starts += 1
            elif isinstance(action, Preempt) and action.job.tenant != stake.number:
                continue  # not for it to stop
            yield action
            if isinstance(action, Preempt) and action.job.status == WAITING:
                freed += gpus
            self._open(stake, self._room(stake, due) if starts < most_starts else 0.0)
            saw_all = saw_all and queue.shown == INFINITY
        stake.settled = self._stops if saw_all and most_starts == MANY else -1
        queue.open_all()
        return starts

    def _open(self, stake: Stake, room: float) -> None:
        """Hide jobs for which there is no room; nobody where no more GPUs are free: a job may replace another."""
        free = float(stake.pool.cluster.free_gpus)
        self._queue.open(stake.number, INFINITY if free <= room + EPSILON else room + EPSILON)

    def _room(self, stake: Stake, due: float) -> float:
        """GPUs the tenant may take now: up to its due and its limits, of those that others do not keep back."""
        free = float(stake.pool.cluster.free_gpus)
        if self._keeps_back or self._reserved:
            free -= self._reserved_for_others(stake)
        return max(0.0, min(due - float(stake.tenant.held[stake.pool.kind]), min(self._allowed(stake), free)))

    def may_take(self, stake: Stake, gpus: int) -> bool:
        """Whether there are so many GPUs for it."""
        return self._room(stake, INFINITY) >= float(gpus)

    def _allowed(self, stake: Stake) -> float:
        """GPUs that its limits and those above it still let it have."""
        result = INFINITY
        tenant: Tenant | None = stake.tenant
        while tenant is not None:
            result = min(result, tenant.room(stake.pool.kind))
            tenant = tenant.parent
        return result

    def _reserved_for_others(self, stake: Stake) -> float:
        """Free GPUs that others are guaranteed and do not lend."""
        pool = stake.pool
        part = self._part(pool)
        remaining = 0.0
        below: Tenant | None = None
        for tenant in stake.tenant.up():
            for child in tenant.children:
                if child is not below:
                    remaining += max(0.0, child.lends_all_but(pool.kind, part) - float(child.held[pool.kind]))
            below = tenant
        for (tenant_number, pool_number), (gpus, until_s) in list(self._reserved.items()):
            if until_s <= self._now:
                del self._reserved[tenant_number, pool_number]
            elif pool_number == pool.number and tenant_number != stake.tenant.number:
                remaining += float(gpus)
        return remaining

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
        result = [self.shares(pool) for pool in self._by_kind if pool.gpus > 0]
        for tenant in self.tenants.all:
            due = 0.0
            for shares in result:
                due += shares.due[tenant.number]
            tenant.be_due(due, now)
        self._changed = {}

    def _note_wants(self, now: float) -> None:
        """The same where there is enough for all: what each holds and asks for within its limits."""
        if len(self.pools) > 1:
            self._note_dues(now)
            return
        numbers = sorted(self._changed, reverse=True) if self._changed else range(len(self.tenants.all) - 1, 0, -1)
        for number in numbers:  # those below before those above
            tenant = self.tenants.all[number]
            held = float(tenant.held[0])
            wants = held + float(tenant.demanded[0])
            if tenant.children:
                wants = sum([child.due for child in tenant.children])
            tenant.be_due(min(wants, held + max(0.0, tenant.room(0))), now)
        self._changed = {0: True}

    def _tell_stalls(self, now: float) -> None:
        """What the first job of every tenant waits for, where that changed."""
        everybody = now >= self._recorded_s + REVIEW_S
        if everybody:
            self._recorded_s = now
        for stake in self._stakes:
            if self._queue.waiting[stake.number] == 0 or not (everybody or stake.served == self._pass):
                continue
            job = self._queue.best_of(stake.number, INFINITY)
            if job is None or stake.pool.gpus == 0:
                continue
            due = self.shares(stake.pool).due[stake.tenant.number] if self._scarce else INFINITY
            cause, of = cause_of(stake.tenant, stake.pool.kind, job, due)
            if stake.noted != (cause, of.path if cause else ""):
                stake.noted = (cause, of.path if cause else "")
                self.stalls.append(stall(stake.tenant, stake.pool.name, stake.pool.kind, cause, of, due, now))

    def _take_samples(self, now: float) -> None:
        """At the first pass of every hour."""
        self._sample_due_s = (now // SAMPLE_EVERY_S + 1.0) * SAMPLE_EVERY_S
        for pool in self._by_kind:
            shares = self.shares(pool)
            for tenant in self.tenants.all[1:]:
                request = _demanded_in(tenant, pool.kind)
                due, sure = shares.due[tenant.number], shares.guaranteed[tenant.number]
                held, used_gpu_s = tenant.held[pool.kind], tenant.used_gpu_s
                self.samples.append(Sample(now, tenant.path, pool.name, held, request, due, sure, used_gpu_s))


def _demanded_in(tenant: Tenant, kind: int) -> int:
    """By it and those below it."""
    return tenant.demanded[kind] + sum([_demanded_in(child, kind) for child in tenant.children])


def _key(pool: Pool) -> str:
    """What a pool is called where it is saved."""
    return f"{pool.partition}:{pool.name}"
