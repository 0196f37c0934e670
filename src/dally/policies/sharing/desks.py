"""A policy made of many: which one a job belongs to, and telling each what happens to its jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dally.cluster.links import Network
from dally.cluster.topology import Topology
from dally.model import CANCELLED, Job
from dally.perf.gpu_types import accepted
from dally.policies import events
from dally.policies.base import Policy
from dally.policies.delay_timers import DelayOverrides
from dally.policies.events import PolicyEvent
from dally.policies.ordering.base import Order
from dally.policies.placement.base import Placement
from dally.policies.prediction.base import Predictor
from dally.policies.queue import Queue
from dally.policies.sharing.lines import Lines
from dally.policies.sharing.pool import Pool, kinds_of, make_pools
from dally.policies.sharing.pool_choice import Lengths, Standing, soonest
from dally.policies.sharing.teams import Team, below, for_priority, make_teams
from dally.policies.view import View
from dally.quotas.tree import QueueTree


class Desk(NamedTuple):
    """A team's policy for one pool, and the line of its waiting jobs."""

    team: Team
    pool: Pool
    policy: Policy
    line: Queue
    number: int  # of the line


class Desks(Policy):
    """Of every team and pool one policy. The engine sees one; each of them its own jobs and all the machines."""

    def __init__(
        self,
        tree: QueueTree,
        build: Callable[[], Policy],
        topology: Topology,
        network: Network | None = None,
        mixed: Sequence[str] = (),
    ) -> None:
        """`mixed`: sets of types that jobs may mix, as `A100+V100`."""
        self.tree = tree
        self._build = build
        self._sample = build()  # for what all of them have in common
        self._pools = make_pools(topology, network, list(mixed))
        self._root, self._leaves = make_teams(tree, kinds_of(self._pools))
        self._teams = list(below(self._root))
        self._lines = Lines()
        self.queue = self._lines
        self.order = _OrderOfDesks(self)
        self.placement = _PlacementOfDesks(self)
        self.predictor = _PredictorOfDesks(self)
        self.lease_s = self._sample.lease_s
        self.suspend_s = self._sample.suspend_s
        self.link_sharing = self._sample.link_sharing
        if self._sample.delay_overrides is not None:
            self.delay_overrides = _OverridesOfDesks(self)
        self._own = PolicyEvent()  # what it tells the policies by itself
        self._desks: dict[tuple[int, int], Desk] = {}
        self._desk_of: dict[int, Desk] = {}  # by the job's index
        self._team_of: dict[int, Team] = {}
        self._waiting: set[int] = set()  # indexes of jobs that are counted as asking
        self._asked = [0] * len(self._pools)  # GPUs that jobs wait for, by pool
        self._past: list[Job] = []
        self._lengths = Lengths()
        self._views: list[View] = []  # by pool
        self._lease_ended: set[int] = set()  # numbers of desks: of some of their jobs, since the last pass
        self._moving: Desk | None = None  # where to the job goes that is about to migrate

    @property
    def teams(self) -> list[Team]:
        """All queues, parents first, without the root."""
        return self._teams[1:]

    def knows(self, job: Job) -> bool:
        """Whether the job is one of a policy's here."""
        return int(job.index) in self._desk_of

    def begin(self, view: View) -> None:
        super().begin(view)
        self._sample.begin(view)
        self._views = [view if pool.whole else view.for_type(pool.name) for pool in self._pools]

    def teach(self, past: list[Job]) -> None:
        """Jobs of an earlier time, for policies that predict."""
        self._past = past

    def overrides(self) -> list[DelayOverrides]:
        """Where each policy looks for what operators said of delays."""
        found = [desk.policy.delay_overrides for desk in self._desks.values()]
        return [overrides for overrides in found if overrides is not None]

    # Handing on what happens to a job to the policy it belongs to.

    def desk(self, job: Job) -> Desk:
        """The policy that the job belongs to."""
        found = self._desk_of.get(int(job.index))
        if found is None:
            team = for_priority(self._leaves[self.tree.queue_of(job)], job.priority)
            self._team_of[int(job.index)] = team
            found = self._desk_at(team, self._first_pool(job))
            self._sit(job, found)
        return found

    def _sit(self, job: Job, desk: Desk) -> None:
        self._desk_of[int(job.index)] = desk
        self._lines.assign(job, desk.number)

    def _first_pool(self, job: Job) -> Pool:
        """Where the job is: if it runs that shows where, else where it would be done first."""
        if len(self._pools) == 1:
            return self._pools[0]
        if job.allocation is not None:
            held = job.allocation.parts()
            fitting = [pool for pool in self._pools if all(pool.has(machine) for machine, _ in held)]
            return min(fitting, key=lambda pool: (pool.partition != job.partition, len(pool.types)))
        return self._soonest(job)

    def _soonest(self, job: Job) -> Pool:
        """Where a waiting job would be done first."""
        left_s = self._lengths.left_s(job, job.work_s)
        return soonest(self._open_to(job), job, left_s, self._sample.migrates)

    def _open_to(self, job: Job) -> list[Standing]:
        """The pools whose GPUs the job accepts."""
        known = any(pool.partition == job.partition for pool in self._pools)
        pools = [pool for pool in self._pools if pool.partition == (job.partition if known else "")]
        names = accepted(job, [pool.name for pool in pools if len(pool.types) == 1])
        pools = [pool for pool in pools if pool.name in names] or pools
        moves = self._sample.migrates
        return [
            Standing(pool, self._views[pool.number], self._wanted(pool), self._unclaimed(pool, job) if moves else 0)
            for pool in pools
        ]

    def _wanted(self, pool: Pool) -> int:
        """GPUs of the pool that are held and asked for."""
        held = pool.cluster.topology.total_gpus() - int(pool.cluster.free_gpus)
        return held + self._asked[pool.number]

    def _unclaimed(self, pool: Pool, job: Job) -> int:
        """Free GPUs less those that others in the pool's lines ask for; gangs that need more do not count."""
        free = int(pool.cluster.free_gpus)
        claimed = 0
        for desk in self._desks.values():
            if desk.pool is pool and len(desk.line) > 0:
                claimed += sum(
                    int(group.gpus) * len(group.heap) for group in desk.line.classes if group.gpus <= free
                )
        own = self._desk_of.get(int(job.index))
        if own is not None and own.pool is pool and job.gpus <= free and self._lines.holds(job):
            claimed -= int(job.gpus)
        return free - claimed

    def _desk_at(self, team: Team, pool: Pool) -> Desk:
        found = self._desks.get((team.number, pool.number))
        if found is None:
            policy = self._build()
            policy.begin(self._views[pool.number])
            if self._past:
                policy.predictor.teach(self._past)
            if self.delay_overrides is not None and policy.delay_overrides is not None:
                for gpus, delay_s in self.delay_overrides.sizes.items():
                    policy.delay_overrides.set_s(gpus, delay_s)
            number = int(self._lines.open())
            found = Desk(team, pool, policy, self._lines.lines[number], number)
            self._desks[team.number, pool.number] = found
        return found

    def on(self, event: PolicyEvent) -> None:
        job = event.job
        if job is None:
            self._on_cluster(event)
            return
        kind, now = event.kind, event.now
        if kind in (events.QUEUED, events.WITHDRAWN, events.STARTED, events.STOPPED):
            self._bring_up(now)
            if kind != events.STOPPED:
                self._waits(job, kind == events.QUEUED)
            if kind in (events.STARTED, events.STOPPED):
                self._holds(job, 1 if kind == events.STARTED else -1)
        desk = self.desk(job)
        if kind == events.LEASE_ENDED:
            self._lease_ended.add(desk.number)
        desk.policy.on(event)
        if kind in (events.STARTED, events.STOPPED):
            if kind == events.STOPPED and self._moving is not None:
                self._hand_over(job, desk, self._moving, now)
                self._tell(self._moving, events.QUEUED, job, now)
            self._tell_others(desk, now)
        elif kind == events.FINISHED:
            self._lengths.learn(job)
            self._forget(job)
        elif kind == events.WITHDRAWN and job.status == CANCELLED:
            self._forget(job)

    def _on_cluster(self, event: PolicyEvent) -> None:
        """What happened to a machine or to the network concerns all."""
        kind, machine = event.kind, int(event.machine)
        for pool in self._pools:
            if kind == events.MACHINE_FAILED:
                pool.fail(machine)
            elif kind == events.MACHINE_REPAIRED:
                pool.repair(machine)
            elif kind == events.UNSCHEDULABLE:
                pool.withhold(machine, int(event.gpus))
        if kind != events.UNSCHEDULABLE:
            for desk in self._desks.values():
                desk.policy.on(event)

    def _tell(self, desk: Desk, kind: int, job: Job | None, now: float) -> None:
        """Tell one policy of what the engine does not."""
        self._own.kind, self._own.job, self._own.now = kind, job, now
        desk.policy.on(self._own)

    def _forget(self, job: Job) -> None:
        """The job is gone for good."""
        del self._desk_of[int(job.index)]
        del self._team_of[int(job.index)]

    def _waits(self, job: Job, waits: bool) -> None:
        """Count what a job asks for while it waits."""
        index = int(job.index)
        if waits == (index in self._waiting):
            return
        desk = self.desk(job)
        change = int(job.gpus) if waits else -int(job.gpus)
        desk.team.asked[desk.pool.kind] += change
        self._asked[desk.pool.number] += change
        (self._waiting.add if waits else self._waiting.remove)(index)

    def _holds(self, job: Job, sign: int) -> None:
        """Count the GPUs that a job was given or gives back."""
        allocation = job.allocation
        assert allocation is not None
        for pool in self._pools:
            if sign > 0:
                pool.take(job, allocation)
            else:
                pool.give_back(job, allocation)
        desk = self.desk(job)
        for team in desk.team.up():
            team.held[desk.pool.kind] += sign * int(job.gpus)

    def _tell_others(self, desk: Desk, now: float) -> None:
        for other in self._desks.values():
            if other is not desk and (len(other.line) > 0 or other.policy.migrates):
                self._tell(other, events.CAPACITY_CHANGED, None, now)

    def _collect_reasons(self) -> None:
        """What the policies recorded, after what is recorded here."""
        for desk in self._desks.values():
            self.reasons.extend(desk.policy.reasons.collect())

    def save(self) -> dict[str, Any]:
        learnt = {_key(desk.team, desk.pool): desk.policy.save() for desk in self._desks.values()}
        kinds = {type(desk.policy).__qualname__ for desk in self._desks.values()}
        return {
            "teams": {team.path: team.save() for team in self._teams},
            "policy": next(iter(kinds), ""),
            "learnt": learnt,
        }

    def load(self, saved: dict[str, Any]) -> None:
        """What teams used counts under any policy; what another kind of policy had learnt does not."""
        for team in self._teams:
            if team.path in saved["teams"]:
                team.load(saved["teams"][team.path])
            for pool in self._pools:
                learnt = saved["learnt"].get(_key(team, pool))
                if learnt is not None:
                    policy = self._desk_at(team, pool).policy
                    if saved.get("policy", "") == type(policy).__qualname__:
                        policy.load(learnt)

    def _bring_up(self, now: float) -> None:
        for team in self._teams:
            team.bring_up(now)

    def _change_lines(self, now: float) -> None:
        """Waiting jobs go to where they would be done sooner: of each line the first of every size."""
        for desk in list(self._desks.values()):
            for group in list(desk.line.classes):
                job = group.job(group.heap.first()) if len(group.heap) > 0 else None
                if job is None or len(self._open_to(job)) < 2:
                    continue
                self._waits(job, False)  # it does not wait for itself
                pool = self._soonest(job)
                self._waits(job, True)
                if pool is not desk.pool:
                    self._change_line(job, desk, self._desk_at(desk.team, pool), now)

    def _change_line(self, job: Job, old: Desk, new: Desk, now: float) -> None:
        self._waits(job, False)
        old.line.remove(job)
        self._hand_over(job, old, new, now)
        new.line.add(job, new.policy.order.key(job, now), new.policy.order.tie(job))
        self._waits(job, True)
        self._tell(new, events.QUEUED, job, now)

    def _hand_over(self, job: Job, old: Desk, new: Desk, now: float) -> None:
        """The job, which is in no line, goes on under another policy."""
        old.line.forget(job)
        status = job.status
        job.status = CANCELLED  # for the old one it is as gone as that
        self._tell(old, events.WITHDRAWN, job, now)
        job.status = status
        self._sit(job, new)
        job.kind = new.policy.placement.kind(job)


