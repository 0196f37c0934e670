"""The gate: whose waiting jobs the policy sees, and how many GPUs they may take."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from typing import Final

from mypy_extensions import mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, WAITING, Action, Job, Preempt, Start
from dally.policies import events
from dally.policies.gate.fair_shares import FairShares, comes_before, standing
from dally.policies.gate.gate_ledger import REVIEW_S, GateLedger, Stake, demanded_in
from dally.policies.gate.notes import EPSILON, Reclaimed
from dally.policies.gate.pools import Pool
from dally.policies.gate.reclaim import claim
from dally.policies.gate.tenants import Tenant
from dally.policies.queue import Queue

LONGEST_ROUND_S: Final = 3600.0  # policies that go by longer ones are not waited for
MANY: Final = 1 << 30
FEW: Final = 32  # tenants that are put in order one by one: so few are faster so than by a sort


@mypyc_attr(allow_interpreted_subclasses=True)
class Gate(GateLedger):
    """Tenants take turns before one policy, which sees the jobs of the one whose turn it is and knows of no others.

    A pass takes back what is lent to those who must give it back, and offers GPUs to every tenant up to its due.
    What is left goes to whoever may have more, in the fair order, one job at a time. Limits and budgets hold
    whatever the policy asks for. Of GPUs of several types each pool has a policy of its own:
    speeds differ by type, and what a policy knows of places is about one cluster (policies/gate/pooled.py).
    """

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
        alone = len(self.pools) == 1 and self.pools[0].gpus > 0
        if len(queue) == 0 and alone and not self.tenants.with_budgets:
            return self._idle_pass(now)
        return self._rounds(now)

    def _idle_pass(self, now: float) -> Iterable[Action]:
        """A pass in which nobody waits: most policies have nothing to do then, and that costs no generators."""
        stake = self.stake_at(self.tenants.other, self.pools[0])
        self._scarce = self._is_scarce(self.pools[0])
        actions = self._offer(stake, INFINITY, now)
        if actions:
            return self._rest_of_idle(stake, actions, now, True)
        self._end_offer(stake)
        self._note_demands(now)
        for number in list(self._lease_ended):
            stake = self._stakes[number]
            if stake.served != self._pass:
                actions = self._offer(stake, INFINITY, now)
                if actions:
                    return self._rest_of_idle(stake, actions, now, False)
                self._end_offer(stake)
        self._lease_ended.clear()
        self._note_stalls(now)
        return actions

    def _rest_of_idle(self, stake: Stake, actions: Iterable[Action], now: float, first: bool) -> Iterator[Action]:
        """What the policy asks of running jobs while nobody waits, and what of the pass is left after it."""
        yield from self._serve(stake, INFINITY, now, MANY, actions)
        if first:
            self._note_demands(now)
        yield from self._end_leases(now)
        self._note_stalls(now)

    def _rounds(self, now: float) -> Iterator[Action]:
        if self.tenants.with_budgets:
            self.tenants.bring_up(now)
            yield from self._stop_spent(now)
        self.choose_pools(now)
        for pool in self.pools:
            if pool.gpus > 0:
                yield from self._share_out(pool, now)
        if self._lease_ended:
            yield from self._end_leases(now)
        if len(self.pools) > 1:
            yield from self.move_up(now)
        self._note_stalls(now)

    def _end_leases(self, now: float) -> Iterator[Action]:
        """Serve those whose jobs' leases ended and that were not served yet."""
        for number in list(self._lease_ended):
            if self._stakes[number].served != self._pass:
                yield from self._serve(self._stakes[number], INFINITY, now, MANY)
        self._lease_ended.clear()

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
        self._scarce = self._is_scarce(pool)
        if not waiting:
            if len(self.pools) == 1 or self.migrates:  # running gangs may move
                yield from self._serve(self.stake_at(self.tenants.other, pool), INFINITY, now, MANY)
            self._note_demands(now)
            return
        if not self._scarce:  # there is enough for all
            for stake in self._in_fair_order(waiting):
                stake.owed = False
                yield from self._serve(stake, INFINITY, now, MANY)
            self._note_demands(now)
            return
        able = False
        for stake in waiting:
            stake.able = self._is_able(stake, now)
            able = able or stake.able
        if able:
            order = self._in_fair_order(waiting)
            yield from self._take_back([stake for stake in order if stake.able], pool, now)
            if not any(stake.owed for stake in waiting):  # until then nobody borrows
                yield from self._leave_the_rest(order, pool, now)
            self._note_dues(now)
        if self.tenants.root.held_in_all > 0:  # else it takes a budget, an operator or nothing at all
            self._due_s = min(self._due_s, now + REVIEW_S)
            for stake in waiting:
                if now < stake.ripe_s < self._due_s:
                    self._due_s = stake.ripe_s

    def _is_scarce(self, pool: Pool) -> bool:
        """Whether more is asked for than is free, as far as that matters; always where there are several pools."""
        if len(self.pools) > 1 or self.demanded[0] > int(pool.cluster.all_free()) or self._lends_partly:
            return True
        return any(demanded_in(tenant, pool.kind) > tenant.room(pool.kind) for tenant in self._limited)

    def _is_able(self, stake: Stake, now: float) -> bool:
        """Whether a look at what the stake is due may come to anything."""
        if now >= stake.claim_s or (stake.stirred and self._replaces):
            return True
        return self._queue.least_gpus(stake.number) <= float(stake.pool.cluster.all_free())

    def _in_fair_order(self, stakes: list[Stake]) -> list[Stake]:
        if len(stakes) < 2:
            return stakes
        self.tenants.bring_up(self._now)
        if len(stakes) > FEW:
            return sorted(stakes, key=lambda stake: standing(stake.tenant))
        result: list[Stake] = []
        for stake in stakes:
            place = len(result)
            while place > 0 and comes_before(stake.tenant, result[place - 1].tenant):
                place -= 1
            result.insert(place, stake)
        return result

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

    def _take_back(self, stakes: list[Stake], pool: Pool, now: float) -> Iterator[Action]:
        """Serve each tenant up to its due, and stop others for it where they hold more than theirs."""
        shares = self.shares(pool)
        first = [
            stake for stake in stakes
            if float(stake.tenant.held[pool.kind]) < shares.guaranteed[stake.tenant.number] - EPSILON
        ]  # fmt: skip
        for stake in first + [stake for stake in stakes if stake not in first] if first else stakes:
            due = shares.due[stake.tenant.number]
            stake.owed = False
            stake.ripe_s = INFINITY
            yield from self._serve(stake, due, now, MANY)
            while True:
                job = self._claimant(stake, due, now)
                if job is None:
                    stake.claim_s = now + REVIEW_S
                    break
                sure = float(stake.tenant.held[pool.kind] + job.gpus)
                is_sure = sure <= shares.guaranteed[stake.tenant.number] + EPSILON
                spared: set[int] = set() if is_sure else self._stopped_for.get(int(job.index), set())
                full = self._at_limit(stake, float(job.gpus))
                need = 0.0 if full is None else float(job.gpus) - full.room(pool.kind)
                result = claim(job, pool.kind, shares, self._owners, pool.cluster, spared, now, full, need)
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
        self.notify(policy, events.PASS_ENDED, None, now)
        by_rounds = now < policy.wakeup_s <= now + LONGEST_ROUND_S
        until_s = policy.wakeup_s if by_rounds else now + max(REVIEW_S, stake.tenant.min_runtime_s)
        self._vain[stake.tenant.number] = (int(job.gpus), until_s)
        stake.claim_s = until_s
        if by_rounds:
            self._reserved[stake.tenant.number, stake.pool.number] = (int(job.gpus), until_s)

    def _claimant(self, stake: Stake, due: float, now: float) -> Job | None:
        """The best-ranked job of the tenant that its due and its limits have room for, once borrowers give back."""
        room = min(due - float(stake.tenant.held[stake.pool.kind]), stake.tenant.room(stake.pool.kind))
        for tenant in stake.tenant.up()[1:]:
            above = tenant.room(stake.pool.kind)
            if above < room:
                room = 0.0 if tenant.is_closed() else min(room, above + self._borrowed(tenant, stake.pool))
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
        held, due = int(tenant.held[stake.pool.kind]), shares.due[tenant.number]
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
                again = again or (started > 0 and pool.cluster.all_free() > 0)

    def _offer(self, stake: Stake, due: float, now: float) -> Iterable[Action]:
        """A pass of the policy for a tenant's jobs, up to what it is due, begins: what it asks for."""
        self._queue.cluster = stake.pool.cluster
        stake.pool.cluster.focus(None)
        self._open(stake, self._room(stake, due))
        self.reasons.tenant = stake.number
        stake.stirred = False
        stake.served = self._pass
        return self.policies[stake.pool.number].schedule(now, self._queue, stake.pool.cluster)

    def _end_offer(self, stake: Stake) -> None:
        """The policy asked for nothing."""
        stake.settled = self._stops if self._queue.shown == INFINITY else -1
        self._queue.open_all()

    def _serve(
        self, stake: Stake, due: float, now: float, most_starts: int, actions: Iterable[Action] | None = None
    ) -> Generator[Action, None, int]:
        """One pass of the policy for a tenant's jobs, up to what it is due; returns how many jobs it started.

        `actions`: what `_offer` gave, if it has begun.
        """
        starts = freed = unpaid = 0
        policy = self.policies[stake.pool.number]
        queue = self._queue
        if actions is None:
            actions = self._offer(stake, due, now)
        saw_all = queue.shown == INFINITY
        for action in actions:
            gpus = int(action.job.gpus)
            if isinstance(action, Start):
                if not self._can_pay(action.job, stake, now):
                    queue.take(action.job)  # it comes back after the pass
                    unpaid += 1
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
        if unpaid:  # the next window pays: a policy that decides only when something happened must decide again
            self.notify(policy, events.CAPACITY_CHANGED, None, now)
        return starts

    def _open(self, stake: Stake, room: float) -> None:
        """Hide jobs for which there is no room; nobody where no more GPUs are free: a job may replace another."""
        free = float(stake.pool.cluster.all_free())
        self._queue.open(stake.number, INFINITY if free <= room + EPSILON else room + EPSILON)

    def _room(self, stake: Stake, due: float) -> float:
        """GPUs the tenant may take now: up to its due and its limits, of those that others do not keep back."""
        free = float(stake.pool.cluster.all_free())
        if self._lends_partly or self._reserved:
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

    def _at_limit(self, stake: Stake, gpus: float) -> Tenant | None:
        """The closest of those above whose limit has no room for so many GPUs more; None: all have."""
        for tenant in stake.tenant.up()[1:]:
            if tenant.room(stake.pool.kind) < gpus - EPSILON:
                return tenant
        return None

    def _borrowed(self, above: Tenant, pool: Pool) -> float:
        """GPUs that those below it hold beyond their due: its limit has room for them again once they stop."""
        due = self.shares(pool).due
        result = 0.0
        for owner in self._owners:
            if owner is not above and above in owner.up():
                result += max(0.0, float(owner.held[pool.kind]) - due[owner.number])
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
