"""Lent GPUs taken back: whose jobs must stop so that one within its share can start."""

from __future__ import annotations

from typing import NamedTuple

from dally.cluster.capacity import Cluster
from dally.model import INFINITY, Job
from dally.policies.sharing.fair_shares import FairShares
from dally.policies.sharing.teams import Team


class Claim(NamedTuple):
    """Who has to stop for a job; or when that can be said again, if some have not run long enough."""

    losers: list[Job]
    ripe_s: float = INFINITY


def claim(
    job: Job,
    pool: int,
    shares: FairShares,
    team_of: dict[int, Team],
    cluster: Cluster,
    spared: set[int],
    now: float,
) -> Claim | None:
    """Room for the job in a domain of its closest tier, at the least loss; None if nobody holds more than its due.

    Teams lose while they hold more than they are due; who has run for less than its `min_runtime` is left alone,
    and so are those spared and those that stay. Where the closest tier cannot be cleared so, the next is looked at.
    """
    near = cluster.topology.closest_tier(job.gpus, job.group)
    for tier in range(near, cluster.root + 1) if near >= 0 else ():
        found: list[tuple[float, list[Job]]] = []
        ripe_s = INFINITY
        for domain in range(len(cluster.topology.names[tier])):
            if cluster.topology.gpus[tier][domain] < job.gpus:
                continue
            free = int(cluster.free[tier][domain])
            if free >= job.gpus and job.group == 1:
                return Claim([])
            inside = _inside(cluster, tier, domain)
            there = [row for row in inside if not row.job.non_preemptible and int(row.job.index) not in spared]
            losers, soon_s = _losers(job, free, there, pool, shares, team_of, now)
            if losers:
                found.append((sum(float(loser.gpus) * (now - loser.placed_s) for loser in losers), losers))
            ripe_s = min(ripe_s, soon_s)
        if found:
            return Claim(min(found, key=lambda row: row[0])[1])
        if ripe_s < INFINITY:
            return Claim([], ripe_s)
    return None


class _Inside(NamedTuple):
    job: Job
    gpus: int  # of the domain


def _inside(cluster: Cluster, tier: int, domain: int) -> list[_Inside]:
    """Jobs that have GPUs in a domain, the latest placed first."""
    first, last = cluster.topology.machines_of(tier, domain)
    found: dict[int, _Inside] = {}
    for machine in range(first, last):
        for job in cluster.jobs_on[machine]:
            assert job.allocation is not None
            here = sum(gpus for number, gpus in job.allocation.parts() if number == machine)
            before = found.get(int(job.index))
            found[int(job.index)] = _Inside(job, here + (before.gpus if before else 0))
    return sorted(found.values(), key=lambda row: (-row.job.placed_s, -row.job.index))


def _losers(
    job: Job, free: int, there: list[_Inside], pool: int, shares: FairShares, team_of: dict[int, Team], now: float
) -> tuple[list[Job], float]:
    """Who of these has to go for the job; if they are not enough yet, when they will be."""
    over: dict[int, float] = {}  # by team, what it holds above its due
    ripe: list[_Inside] = []
    unripe: list[tuple[float, int]] = []  # when, and how many GPUs
    for row in there:
        team = team_of[int(row.job.index)]
        if team is team_of[int(job.index)]:
            continue
        if over.setdefault(team.number, team.held[pool] - shares.due[team.number]) <= 1e-9:
            continue
        at_s = row.job.placed_s + team.written.min_runtime_s
        if at_s > now:
            unripe.append((at_s, row.gpus))
        elif free < job.gpus:
            ripe.append(row)
            free += row.gpus
            over[team.number] -= float(row.job.gpus)
    if free >= job.gpus:
        return _needed(ripe, free, int(job.gpus)), INFINITY
    for at_s, gpus in sorted(unripe):
        free += gpus
        if free >= job.gpus:
            return [], at_s
    return [], INFINITY


def _needed(losers: list[_Inside], free: int, gpus: int) -> list[Job]:
    """Without those whose GPUs turn out not to be needed."""
    found: list[Job] = []
    for row in losers:
        if free - row.gpus >= gpus:
            free -= row.gpus
        else:
            found.append(row.job)
    return found
