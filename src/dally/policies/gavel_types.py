"""Gavel over several types of GPU: fractions of time by job and type, realised in rounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from dally.cluster.capacity import Cluster
from dally.cluster.feasibility.signatures import Signatures
from dally.cluster.links import Network
from dally.cluster.topology import Topology
from dally.model import INFINITY, RUNNING, Action, Job, Preempt, Start
from dally.perf.gpu_types import accepted
from dally.policies import events
from dally.policies.effective_shares import Alike, Pools, effective_shares
from dally.policies.events import PolicyEvent
from dally.policies.gate.pools import Pool, make_pools, pool_of
from dally.policies.gavel import GavelPolicy
from dally.policies.placement.base import Placement
from dally.policies.queue import Queue
from dally.policies.view import View


class ThroughputKind(NamedTuple):
    """What makes jobs alike to the program: gang size, and throughput in each pool; 0: it cannot run there."""

    gpus: int
    throughputs: tuple[float, ...]


class Share(NamedTuple):
    """A job's claim to a pool in this round."""

    due: float
    job: Job
    pool: int


class GavelOfTypes(GavelPolicy):
    """Gavel as published: one program over all types, and jobs that change type between rounds.

    `aware=false` tells it that all types are equally fast.
    """

    def __init__(
        self,
        placement: Placement,
        round_s: float,
        aware: bool,
        topology: Topology,
        network: Network | None,
        mixed: list[str],
    ) -> None:
        super().__init__(placement, round_s)
        self._aware = aware
        self._pools = make_pools(topology, network, mixed)
        types = [pool.name for pool in self._pools if len(pool.types) == 1]
        sizes = {pool.name: float(pool.cluster.topology.total_gpus()) for pool in self._pools}
        parts = [
            [(types.index(kind), sizes[kind] / sizes[pool.name]) for kind in types if kind in pool.types]
            for pool in self._pools
        ]
        self._types = types
        self._program = Pools([sizes[kind] for kind in types], parts)
        self._views: list[View] = []
        self._kinds: dict[int, ThroughputKind] = {}  # by job
        self._counts: dict[ThroughputKind, int] = {}
        self._due: dict[ThroughputKind, list[float]] = {}  # what the program gave; empty: to be solved anew
        self._had_s: dict[int, list[float]] = {}  # by job: at work in each pool, but for where it runs now

    def constrain(self, signatures: Signatures) -> None:
        for pool in self._pools:
            pool.cluster.constrain(signatures)

    def begin(self, view: View) -> None:
        super().begin(view)
        self._views = [view.for_type(pool.name) for pool in self._pools]

    # Books.

    def on(self, event: PolicyEvent) -> None:
        kind, machine = event.kind, int(event.machine)
        if kind == events.MACHINE_FAILED:
            for pool in self._pools:
                pool.fail(machine)
        elif kind == events.MACHINE_REPAIRED:
            for pool in self._pools:
                pool.repair(machine)
        elif kind == events.UNSCHEDULABLE:
            for pool in self._pools:
                pool.set_aside(machine, int(event.gpus))
        else:
            super().on(event)

    def _on_job(self, kind: int, job: Job, now: float) -> None:
        if kind == events.QUEUED:
            self._enter(job)
        elif kind == events.STARTED:
            assert job.allocation is not None
            for pool in self._pools:
                pool.take(job, job.allocation)
            if int(job.index) not in self._kinds:  # it ran when we came
                self._on_job(events.QUEUED, job, now)
        elif kind == events.STOPPED:
            self._stopped(job, now)
        elif kind in (events.FINISHED, events.WITHDRAWN):
            self._leave(job)
        super()._on_job(kind, job, now)

    def _enter(self, job: Job) -> None:
        index = int(job.index)
        if index not in self._kinds:
            kind = self._kind(job)
            self._kinds[index] = kind
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._had_s[index] = [0.0] * len(self._pools)
            self._due = {}

    def _stopped(self, job: Job, now: float) -> None:
        assert job.allocation is not None
        worked_s = now - self._works_from_s[int(job.index)]
        self._had_s[int(job.index)][self._pool(job).number] += max(0.0, worked_s)
        for pool in self._pools:
            pool.give_back(job, job.allocation)

    def _leave(self, job: Job) -> None:
        kind = self._kinds.pop(int(job.index), None)
        if kind is not None:
            self._counts[kind] -= 1
            if self._counts[kind] == 0:
                del self._counts[kind]
            del self._had_s[int(job.index)]
            self._due = {}

    def _kind(self, job: Job) -> ThroughputKind:
        names = accepted(job, self._types)
        throughputs: list[float] = []
        for pool, view in zip(self._pools, self._views, strict=True):
            fits = pool.name in names and pool.cluster.topology.total_gpus() >= job.gpus
            throughputs.append((1.0 / view.best(job) if self._aware else 1.0) if fits else 0.0)
        return ThroughputKind(int(job.gpus), tuple(throughputs))

    def _pool(self, job: Job) -> Pool:
        """Where a running job runs."""
        assert job.allocation is not None
        return pool_of(self._pools, job.allocation)

    # The round.

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        if self._views and self._kinds and now >= self._next_s and len(queue) == 0:
            self._next_s = now + self._round_s
            return self._types_round(now, queue)  # nobody waits, but a faster type may have become free
        return super().schedule(now, queue, cluster)

    def _round(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        return self._types_round(now, queue)

    def _types_round(self, now: float, queue: Queue) -> Iterator[Action]:
        chosen, others = self._shares(now, queue)
        left: list[Job] = []
        for job in others:
            if job.status == RUNNING:
                yield Preempt(job)
        for pool, jobs in zip(self._pools, chosen, strict=True):
            for job in jobs:
                if job.status == RUNNING and self._pool(job) is not pool:
                    yield Preempt(job)
        for pool, jobs in zip(self._pools, chosen, strict=True):
            yield from self._seat(jobs, left, now, pool.cluster)
        for job in [*left, *others]:
            if job.status != RUNNING and int(job.index) in self._present:
                yield from self._fill(job, now)
        if not self._running:
            self._next_s = now  # who waits fits nowhere: no round would help, but whatever happens next may

    def _fill(self, job: Job, now: float) -> Iterator[Action]:
        """GPUs that are left, of the fastest type that has enough."""
        for pool in self._by_liking(job):
            allocation = self.placement.place(job, now, pool.cluster)
            if allocation is not None:
                yield Start(job, allocation)
                return

    def _shares(self, now: float, queue: Queue) -> tuple[list[list[Job]], list[Job]]:
        """Who has GPUs of which pool in this round, and who has none; who must keep its own is in neither."""
        room = self._room(now)
        chosen: list[list[Job]] = [[] for _ in self._pools]
        left: dict[int, Job] = {}  # in order of their first claims
        done: set[int] = set()
        for phase in self._order(now, queue):
            job, index = phase.job, int(phase.job.index)
            if index in done:
                continue
            if job.status == RUNNING and not self._may_stop(job, now):
                done.add(index)
            elif phase.due > 0.0 and self._may_take(room, self._pools[phase.pool], job):
                chosen[phase.pool].append(job)
                done.add(index)
            else:
                left[index] = job
        others: list[Job] = []
        for index, job in left.items():
            if index not in done:
                pool = next((pool for pool in self._by_liking(job) if self._may_take(room, pool, job)), None)
                (others if pool is None else chosen[pool.number]).append(job)
        return chosen, others

    def _by_liking(self, job: Job) -> list[Pool]:
        """Pools for a job to which no claim matters: where it is, then the fastest; equals in turn."""
        speeds = self._kinds[int(job.index)].throughputs
        here = self._pool(job) if job.status == RUNNING else None
        phase, count = int(job.index), len(self._pools)
        fitting = [pool for pool in self._pools if speeds[pool.number] > 0.0]
        return sorted(
            fitting, key=lambda pool: (pool is not here, -speeds[pool.number], (pool.number + phase) % count)
        )

    def _may_take(self, room: list[int], pool: Pool, job: Job) -> bool:
        """Take the job's GPUs of a pool if there are enough; a gang in groups waits for what is left to the end."""
        unsure = job.group > 1 or job.signature > 0  # enough GPUs need not mean a place for it
        if unsure and not (job.status == RUNNING and self._pool(job) is pool):
            return False
        return self._take(room, pool, int(job.gpus))

    def _room(self, now: float) -> list[int]:
        """GPUs of each type that are free, or held by jobs that may be stopped."""
        room = [int(pool.cluster.all_free()) for pool in self._pools if len(pool.types) == 1]
        for job in self._running.values():
            if self._may_stop(job, now):
                assert job.allocation is not None
                for machine, gpus in job.allocation.parts():
                    room[next(pool.number for pool in self._pools if pool.has(machine))] += gpus
        return room

    def _take(self, room: list[int], pool: Pool, gpus: int) -> bool:
        """Take so many GPUs of a pool's types if there are enough."""
        kinds = [kind for kind, _ in self._program.parts[pool.number]]
        if sum(room[kind] for kind in kinds) < gpus:
            return False
        for kind in kinds:
            taken = min(gpus, room[kind])
            room[kind] -= taken
            gpus -= taken
        return True

    def _order(self, now: float, queue: Queue) -> list[Share]:
        """Claims to pools, who lacks most first; ties by what is due, then by submission."""
        due = self._solved()
        rows: list[tuple[float, float, int, int, Share]] = []
        for job in [*self._running.values(), *queue.jobs()]:
            had_s = list(self._had_s[int(job.index)])
            if job.status == RUNNING:
                had_s[self._pool(job).number] += max(0.0, now - self._works_from_s[int(job.index)])
            parts = due[self._kinds[int(job.index)]]
            for place, pool in enumerate(self._by_liking(job)):
                part, own_s = parts[pool.number], had_s[pool.number]
                if not self._aware:  # any type is as good as another: a claim is one to all of them
                    part, own_s = sum(parts), sum(had_s)
                lack = part * (now - job.submit_s) / own_s if own_s > 0.0 else INFINITY
                phase = Share(part, job, pool.number)
                rows.append((-lack if part > 0.0 else 0.0, -part, int(job.index), place, phase))
        rows.sort(key=_rank)
        ranked: set[int] = set()
        for lack, _, index, _, phase in rows:
            if phase.job.status != RUNNING and index not in ranked:  # by the best of its claims
                ranked.add(index)
                queue.rerank(phase.job, lack, 0.0)
        return [row[4] for row in rows]

    def _solved(self) -> dict[ThroughputKind, list[float]]:
        """The program's answer for the jobs that are there."""
        if not self._due:
            kinds = list(self._counts)
            jobs = [Alike(float(kind.gpus * self._counts[kind]), self._levels(kind)) for kind in kinds]
            self._due = dict(zip(kinds, effective_shares(jobs, self._program), strict=True))
        return self._due

    def _levels(self, kind: ThroughputKind) -> tuple[float, ...]:
        """How well off such a job is in each pool: throughput against an equal share of all types, by its size."""
        sizes = self._program.gpus
        equal = sum(size * speed for size, speed in zip(sizes, kind.throughputs, strict=False)) / sum(sizes)
        equal = equal or max(kind.throughputs) or 1.0  # it accepts a mix of types only
        return tuple(kind.gpus * speed / equal for speed in kind.throughputs)


def _rank(row: tuple[float, float, int, int, Share]) -> tuple[int, float, float, int, int]:
    return 0 if row[4].job.prioritized else 1, row[0], row[1], row[2], row[3]
