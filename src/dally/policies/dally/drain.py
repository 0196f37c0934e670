"""Draining a domain for a wide gang: what idle GPUs beside it must have paid, and when others take their turn.

An order by GPU time leaves a gang that wants most of a cluster for the end, however many GPUs stand idle beside it.
So what stands idle buys its domain, as in renting until one would rather have bought (Karlin et al., Competitive
Snoopy Caching, 1988): it must reach the GPU time by which better-ranked jobs are put off.
"""

from __future__ import annotations

import math
from typing import Final

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.heap import Walk
from dally.model import INFINITY, NEVER, RUNNING, Job
from dally.policies.dally.context import Context
from dally.policies.dally.idle_credit import IdleCredit, most_free
from dally.policies.dally.preemption import Eviction
from dally.policies.dally.room import AT_A_TIME, any_eviction
from dally.policies.queue import DemandClass, Queue

NO_PRICE: Final = -1.0


class Drain:
    """A gang, the eviction that gives it its domain, what that costs, and for how long it then keeps its GPUs."""

    __slots__ = ("eviction", "job", "near", "paid_gpu_s", "residence_s")

    def __init__(self, job: Job, near: i64, eviction: Eviction, paid_gpu_s: float, residence_s: float) -> None:
        self.job: Job = job
        self.near: i64 = near
        self.eviction: Eviction = eviction
        self.paid_gpu_s: float = paid_gpu_s
        self.residence_s: float = residence_s


def scarcity(job: Job, cluster: Cluster, context: Context) -> float:
    """1 for a gang of the whole cluster, which has no other way in; more for one that leaves GPUs to others.

    Sooner or later that one finds a domain that costs others little, so it pays more for one that costs much.
    """
    return math.pow(float(cluster.topology.total_gpus()) / float(job.gpus), context.limits.idle_power)


def is_wide(gpus: i64, cluster: Cluster, context: Context) -> bool:
    """Whether a gang takes so much of the cluster that the sooner finish decides between it and all others."""
    share = float(gpus) / float(cluster.topology.total_gpus())
    return context.limits.finish_gain < INFINITY and share >= context.limits.finish_share


def quantum_s(job: Job, cluster: Cluster, context: Context) -> float:
    """Seconds that better-ranked jobs wait in all before a gang whose domain was paid for may lose it to them."""
    limits = context.limits
    return limits.quantum * (context.prices.restart_s(job) + limits.quantum_s) * scarcity(job, cluster, context)


def residence_s(job: Job, context: Context) -> float:
    """Seconds for which the gang keeps the domain: the service that a finish of such gangs takes."""
    return max(context.ranks.per_finish_s(job) * context.prices.best(job), context.hold_s(job))


def claimants(now: float, queue: Queue, cluster: Cluster, credit: IdleCredit, context: Context) -> list[Job]:
    """Gangs whose credit may do, one of every demand, the one with most for its stay first."""
    rows: list[tuple[float, int]] = []
    jobs: dict[int, Job] = {}
    total = float(cluster.topology.total_gpus())
    power = context.limits.idle_power
    least_gpu_s = context.limits.idle_worth * context.limits.least_hold_s  # no stay is shorter
    # The widest come last. A narrower gang needs so much more that most passes look at a few demands only.
    least_gpus = credit.least_gpus(cluster, context.limits)
    for place in range(len(queue.classes) - 1, -1, -1):
        group = queue.classes[place]
        wide = is_wide(group.gpus, cluster, context)
        if float(group.gpus) < least_gpus and not wide:
            break
        if group.group > 1 or len(group.heap.items) == 0:
            continue
        near = cluster.topology.closest_tier(group.gpus, group.group)
        if wide:
            head = group.job(group.heap.first())
            if credit.has_account(head) and credit.is_due(head, now):
                rows.append((0.0, int(head.index)))
                jobs[int(head.index)] = head
                continue
        had_gpu_s = credit.most(group, near)
        if had_gpu_s <= 0.0 or had_gpu_s < least_gpu_s * math.pow(total / float(group.gpus), power):
            continue
        best, ratio = _claimant(credit.claimants(group), near, now, cluster, credit, context)
        if best is not None and int(best.index) not in jobs:
            rows.append((-ratio, int(best.index)))
            jobs[int(best.index)] = best
    rows.sort()
    return [jobs[row[1]] for row in rows]


def _claimant(
    jobs: list[Job], near: i64, now: float, cluster: Cluster, credit: IdleCredit, context: Context
) -> tuple[Job | None, float]:
    """The gang with most credit for its stay of those that have enough for the least price, and that ratio."""
    best: Job | None = None
    most = 0.0
    for job in jobs:
        if not credit.is_due(job, now):
            continue
        had_gpu_s = credit.of(job, near)
        least = context.limits.idle_worth * scarcity(job, cluster, context)
        if had_gpu_s < least * _away_s(job, cluster, context):
            continue
        if had_gpu_s > most * residence_s(job, context):
            most = had_gpu_s / residence_s(job, context)
            best = job
    return best, most


def _away_s(job: Job, cluster: Cluster, context: Context) -> float:
    """Seconds for which jobs are put off that lose their GPUs to the gang: no more than its quantum."""
    return min(residence_s(job, context), quantum_s(job, cluster, context))


