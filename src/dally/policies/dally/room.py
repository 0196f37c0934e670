"""Making room for a gang at its closest tier: by compaction, by preemption, or by both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, RUNNING, Action, Allocation, Job, Migrate, Preempt, Start
from dally.policies.dally.compaction import cheapest_clearing
from dally.policies.dally.context import Context
from dally.policies.dally.preemption import Eviction, Room, add_candidates, cheapest_eviction, cheapest_opening
from dally.policies.placement.best_fit import fit_into
from dally.policies.victims import Weighing

AT_A_TIME: Final = 64  # running jobs looked at before asking whether that is enough
# Who is spared, of those that may be preempted.
NONE_SPARED: Final = 0
SAME_SIZE: Final = 1
SAME_OR_WIDER: Final = 2


def make_room(job: Job, near: i64, rank: float, now: float, cluster: Cluster, context: Context) -> list[Action]:
    """Others moved out of the job's way or preempted, and its start; [] if there is no way."""
    limits = context.limits
    # Before jobs were seen to differ a rank is a guess by age alone: of two of one size, either may as well run.
    spares = SAME_SIZE if context.ranks.alike(limits.alike) else NONE_SPARED
    actions: list[Action] = []
    if limits.compaction:
        actions = _clear(job, near, now, cluster, context)
    if not actions and limits.preemption and cluster.feasibility is not None:
        return _evict_tried(job, near, rank, limits.stick, spares, now, cluster, context)
    if not actions and limits.preemption:
        rooms = _rooms(job, near, rank, limits.stick, spares, now, cluster, context)
        actions = _evict(job, near, rooms, now, cluster, context)
        if not actions and limits.mixing:
            actions = _open(job, near, rooms, now, cluster, context)
    return actions


def evict_older(job: Job, near: i64, age_s: float, now: float, cluster: Cluster, context: Context) -> list[Action]:
    """Jobs that have worked for so long preempted for the job, whatever their rank, and its start; [] if no way."""
    if cluster.feasibility is not None:
        return []
    rooms: dict[int, Room] = {}
    enough: i64 = 0
    seen: i64 = 0
    most: i64 = context.limits.most_candidates
    while enough < context.limits.most_domains and seen < most:
        running = context.ledger.worse_than(-INFINITY, 1.0, now, seen, min(seen + AT_A_TIME, most))
        if running is None:
            break
        context.prices.queries += len(running)
        older = [other for other in running if other.done_s(now) >= age_s]
        enough += add_candidates(rooms, job.gpus, near, older, cluster)
        seen += AT_A_TIME
    return _evict(job, near, rooms, now, cluster, context)


def evict_any(job: Job, near: i64, early: bool, now: float, cluster: Cluster, context: Context) -> list[Action]:
    """Jobs preempted for the job whatever their rank, and its start; [] if there is no way.

    `early`: only narrower ones, which find room again more easily.
    """
    spares = SAME_OR_WIDER if early else NONE_SPARED
    if cluster.feasibility is not None:
        return _evict_tried(job, near, -INFINITY, 1.0, spares, now, cluster, context)
    rooms = _rooms(job, near, -INFINITY, 1.0, spares, now, cluster, context)
    return _evict(job, near, rooms, now, cluster, context)


def any_eviction(
    job: Job, near: i64, rank: float, now: float, cluster: Cluster, context: Context
) -> Eviction | None:
    """The cheapest eviction for the gang if jobs of up to half its size may be preempted whatever their rank."""
    if cluster.feasibility is not None:
        return _tried_eviction(job, near, rank, now, cluster, context)
    rooms: dict[int, Room] = {}
    enough: i64 = 0
    seen: i64 = 0
    most: i64 = context.limits.most_candidates
    while enough < context.limits.most_domains and seen < most:
        running = context.ledger.worse_than(-INFINITY, 1.0, now, seen, min(seen + AT_A_TIME, most))
        if running is None:
            break
        context.prices.queries += len(running)
        enough += add_candidates(rooms, job.gpus, near, _small_or_worse(job, rank, running, now, context), cluster)
        seen += AT_A_TIME
    return cheapest_eviction(job, near, rooms, now, cluster, context)


def _small_or_worse(job: Job, rank: float, running: list[Job], now: float, context: Context) -> list[Job]:
    candidates: list[Job] = []
    for other in running:
        if 2 * other.gpus <= job.gpus or context.limits.stick * context.ranks.key(other, now) > rank:
            candidates.append(other)
    return candidates


def _tried_eviction(
    job: Job, near: i64, rank: float, now: float, cluster: Cluster, context: Context
) -> Eviction | None:
    """The same where jobs have constraints, for the domain that has room first: the worst-ranked go, as if."""
    running = context.ledger.worse_than(-INFINITY, 1.0, now, 0, context.limits.most_candidates)
    if running is None:
        return None
    context.prices.queries += len(running)
    domain, losers = _first_room(job, near, _small_or_worse(job, rank, running, now, context), cluster, context)
    return Eviction(domain, losers, 0.0) if domain >= 0 else None


