"""The gate of a cluster with several pools: GPUs of several types."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dally.cluster.links import Network
from dally.cluster.topology import Topology
from dally.model import CANCELLED, Action, Job, Migrate
from dally.perf.gpu_types import accepted
from dally.policies import events
from dally.policies.base import Policy
from dally.policies.delay_timers import DelayOverrides
from dally.policies.gate.gate import Gate
from dally.policies.gate.gate_ledger import Stake
from dally.policies.gate.pools import Lengths, MoveUp, Pool, PoolDemand, best_move, make_pools, soonest
from dally.policies.ordering.base import Order
from dally.policies.placement.base import Placement
from dally.policies.prediction.base import Predictor
from dally.quotas.tree import QueueTree


def make_gate(
    tree: QueueTree,
    build: Callable[[], Policy],
    topology: Topology,
    network: Network | None = None,
    mixed: Sequence[str] = (),
) -> Gate:
    """The gate of that cluster. `mixed`: sets of types that jobs may mix, as `A100+V100`."""
    pools = make_pools(topology, network, list(mixed))
    return (PooledGate if len(pools) > 1 else Gate)(tree, build, pools)


class PooledGate(Gate):
    """Of every pool one policy: each sees the jobs that wait for the pool, and its machines alone."""

    def __init__(self, tree: QueueTree, build: Callable[[], Policy], pools: list[Pool]) -> None:
        super().__init__(tree, build, pools)
        self._lengths = Lengths()
        self._moving: Stake | None = None  # where to the job goes that is about to migrate
        self.order = _OrderByPool(self)
        self.placement = _PlacementByPool(self)
        self.predictor = _PredictorByPool(self)
        if self.delay_overrides is not None:
            self.delay_overrides = _OverridesByPool(self)

    def policy_of(self, job: Job) -> Policy:
        """The policy of the pool that the job waits for or runs in."""
        return self.policies[self.stake(job).pool.number]

    def first_pool(self, job: Job) -> Pool:
        """Where the job is: if it runs that shows where, else where it would be done first."""
        if job.allocation is not None:
            held = job.allocation.parts()
            fitting = [pool for pool in self.pools if all(pool.has(machine) for machine, _ in held)]
            return min(fitting, key=lambda pool: len(pool.types))
        return self._soonest(job)

    def _soonest(self, job: Job) -> Pool:
        """Where a waiting job would be done first."""
        return soonest(self._open_to(job), job, self._lengths.left_s(job, job.work_s), self.migrates)

    def _open_to(self, job: Job) -> list[PoolDemand]:
        """The pools whose GPUs the job accepts."""
        names = accepted(job, [pool.name for pool in self.pools if len(pool.types) == 1])
        pools = [pool for pool in self.pools if pool.name in names] or self.pools
        return [
            PoolDemand(
                pool,
                self.views[pool.number],
                self._demanded(pool),
                self._unclaimed(pool, job) if self.migrates else 0,
            )
            for pool in pools
        ]

    def _demanded(self, pool: Pool) -> int:
        """GPUs of the pool that are held and asked for."""
        held = pool.cluster.topology.total_gpus() - int(pool.cluster.all_free())
        return held + self.demanded[pool.number]

    def _unclaimed(self, pool: Pool, job: Job) -> int:
        """Free GPUs less those that others who wait for the pool ask for; gangs that need more do not count."""
        free = int(pool.cluster.all_free())
        claimed = 0
        for group in self._queue.classes:
            if group.gpus > free:
                break
            if self._stakes[group.tenant].pool is pool:
                claimed += int(group.gpus) * len(group.heap)
        waits = job.slot >= 0 and self.knows(job) and self._queue.holds(job)
        if waits and job.gpus <= free and self.stake(job).pool is pool:
            claimed -= int(job.gpus)
        return free - claimed

    def moved(self, job: Job, stake: Stake, kind: int, now: float) -> None:
        if kind == events.STOPPED and self._moving is not None:
            self._hand_over(job, stake, self._moving, now)
            self.notify(self.policies[self._moving.pool.number], events.QUEUED, job, now)
        for pool, policy in zip(self.pools, self.policies, strict=True):
            if pool is not stake.pool:
                self.notify(policy, events.CAPACITY_CHANGED, None, now)

    def forget(self, job: Job) -> None:
        if job.status != CANCELLED:
            self._lengths.learn(job)
        super().forget(job)

    def choose_pools(self, now: float) -> None:
        """Waiting jobs go to where they would be done sooner: of each tenant the first of every size."""
        groups = sorted(self._queue.classes, key=lambda group: int(group.tenant))  # which leaves sizes in order
        for group in groups:
            job = group.job(group.heap.first()) if len(group.heap) > 0 else None
            if job is None or len(self._open_to(job)) < 2:
                continue
            old = self.stake(job)
            self.count_demand(job, False)  # it does not wait for itself
            pool = self._soonest(job)
            if pool is old.pool:
                self.count_demand(job, True)
                continue
            new = self.stake_at(old.tenant, pool)
            self._queue.remove(job)
            self._hand_over(job, old, new, now)
            order = self.policies[pool.number].order
            self._queue.add(job, order.key(job, now), order.tie(job))
            self.count_demand(job, True)
            new.stirred = True
            self.notify(self.policies[pool.number], events.QUEUED, job, now)
        self.forget_shares()

    def _hand_over(self, job: Job, old: Stake, new: Stake, now: float) -> None:
        """The job, which is not in the queue, goes on under another policy."""
        self._queue.forget(job)
        status = job.status
        job.status = CANCELLED  # for the old one it is as gone as that
        self.notify(self.policies[old.pool.number], events.WITHDRAWN, job, now)
        job.status = status
        self.assign(job, new)
        job.kind = self.policies[new.pool.number].placement.kind(job)

    def move_up(self, now: float) -> Iterator[Action]:
        """Gangs move to faster types of GPU that nobody waits for, those first to whom each GPU is worth most."""
        if not self.migrates:
            return
        rows: list[tuple[float, int, Job]] = []
        for stake in list(self._stakes):
            for job in stake.pool.cluster.running.values():
                move = self._best_move(job, stake, now)
                if move is not None:
                    rows.append((-move.saved_s, int(job.index), job))
        for _, _, job in sorted(rows, key=lambda row: row[:2]):
            move = self._best_move(job, self.stake(job), now)  # as it is after those before it
            if move is not None:
                self._moving = self.stake_at(self.stake(job).tenant, move.pool)
                yield Migrate(job, move.allocation)
                self._moving = None

    def _best_move(self, job: Job, stake: Stake, now: float) -> MoveUp | None:
        if (
            job.non_preemptible
            or job.non_migratable
            or job.tenant != stake.number
            or job.since_s > now
            or job.placed_s >= now
            or job.rate <= 0.0
        ):
            return None
        open_to = [one for one in self._open_to(job) if one.pool is not stake.pool]
        allowed = [one for one in open_to if self.may_take(self.stake_at(stake.tenant, one.pool), int(job.gpus))]
        return best_move(job, self.views[stake.pool.number], allowed, self._lengths, now)


class _OrderByPool(Order):
    """Each job's rank as the policy of its pool has it; likewise the next three."""

    def __init__(self, gate: PooledGate) -> None:
        self._gate = gate

    def key(self, job: Job, now: float) -> float:
        return self._gate.policy_of(job).order.key(job, now)

    def tie(self, job: Job) -> float:
        return self._gate.policy_of(job).order.tie(job)


class _PlacementByPool(Placement):
    def __init__(self, gate: PooledGate) -> None:
        self._gate = gate

    def kind(self, job: Job) -> int:
        return self._gate.policy_of(job).placement.kind(job)


class _PredictorByPool(Predictor):
    def __init__(self, gate: PooledGate) -> None:
        self._gate = gate

    def predict_s(self, job: Job, now: float) -> float:
        return self._gate.policy_of(job).predictor.predict_s(job, now)

    def teach(self, past: list[Job]) -> None:
        for policy in self._gate.policies:
            policy.predictor.teach(past)


class _OverridesByPool(DelayOverrides):
    def __init__(self, gate: PooledGate) -> None:
        super().__init__()
        self._gate = gate

    def set_s(self, gpus: int, delay_s: float) -> None:
        super().set_s(gpus, delay_s)
        for policy in self._gate.policies:
            if policy.delay_overrides is not None:
                policy.delay_overrides.set_s(gpus, delay_s)