def drain_for(job: Job, now: float, cluster: Cluster, credit: IdleCredit, context: Context) -> Drain | None:
    """How a domain is drained for the gang, if what stood idle beside it pays for that; None if it does not."""
    near = cluster.topology.closest_tier(job.gpus, job.group)
    rank = context.ranks.key(job, now)
    had_gpu_s = credit.of(job, near)
    eviction: Eviction | None = None
    price_gpu_s = _least_price_gpu_s(job, near, rank, now, cluster, context)
    if price_gpu_s <= had_gpu_s or is_wide(job.gpus, cluster, context):
        eviction = any_eviction(job, near, rank, now, cluster, context)
        price_gpu_s = NO_PRICE
    if eviction is not None:
        price_gpu_s = _price_gpu_s(job, rank, eviction, now, cluster, context)
        if is_wide(job.gpus, cluster, context) and _finishes_more(job, eviction, context):
            price_gpu_s = 0.0
    if eviction is None or price_gpu_s == NO_PRICE or had_gpu_s < price_gpu_s:
        missing_s = max(0.0, price_gpu_s - had_gpu_s) / float(job.gpus)  # never are more GPUs idle beside it
        credit.look_again(job, now + min(missing_s, context.limits.wake_s))
        return None
    return Drain(job, near, eviction, price_gpu_s, residence_s(job, context))


def _least_price_gpu_s(job: Job, near: i64, rank: float, now: float, cluster: Cluster, context: Context) -> float:
    """What any eviction costs at least: GPUs that are not free, nor worse-ranked jobs', are better-ranked jobs'.

    Most gangs are far from what they need, and this is known without looking for the cheapest eviction.
    """
    missing = job.gpus - most_free(near, cluster)
    stick = context.limits.stick
    worse = context.ledger.worse_than(rank, stick, now, 0, AT_A_TIME)
    if worse is not None:
        if context.ledger.worse_than(rank, stick, now, AT_A_TIME, AT_A_TIME + 1) is not None:
            return 0.0  # too many to count
        for other in worse:
            missing -= other.gpus
    if missing <= 0:
        return 0.0
    least_gpu_s = float(missing) * _away_s(job, cluster, context)
    return context.limits.idle_worth * scarcity(job, cluster, context) * least_gpu_s


def _price_gpu_s(
    job: Job, rank: float, eviction: Eviction, now: float, cluster: Cluster, context: Context
) -> float:
    """What idle GPUs must have paid for this eviction; NO_PRICE if ranks alone allow it.

    Better-ranked jobs are put off, and with them those that would have followed on their GPUs, as far as the gang
    leaves a part of the cluster for such.
    """
    away_s = _away_s(job, cluster, context)
    others = 1.0 - float(job.gpus) / float(cluster.topology.total_gpus())
    cost_gpu_s = 0.0
    better = False
    for loser in eviction.losers:
        cost_gpu_s += float(loser.gpus) * context.prices.stop_s(loser, now)
        if context.limits.stick * context.ranks.key(loser, now) <= rank:
            better = True
            following = others * away_s / context.ranks.per_finish_s(loser)
            cost_gpu_s += float(loser.gpus) * away_s * (1.0 + following)
    return context.limits.idle_worth * scarcity(job, cluster, context) * cost_gpu_s if better else NO_PRICE


def _finishes_more(job: Job, eviction: Eviction, context: Context) -> bool:
    """Whether the gang is expected to finish so many times as soon as any of those that lose their GPUs to it.

    One of a knapsack's two answers within a factor of 2 of the best: its best-valued items for their weight, which
    ranks serve, or the widest item alone.
    """
    prices, ranks = context.prices, context.ranks
    if ranks.alike(context.limits.alike):
        return False
    per_finish_s = ranks.per_finish_s(job) * prices.best(job) + prices.restart_s(job)
    finishes = 0.0
    for loser in eviction.losers:
        finishes += 1.0 / (ranks.per_finish_s(loser) * prices.best(loser))
    return context.limits.finish_gain * per_finish_s * finishes <= 1.0


def outweighed(
    now: float, young: bool, queue: Queue, cluster: Cluster, credit: IdleCredit, context: Context
) -> list[Job]:
    """Gangs whose domain was paid for and that keep it no longer: their time is over, or it is others' turn."""
    gangs: list[Job] = []
    for job, until_s in list(credit.drained.values()):
        if job.status != RUNNING:
            continue
        if until_s <= now:
            credit.forget(job)
        elif young or _is_outweighed(job, now, queue, cluster, context):
            credit.forget(job)
            gangs.append(job)
    return gangs


def _is_outweighed(job: Job, now: float, queue: Queue, cluster: Cluster, context: Context) -> bool:
    """Whether better-ranked jobs that wait would fill the gang's GPUs, or have waited for its quantum in all."""
    own = context.limits.stick * context.ranks.key(job, now)
    most_s = quantum_s(job, cluster, context)
    gpus: i64 = 0
    waited_s = 0.0
    for group in queue.classes:
        walk = Walk(group.heap)
        while True:
            since_s = _next_better(walk, group, own)
            if since_s == NEVER:
                break
            gpus += group.gpus
            waited_s += now - since_s
            if gpus >= job.gpus or waited_s >= most_s:
                return True
    return False


def _next_better(walk: Walk, group: DemandClass, rank: float) -> float:
    """Since when the next job of the class waits that ranks better than that; NEVER: there is none."""
    slot = walk.next()
    return group.job(slot).lost_s if slot >= 0 and group.heap.key(slot) < rank else NEVER
