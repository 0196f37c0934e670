"""Sizes of elastic jobs: smaller and larger starts, GPUs given up to jobs that wait, and growth into free GPUs.

GPUs go where they bring most finishes. A step to a larger size counts by the GPU time that its work takes: while a
worse-ranked job would turn the same GPUs into fewer finishes, an elastic job keeps or gets them. Before any job is
preempted, worse-ranked ones shrink, no further than their least size. A change of size costs a restart, counts as a
move, and must pay for itself. Where jobs have constraints beyond GPUs, what shrinking frees is tried out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, Action, Allocation, Job, Start
from dally.pickles import picklable
from dally.policies.dally.context import BLANK, Context
from dally.policies.dally.limits import SLACK
from dally.policies.dally.movable import Move
from dally.policies.dally.pricing import Place
from dally.policies.dally.room import make_room
from dally.policies.placement.best_fit import fit_into
from dally.policies.placement.smaller_allocation import part_of
from dally.policies.queue import Queue

SIZES_TRIED: Final = 4  # of one job, from the largest that free GPUs allow


class Shrinking:
    """A domain, and by how much jobs in it shrink."""

    __slots__ = ("cost_gpu_s", "domain", "jobs", "sizes")

    def __init__(self, domain: i64) -> None:
        self.domain: i64 = domain
        self.jobs: list[Job] = []
        self.sizes: list[int] = []
        self.cost_gpu_s: float = 0.0


class Resizing:
    """Decides about the sizes of elastic jobs."""

    __slots__ = ("_context", "_newest_s", "running")

    def __init__(self, context: Context) -> None:
        self._context: Context = context
        self.running: dict[int, Job] = {}  # elastic jobs that run, by index
        self._newest_s: float = -INFINITY  # when the latest job came

    def came(self, job: Job) -> None:
        """The job waits, perhaps not for the first time."""
        self._newest_s = max(self._newest_s, job.submit_s)

    def started(self, job: Job) -> None:
        """The job runs."""
        if len(job.sizes) > 0:
            self.running[int(job.index)] = job

    def stopped(self, job: Job) -> None:
        """The job runs no more."""
        self.running.pop(int(job.index), None)

    # A waiting job.

    def make_room(self, job: Job, near: i64, rank: float, now: float, cluster: Cluster) -> list[Action]:
        """What starts a job: others shrink, move or are preempted, or it starts smaller; [] if nothing does.

        A smaller start comes last: the best-ranked job at half its size beside worse-ranked ones at theirs ends
        later than it would have, and they hardly sooner. Yet who may start smaller has less to gain by preempting.
        """
        context = self._context
        elastic = context.limits.elastic
        actions: list[Action] = []
        if elastic and self.running and cluster.counts_suffice(job):
            actions = self._full_start(job, near, rank, now, cluster)
        if not actions and cluster.counts_suffice(job) and context.churn.allows():
            claim = rank / context.limits.smaller_stick if elastic and self._has_smaller(job) else rank
            actions = make_room(job, near, claim, now, cluster, context)
        if not actions and elastic and len(job.sizes) > 0:
            actions = self._small_start(job, rank, now, cluster)
        return actions

    def _has_smaller(self, job: Job) -> bool:
        return len(job.sizes) > 0 and job.sizes[0] < job.gpus

    def _full_start(self, job: Job, near: i64, rank: float, now: float, cluster: Cluster) -> list[Action]:
        """Others shrunk for the job, and its start at the size it asks for or a larger; [] if there is no way."""
        limits = self._context.limits
        for number in range(len(job.sizes) - 1, 0, -1):
            size = job.sizes[number]
            if size <= job.requested:
                break
            dearness = self._dearness(job, job.sizes[number - 1], size)
            if dearness <= limits.dearest:
                tier = cluster.closest_tier_of(size, job.group, job.signature)
                actions = self._shrink_for(job, size, tier, rank * dearness, now, cluster)
                if actions:
                    return actions
        return self._shrink_for(job, job.gpus, near, rank, now, cluster)

    def _small_start(self, job: Job, rank: float, now: float, cluster: Cluster) -> list[Action]:
        """The job's start at a smaller size, in free GPUs or where others shrink; [] if there is no way."""
        place = self._smaller_place(job, cluster)
        if place is not None:
            return [Start(job, place)]
        for size in reversed(job.sizes):
            if size < job.gpus and cluster.counts_suffice(job):
                tier = cluster.closest_tier_of(size, job.group, job.signature)
                actions = self._shrink_for(job, size, tier, rank, now, cluster)
                if actions:
                    return actions
        return []

    def or_larger(self, job: Job, place: Allocation, now: float, cluster: Cluster) -> Allocation:
        """That place, or one for the largest size above what the job asks for whose last step is not too dear."""
        limits = self._context.limits
        if len(job.sizes) == 0 or not limits.elastic:
            return place
        spare = self._spare(now, cluster)
        trial = self._context.reserved.trial(cluster)
        chosen: Allocation | None = None
        for number in range(len(job.sizes) - 1, 0, -1):
            size = job.sizes[number]
            if size <= job.requested or chosen is not None:
                break
            if size <= spare and self._dearness(job, job.sizes[number - 1], size) <= limits.dearest:
                larger = self._near_place(job, size, cluster)
                chosen = larger.allocation if larger is not None else None
        trial.undo()
        return place if chosen is None else chosen

    def _smaller_place(self, job: Job, cluster: Cluster) -> Allocation | None:
        """A place for the largest size below what the job asks for that has one at its closest tier; None: none."""
        cluster.focus(job)
        trial = self._context.reserved.trial(cluster)
        chosen: Allocation | None = None
        for size in reversed(job.sizes):
            if size >= job.gpus or cluster.free_gpus < size:
                continue
            place = self._near_place(job, size, cluster)
            if place is not None:
                chosen = place.allocation
                break
        trial.undo()
        return chosen

    def _near_place(self, job: Job, size: i64, cluster: Cluster) -> Place | None:
        """A place of that size no farther apart than the size must be, within the price of such places."""
        context = self._context
        limits, prices = context.limits, context.prices
        for tier in range(cluster.closest_tier_of(size, job.group, job.signature) + 1):
            if prices.spent():
                return None
            place = prices.cheapest_at(job, size, cluster, tier, limits.move_domains)
            if place is not None and place.price <= limits.near_price + SLACK:
                return place
        return None

    def _shrink_for(
        self, job: Job, size: i64, tier: i64, rank: float, now: float, cluster: Cluster
    ) -> list[Action]:
        """Others shrunk in a domain of that tier, and the job's start there at that size; [] if there is no way."""
        best = self._cheapest(job, size, tier, rank, now, cluster) if tier >= 0 else None
        return [] if best is None else self._shrink_and_start(job, size, tier, best, now, cluster)

    def _cheapest(
        self, job: Job, size: i64, tier: i64, rank: float, now: float, cluster: Cluster
    ) -> Shrinking | None:
        """The domain of that tier in which shrinking makes room at the least cost, if that is worth it."""
        context = self._context
        by_domain: dict[int, list[tuple[int, float, int]]] = {}
        for index, other in self.running.items():
            allocation = other.allocation
            if allocation is None or other.tier > tier or not self._may_resize(other, now):
                continue
            least = self._least_size(other, rank, now)
            if least < other.gpus:
                domain = int(cluster.topology.domain_of(tier, allocation.machines[0]))
                on_loan = 0 if other.gpus > other.requested else 1
                by_domain.setdefault(domain, []).append((on_loan, -context.ranks.key(other, now), index))
        best: Shrinking | None = None
        worth_gpu_s = float(size) * context.ranks.left_s(job) / context.limits.clear_worth
        for domain, rows in sorted(by_domain.items()):
            if context.reserved.overlaps(tier, domain, cluster):
                continue
            if cluster.feasibility is None:
                candidate = self._in_domain(size, tier, domain, sorted(rows), rank, now, cluster)
            else:
                candidate = self._tried_in_domain(job, size, tier, domain, sorted(rows), rank, now, cluster)
            if candidate is None or candidate.cost_gpu_s > worth_gpu_s:
                continue
            if best is None or candidate.cost_gpu_s < best.cost_gpu_s:
                best = candidate
        return best

    def _in_domain(
        self,
        size: i64,
        tier: i64,
        domain: i64,
        rows: list[tuple[int, float, int]],
        rank: float,
        now: float,
        cluster: Cluster,
    ) -> Shrinking | None:
        """Who shrinks there: GPUs on loan first, then the worst-ranked, each as far as needed."""
        missing = size - cluster.free[tier][domain]
        result = Shrinking(domain)
        for _, _, index in rows:
            if missing <= 0:
                break
            other = self.running[index]
            new = self._shrunk(other, missing, self._least_size(other, rank, now))
            missing -= other.gpus - new
            result.jobs.append(other)
            result.sizes.append(int(new))
            result.cost_gpu_s += self._context.prices.resize_s(other, new, now) * float(new)
        return result if missing <= 0 and result.jobs else None

    def _tried_in_domain(
        self,
        job: Job,
        size: i64,
        tier: i64,
        domain: i64,
        rows: list[tuple[int, float, int]],
        rank: float,
        now: float,
        cluster: Cluster,
    ) -> Shrinking | None:
        """The same where jobs have constraints: one after the other shrinks, as if, until the job has room."""
        cluster.focus(job)
        trial = cluster.trial()
        tried: list[tuple[Job, Allocation, Allocation]] = []
        for _, _, index in rows:
            missing = size - cluster.free[tier][domain]
            if missing <= 0:
                break
            other = self.running[index]
            held = other.allocation
            assert held is not None
            rest = part_of(held, self._shrunk(other, missing, self._least_size(other, rank, now)))
            trial.release(held)
            trial.take(rest, other)
            tried.append((other, held, rest))
        result = Shrinking(domain)
        for other, held, rest in reversed(tried if cluster.free[tier][domain] >= size else []):
            trial.release(rest)
            trial.take(held, other)
            if cluster.free[tier][domain] < size:  # there is no room without it
                trial.release(held)
                trial.take(rest, other)
                result.jobs.append(other)
                result.sizes.append(int(rest.total()))
                result.cost_gpu_s += self._context.prices.resize_s(other, rest.total(), now) * float(rest.total())
        trial.undo()
        return result if result.jobs else None

    def _shrunk(self, job: Job, missing: i64, least: i64) -> i64:
        """The size at which the job gives back what is missing: all that is on loan, and no more than it must."""
        target = max(least, min(job.gpus - missing, job.requested))
        fitting = [size for size in job.sizes if least <= size <= target]
        return fitting[-1] if fitting else least

    def _least_size(self, job: Job, rank: float, now: float) -> i64:
        """Down to what size the job gives GPUs to one of that rank."""
        own = self._context.limits.stick * self._context.ranks.key(job, now)
        if own > rank:
            return job.sizes[0]
        least = job.gpus
        for size in reversed(job.sizes):
            if size < job.requested:
                break
            if size < least:
                if own * self._dearness(job, size, least) <= rank:
                    break
                least = size
        return least

    def _dearness(self, job: Job, size: i64, larger: i64) -> float:
        """GPU time per work of the step from one size to a larger one, against that at the size it asks for."""
        prices = self._context.prices
        added = prices.speedup(job, larger) - prices.speedup(job, size)
        return float(larger - size) / float(job.requested) / added if added > 0.0 else INFINITY

    def _may_resize(self, job: Job, now: float) -> bool:
        if job.non_preemptible or job.non_migratable or job.since_s > now or job.placed_s >= now:
            return False
        return self._context.churn.may_move(job, now)

    def _shrink_and_start(
        self, job: Job, size: i64, tier: i64, best: Shrinking, now: float, cluster: Cluster
    ) -> list[Action]:
        context = self._context
        actions: list[Action] = []
        cluster.focus(job)
        trial = cluster.trial()
        for place, other in enumerate(best.jobs):
            held = other.allocation
            assert held is not None
            rest = part_of(held, best.sizes[place])
            trial.release(held)
            trial.take(rest, other)
            cost_s = context.prices.resize_s(other, best.sizes[place], now)
            actions.append(context.resize(other, rest, job, cost_s, 0.0, now))
        allocation = fit_into(cluster, tier, best.domain, size)
        trial.undo()
        actions.append(Start(job, allocation))
        return actions

    # GPUs that are free.

    def grow_first(self, queue: Queue, now: float, cluster: Cluster) -> Iterator[Action]:
        """Jobs grow into free GPUs that turn these into more finishes than the best-ranked job that waits."""
        first = queue.best() if self.running and cluster.all_free() > 0 else None
        if first is not None:
            rank = -INFINITY if first.prioritized else self._context.ranks.key(first, now)
            yield from self.grow(now, True, cluster, rank, False)

    def grow(
        self, now: float, waiting: bool, cluster: Cluster, rank: float = INFINITY, reserve: bool = True
    ) -> Iterator[Action]:
        """Jobs grow into free GPUs, those first that turn a GPU into most finishes.

        `waiting`: jobs wait that may want them; `rank`: of the best of these, where it is served next. With
        `reserve` some GPUs stay idle, so that the next job to come finds room without anybody giving any back.
        """
        context, limits = self._context, self._context.limits
        spare = self._spare(now, cluster) if reserve else cluster.all_free()
        if not self.running or spare <= 0 or not limits.elastic:
            return
        rows: list[tuple[float, int]] = []
        for index, job in self.running.items():
            if job.gpus < job.sizes[-1] and self._may_grow(job, now):
                step = self._dearness(job, job.gpus, next_size(job))
                if rank == INFINITY or context.ranks.key(job, now) * step < limits.stick * rank:
                    rows.append((-self._finishes_per_gpu(job), index))
        rows.sort()
        for _, index in rows[: limits.most_moves]:
            spare = self._spare(now, cluster) if reserve else cluster.all_free()
            if spare <= 0 or context.prices.spent() or not context.churn.allows():
                break
            job = self.running[index]
            growth = self._growth(job, spare, waiting, now, cluster)
            if growth is not None:
                yield context.resize(job, growth.allocation, None, growth.cost_s, growth.saved_s, now)

    def next_s(self, now: float, cluster: Cluster) -> float:
        """When idle GPUs are worth another look though nothing happens; infinity: never."""
        if self.running and self._context.limits.elastic and self._spare(now, cluster) > 0:
            for job in self.running.values():
                if job.gpus < job.sizes[-1] and not self._is_settled(job, now):
                    return now + self._context.limits.wake_s
        return INFINITY

    def _spare(self, now: float, cluster: Cluster) -> i64:
        """Idle GPUs that jobs may grow into: all where no job is likely to come and want some."""
        if now - self._newest_s > self._context.limits.quiet_s:
            return cluster.all_free()
        reserve = self._context.limits.idle_reserve * float(cluster.topology.total_gpus())
        return cluster.all_free() - i64(reserve)

    def _is_settled(self, job: Job, now: float) -> bool:
        """Whether it has worked at its size for as long as a job keeps what it got."""
        limits = self._context.limits
        hold_s = max(limits.least_hold_s, limits.hold * self._context.prices.restart_s(job))
        return job.since_s + hold_s <= now

    def _may_grow(self, job: Job, now: float) -> bool:
        """Whether it may be resized now, and once more within the hour to give back what it grows by."""
        return self._is_settled(job, now) and self._may_resize(job, now) and self._context.churn.may_grow(job, now)

    def _finishes_per_gpu(self, job: Job) -> float:
        """What the next larger size adds to the rate at which such jobs end, per GPU."""
        prices = self._context.prices
        larger = next_size(job)
        added = prices.speedup(job, larger) - prices.speedup(job, job.gpus)
        return added / float(larger - job.gpus) / self._context.ranks.per_finish_s(job)

    def _growth(self, job: Job, spare: i64, waiting: bool, now: float, cluster: Cluster) -> Move | None:
        """The largest size that has a place and pays for itself; None: none does."""
        held = job.allocation
        assert held is not None
        sizes = [size for size in reversed(job.sizes) if job.gpus < size <= job.gpus + spare]
        best: Move | None = None
        cluster.focus(job)
        trial = self._context.reserved.trial(cluster)
        trial.release(held)
        for size in sizes[:SIZES_TRIED]:
            place = self._near_place(job, size, cluster)
            if place is not None:
                best = self._if_it_pays(job, size, place, waiting, now)
                break
        trial.undo()
        return best

    def _if_it_pays(self, job: Job, size: i64, place: Place, waiting: bool, now: float) -> Move | None:
        """The change of size if it saves enough; where jobs wait it may not last, and less of it counts."""
        limits, prices = self._context.limits, self._context.prices
        lasts_s = self._context.ranks.left_s(job) / job.rate
        if waiting:
            lasts_s = min(lasts_s, limits.loan_s)
        rate = prices.speedup(job, size) / (place.price * prices.best_at(job, size))
        cost_s = prices.resize_s(job, size, now)
        saved_s = lasts_s * (1.0 - job.rate / rate)
        if saved_s < max(limits.saving * cost_s, limits.least_saving_s):
            return None
        return Move(job, place.allocation, cost_s, saved_s)


def next_size(job: Job) -> i64:
    """The next larger size of a job that has one."""
    for size in job.sizes:
        if size > job.gpus:
            return size
    return job.gpus


picklable(Resizing, Context(*BLANK))
