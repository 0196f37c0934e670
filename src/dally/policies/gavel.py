"""Gavel: max-min fair fractions of time, realised in rounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from librt.vecs import vec
from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.cluster.links import Network
from dally.cluster.topology import Topology
from dally.model import INFINITY, RUNNING, Action, Job, Preempt, Start
from dally.policies import events
from dally.policies.base import Param, Policy
from dally.policies.consolidating import emptied, needed
from dally.policies.declaration import NOTHING, NamedPolicy
from dally.policies.events import PolicyEvent
from dally.policies.placement.base import Placement
from dally.policies.placement.best_fit import BestFit
from dally.policies.placement.closest_tier import TIER, ClosestTier, at_tier
from dally.policies.queue import Queue
from dally.policies.settings import Settings
from dally.policies.victims import Weighing
from dally.policies.view import View


def max_min_fractions(jobs: Mapping[int, int], gpus: float) -> dict[int, float]:
    """By gang size the fraction of time such jobs run, so that the least GPU share is as large as can be.

    `jobs` says how many jobs of each size there are. Then the least of those that could still have more is
    made as large as can be, and so on. With one kind of GPU no solver is needed: jobs smaller than an equal share
    of what is left run all the time, smallest first, and the others have equal shares of the rest.
    """
    fractions: dict[int, float] = {}
    room = gpus
    sharing = sum(jobs.values())
    for size in sorted(jobs):
        share = room / sharing
        if size > share:
            return fractions | {larger: share / larger for larger in jobs if larger >= size}
        fractions[size] = 1.0
        room -= jobs[size] * size
        sharing -= jobs[size]
    return fractions


@mypyc_attr(allow_interpreted_subclasses=True)
class GavelPolicy(Policy):
    """Max-min fairness over GPU shares: each round runs the jobs that lack most of the time they are due.

    Narayanan et al., Gavel, OSDI 2020. The paper computes with a linear program which fraction of time each job
    should have on each type of GPU, so that the job that is worst off gets the highest possible throughput.
    Rounds realise these fractions: a job's priority is the fraction that it is due ÷ the fraction that it has
    had. This policy does the same. If the cluster has several types (and no queues share it), fractions are by
    job and type: the program is solved exactly (policies/effective_shares.py; the tests solve it with another
    solver), throughput counts against an equal share of all GPUs and by the gang's size, priorities are by job
    and type, and jobs change type between rounds at the price of a restart. With `aware=false` the policy knows
    which types each job accepts, and no speeds. With one type the optimum needs no solver (policies/gavel.py).
    The paper's separate throughputs for consolidated and scattered places make no difference: a scattered place
    takes as much GPU time for less throughput, so the program gives it no time. With one type, a gang's past
    share counts the work done, not the time. In a round the largest gangs are placed first, each at its closest
    tier, and smaller gangs of the same round make way and are placed again. Then the GPUs that are left go to
    gangs that fit them, at any tier by default. GPUs that become free during a round stay idle until the next.
    Departures from the paper: past fractions count from the job's submission, and a gang keeps its GPUs until
    it has worked for half a round. Packing two jobs on one GPU is left out, because no throughputs of pairs are
    known.
    """

    def __init__(self, placement: Placement, round_s: float) -> None:
        self.placement = placement
        self._closest: ClosestTier = ClosestTier(BestFit())
        self._round_s: float = round_s
        self._next_s: float = -INFINITY  # when the next round begins
        self._began_s: float = -INFINITY  # when the latest did,
        self._had_it: dict[int, bool] = {}  # and the tenants that had it (policies/gate)
        self._present: dict[int, bool] = {}  # jobs in the system
        self._running: dict[int, Job] = {}  # in order of their starts
        self._works_from_s: dict[int, float] = {}  # when its restart is over, of those that were placed
        self._sizes: dict[int, int] = {}  # how many of each gang size

    def begin(self, view: View) -> None:
        super().begin(view)
        self.placement.begin(view)
        self._closest.begin(view)

    def on(self, event: PolicyEvent) -> None:
        job = event.job
        if job is not None:
            self._on_job(event.kind, job, event.now)
        elif event.kind == events.PASS_ENDED:
            self.wakeup_s = self._next_s if self._present else INFINITY

    def _on_job(self, kind: i64, job: Job, now: float) -> None:
        index = int(job.index)
        if kind == events.QUEUED:
            if index not in self._present:
                self._present[index] = True
                self._sizes[int(job.gpus)] = self._sizes.get(int(job.gpus), 0) + 1
        elif kind == events.STARTED:
            self._running[index] = job
            self._works_from_s[index] = job.since_s
        elif kind == events.STOPPED:
            del self._running[index]
        elif kind in (events.FINISHED, events.WITHDRAWN):
            self._works_from_s.pop(index, None)
            if self._present.pop(index, None) is not None:  # it may have been on hold
                self._sizes[int(job.gpus)] -= 1
        elif kind == events.PREEMPTION_FAILED:
            self._on_job(events.STOPPED, job, now)
            self._on_job(events.STARTED, job, now)

    def fractions(self, gpus: int) -> dict[int, float]:
        """The fraction of time due to a job of each size."""
        return max_min_fractions({size: count for size, count in self._sizes.items() if count}, float(gpus))

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        if not self._present:
            return []
        if now >= self._next_s:
            self._next_s = now + self._round_s
            self._began_s = now
            self._had_it.clear()
        elif now > self._began_s or int(queue.tenant) in self._had_it:
            return []
        self._had_it[int(queue.tenant)] = True
        if len(queue) == 0:
            return []
        self.reasons.next_round(self._next_s)
        return self._round(now, queue, cluster)

    def _round(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        if cluster.feasibility is not None:
            yield from self._fitting_round(now, queue, cluster)
            return
        chosen, others = self._chosen(now, queue, cluster)
        for job in others:
            if job.status == RUNNING:
                yield Preempt(job)
        left: list[Job] = []
        yield from self._seat(chosen, left, now, cluster)
        # A gang in groups gets what is left: enough GPUs need not mean a place for it.
        for job in [*left, *others]:
            if job.status == RUNNING:
                continue
            allocation = self.placement.place(job, now, cluster)
            if allocation is not None:
                yield Start(job, allocation)
        if not self._running:
            self._next_s = now  # who waits fits nowhere: no round would help, but whatever happens next may

    def _fitting_round(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        """The same where jobs have constraints: each in turn gets a free place, or that of jobs behind it."""
        ranked = self._ranked(now, queue, cluster)
        for place, job in enumerate(ranked):
            if job.status == RUNNING:
                continue
            allocation = self._closest.place(job, now, cluster) or self.placement.place(job, now, cluster)
            if allocation is None:
                for loser in self._behind(job, ranked[place + 1 :], now, cluster):
                    self.reasons.lost(loser, job)
                    yield Preempt(loser)
                allocation = self._closest.place(job, now, cluster)
            if allocation is not None:
                yield Start(job, allocation)
        for job in ranked:  # those that were preempted, and those that did not fit before; none whose start failed
            if job.status != RUNNING and int(job.index) in self._present:
                allocation = self.placement.place(job, now, cluster)
                if allocation is not None:
                    yield Start(job, allocation)
        if not self._running:
            self._next_s = now  # as in any other round

    def _behind(self, job: Job, behind: list[Job], now: float, cluster: Cluster) -> list[Job]:
        """Of those ranked behind the job, the last first, those that must go for a place at its closest tier."""
        tier = self._closest.widest(job, cluster)
        if tier < 0:
            return []
        weighing = Weighing(job, tier, cluster)
        for other in reversed(behind):
            if weighing.domain >= 0:
                break
            if other.status == RUNNING and other.tenant == job.tenant and self._may_stop(other, now):
                weighing.add(other)
        return weighing.losers()

    def _chosen(self, now: float, queue: Queue, cluster: Cluster) -> tuple[list[Job], list[Job]]:
        """Who has GPUs in this round, going by their number, and who has not; who must keep them is in neither."""
        room = cluster.free_gpus
        for job in self._running.values():
            if job.tenant == queue.tenant and self._may_stop(job, now):
                room += job.gpus
        chosen: list[Job] = []
        others: list[Job] = []
        winner: Job | None = None  # the latest chosen one that waited
        for job in self._ranked(now, queue, cluster):
            if job.status == RUNNING and not self._may_stop(job, now):
                continue
            if job.gpus <= room and job.group == 1:
                room -= job.gpus
                chosen.append(job)
                winner = job if job.status != RUNNING else winner
            elif job.gpus <= room and job.status == RUNNING:
                room -= job.gpus
            else:
                others.append(job)
                if job.status == RUNNING and winner is not None:
                    self.reasons.lost(job, winner)
        return chosen, others

    def _seat(self, chosen: list[Job], left: list[Job], now: float, cluster: Cluster) -> Iterator[Action]:
        """Place the chosen ones at their closest tiers, largest first; those without a place there are left."""
        order = sorted(chosen, key=_largest_first)
        place = 0
        while place < len(order):
            job = order[place]
            place += 1
            if job.status == RUNNING or int(job.index) not in self._present:
                continue
            allocation = self._closest.place(job, now, cluster)
            if allocation is None:
                for smaller in self._in_the_way(job, order[place:], cluster):
                    self.reasons.lost(smaller, job)
                    yield Preempt(smaller)
                allocation = self._closest.place(job, now, cluster)
            if allocation is None:
                left.append(job)
            else:
                yield Start(job, allocation)

    def _in_the_way(self, job: Job, behind: list[Job], cluster: Cluster) -> list[Job]:
        """Smaller running ones that must go for the job to have a place at its closest tier; nobody if in vain."""
        tier = self._closest.widest(job, cluster)
        gained = vec[i64]([0] * len(cluster.free[tier]))
        weighed: list[Job] = []
        for other in reversed(behind):
            if other.status != RUNNING or other.gpus >= job.gpus:
                continue
            weighed.append(other)
            domain = emptied(other, cluster, tier, gained, job.gpus)
            if domain >= 0:
                return needed(weighed, cluster, tier, domain, job.gpus)
        return []

    def _may_stop(self, job: Job, now: float) -> bool:
        """Once it has worked for half a round where it is, or a long restart would never end; not if it stays."""
        return not job.non_preemptible and self._works_from_s[int(job.index)] + 0.5 * self._round_s <= now

    def _ranked(self, now: float, queue: Queue, cluster: Cluster) -> list[Job]:
        """Jobs in the system, who lacks most first; ties by submission."""
        due = self.fractions(cluster.topology.total_gpus())
        rows: list[tuple[float, int, Job]] = []
        running = [job for job in self._running.values() if job.tenant == queue.tenant]
        for job in [*running, *queue.jobs()]:
            had_s = job.done_s(now)
            if had_s > 0.0:
                had_s *= self.view.best(job)
            lack = due[int(job.gpus)] * (now - job.submit_s) / had_s if had_s > 0.0 else INFINITY
            rows.append((-lack, int(job.index), job))
            if job.status != RUNNING:
                queue.rerank(job, -lack, 0.0)
        rows.sort(key=_rank)
        return [row[2] for row in rows]


def _rank(row: tuple[float, int, Job]) -> tuple[int, float, int]:
    return 0 if row[2].prioritized else 1, row[0], row[1]


def _largest_first(job: Job) -> int:
    return -int(job.gpus)


def _gavel(settings: Settings) -> Policy:
    return GavelPolicy(at_tier(BestFit(), settings["tier"]), settings["round_s"])


def _over_types(settings: Settings, topology: Topology, network: Network | None, mixed: list[str]) -> Policy:
    from dally.policies.gavel_types import GavelOfTypes

    placement = at_tier(BestFit(), settings["tier"])
    return GavelOfTypes(placement, settings["round_s"], settings["aware"], topology, network, mixed)


GAVEL: Final = NamedPolicy(
    "gavel", _gavel, "time due over time had", "closest tier, largest first", "rounds", NOTHING,
    "Narayanan et al., Gavel, OSDI 2020",
    (
        Param("round_s", 360.0, "seconds that a round lasts", 1e-3, period=True),
        TIER,
        Param("aware", True, "false: of several types of GPU it knows who accepts which, and no speeds"),
    ),
    over_types=_over_types,
)  # fmt: skip