def _first_room(
    job: Job, near: i64, candidates: list[Job], cluster: Cluster, context: Context
) -> tuple[int, list[Job]]:
    """The domain that first has room for the job as these go one after the other, and who must; -1: none has."""
    weighing = Weighing(job, near, cluster, context.reserved.trial(cluster))
    for other in candidates:
        weighing.add(other)
        if weighing.domain >= 0:
            break
    domain = int(weighing.domain)
    return domain, weighing.losers()


def evict(
    job: Job, near: i64, eviction: Eviction, idle_gpu_s: float, now: float, cluster: Cluster, context: Context
) -> list[Action]:
    """The losers preempted, and the gang's start; `idle_gpu_s`: what stood idle and pays for that."""
    actions: list[Action] = [context.preempt(loser, job, now, idle_gpu_s) for loser in eviction.losers]
    return _and_start(job, near, eviction.domain, actions, cluster)


def _clear(job: Job, near: i64, now: float, cluster: Cluster, context: Context) -> list[Action]:
    """Others moved out of the job's way, and its start."""
    clearing = cheapest_clearing(job, near, now, cluster, context)
    gain_gpu_s = float(job.gpus) * context.ranks.left_s(job)
    if clearing is None or context.limits.clear_worth * clearing.cost_gpu_s > gain_gpu_s:
        return []
    actions: list[Action] = [context.migrate(move, job, now) for move in clearing.moves]
    return _and_start(job, near, clearing.domain, actions, cluster)


def _evict(
    job: Job, near: i64, rooms: dict[int, Room], now: float, cluster: Cluster, context: Context
) -> list[Action]:
    """Others preempted for the job, and its start."""
    eviction = cheapest_eviction(job, near, rooms, now, cluster, context)
    if eviction is None:
        return []
    return evict(job, near, eviction, 0.0, now, cluster, context)


def _evict_tried(
    job: Job, near: i64, rank: float, stick: float, spares: i64, now: float, cluster: Cluster, context: Context
) -> list[Action]:
    """The same where jobs have constraints: the worst-ranked go, as if, until the job has a place."""
    cluster.focus(job)
    weighing = Weighing(job, near, cluster, context.reserved.trial(cluster))
    seen: i64 = 0
    most: i64 = context.limits.most_candidates
    while weighing.domain < 0 and seen < most:
        candidates = context.ledger.worse_than(rank, stick, now, seen, min(seen + AT_A_TIME, most))
        if candidates is None:
            break
        context.prices.queries += len(candidates)
        for other in _not_spared(job, candidates, spares):
            weighing.add(other)
            if weighing.domain >= 0:
                break
        seen += AT_A_TIME
    domain = weighing.domain
    losers = weighing.losers()
    if domain < 0:
        return []
    actions: list[Action] = [context.preempt(loser, job, now) for loser in losers]
    return _and_start(job, near, domain, actions, cluster)


def _open(
    job: Job, near: i64, rooms: dict[int, Room], now: float, cluster: Cluster, context: Context
) -> list[Action]:
    """Some moved, some preempted for the job, and its start."""
    opening = cheapest_opening(job, near, rooms, now, cluster, context)
    if opening is None:
        return []
    actions: list[Action] = [context.migrate(move, job, now) for move in opening.moves]
    actions += [context.preempt(loser, job, now) for loser in opening.losers]
    return _and_start(job, near, opening.domain, actions, cluster)


def _rooms(
    job: Job, near: i64, rank: float, stick: float, spares: i64, now: float, cluster: Cluster, context: Context
) -> dict[int, Room]:
    """By domain, what there is for the job if the jobs are preempted that count as worse than that rank.

    The worst-ranked come first, and a few at a time: on a large cluster the first ones are more than enough.
    """
    rooms: dict[int, Room] = {}
    enough: i64 = 0
    seen: i64 = 0
    most: i64 = context.limits.most_candidates
    while enough < context.limits.most_domains and seen < most:
        candidates = context.ledger.worse_than(rank, stick, now, seen, min(seen + AT_A_TIME, most))
        if candidates is None:
            break
        context.prices.queries += len(candidates)
        enough += add_candidates(rooms, job.gpus, near, _not_spared(job, candidates, spares), cluster)
        seen += AT_A_TIME
    return rooms


def _not_spared(job: Job, candidates: list[Job], spares: i64) -> list[Job]:
    if spares == NONE_SPARED:
        return candidates
    wider = spares == SAME_SIZE
    return [other for other in candidates if other.gpus < job.gpus or (wider and other.gpus > job.gpus)]


def _and_start(job: Job, tier: i64, domain: i64, actions: list[Action], cluster: Cluster) -> list[Action]:
    """These actions, then the job's start on the GPUs of the domain that are free once they are done."""
    cluster.focus(job)
    trial = cluster.trial()
    for action in actions:
        held: Allocation | None = action.job.allocation
        assert held is not None
        trial.release(held)
        if isinstance(action, Migrate):
            trial.take(action.allocation, action.job)
    allocation = fit_into(cluster, tier, domain, job.gpus)
    trial.undo()
    actions.append(Start(job, allocation))
    return actions


def as_long_as_they_succeed(actions: list[Action]) -> Iterator[Action]:
    """One after the other; none after one that the cluster refused, as the next need the GPUs that it frees."""
    for action in actions:
        yield action
        if isinstance(action, Preempt) and action.job.status == RUNNING:
            return
        if isinstance(action, Migrate) and action.job.allocation is not action.allocation:
            return
