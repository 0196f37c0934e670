"""Making room for a gang at its closest tier: by compaction, by preemption, or by both."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import Action, Allocation, Job, Migrate, Start
from dally.policies.dally.compaction import cheapest_clearing
from dally.policies.dally.context import Context
from dally.policies.dally.preemption import Room, add_candidates, cheapest_eviction, cheapest_opening
from dally.policies.placement.best_fit import fit_into

AT_A_TIME: Final = 64  # running jobs looked at before asking whether that is enough


def make_room(job: Job, near: i64, rank: float, now: float, cluster: Cluster, context: Context) -> list[Action]:
    """Others moved out of the job's way or preempted, and its start; [] if there is no way."""
    limits = context.limits
    actions: list[Action] = []
    if limits.compaction:
        actions = _clear(job, near, now, cluster, context)
    if not actions and limits.preemption:
        rooms = _rooms(job, near, rank, limits.stick, now, cluster, context)
        actions = _evict(job, near, rooms, now, cluster, context)
        if not actions and limits.mixing:
            actions = _open(job, near, rooms, now, cluster, context)
    return actions


def evict_for(job: Job, near: i64, rank: float, now: float, cluster: Cluster, context: Context) -> list[Action]:
    """Jobs ranked worse than that preempted for the job, and its start; [] if there is no way."""
    return _evict(job, near, _rooms(job, near, rank, 1.0, now, cluster, context), now, cluster, context)


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
    actions: list[Action] = [context.preempt(loser, job, now) for loser in eviction.losers]
    return _and_start(job, near, eviction.domain, actions, cluster)


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
    job: Job, near: i64, rank: float, stick: float, now: float, cluster: Cluster, context: Context
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
        enough += add_candidates(rooms, job.gpus, near, candidates, cluster)
        seen += AT_A_TIME
    return rooms


def _and_start(job: Job, tier: i64, domain: i64, actions: list[Action], cluster: Cluster) -> list[Action]:
    """These actions, then the job's start on the GPUs of the domain that are free once they are done."""
    trial = cluster.trial()
    for action in actions:
        held: Allocation | None = action.job.allocation
        assert held is not None
        trial.release(held)
        if isinstance(action, Migrate):
            trial.take(action.allocation)
    allocation = fit_into(cluster, tier, domain, job.gpus)
    trial.undo()
    actions.append(Start(job, allocation))
    return actions