class _OrderOfDesks(Order):
    """Each job's rank as its own policy has it; so do the next two."""

    def __init__(self, desks: Desks) -> None:
        self._desks = desks

    def key(self, job: Job, now: float) -> float:
        return self._desks.desk(job).policy.order.key(job, now)

    def tie(self, job: Job) -> float:
        return self._desks.desk(job).policy.order.tie(job)


class _PlacementOfDesks(Placement):
    def __init__(self, desks: Desks) -> None:
        self._desks = desks

    def kind(self, job: Job) -> int:
        return self._desks.desk(job).policy.placement.kind(job)


class _PredictorOfDesks(Predictor):
    def __init__(self, desks: Desks) -> None:
        self._desks = desks

    def predict_s(self, job: Job, now: float) -> float:
        return self._desks.desk(job).policy.predictor.predict_s(job, now)

    def teach(self, past: list[Job]) -> None:
        self._desks.teach(past)


class _OverridesOfDesks(DelayOverrides):
    def __init__(self, desks: Desks) -> None:
        super().__init__()
        self._desks = desks

    def set_s(self, gpus: int, delay_s: float) -> None:
        super().set_s(gpus, delay_s)
        for overrides in self._desks.overrides():
            overrides.set_s(gpus, delay_s)


def _key(team: Team, pool: Pool) -> str:
    """What a desk is called where it is saved."""
    return f"{team.path}:{pool.partition}:{pool.name}"
