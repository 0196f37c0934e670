"""Priced migration: a running gang moves to any faster place that pays for its restart."""

from __future__ import annotations

from dally.cluster.capacity import Cluster
from dally.model import Job
from dally.policies.dally.kept_domain import Kept
from dally.policies.dally.limits import Limits
from dally.policies.dally.moves import Move
from dally.policies.dally.pricing import Prices
from dally.policies.dally.retries import Retries
from dally.policies.ordering.gittins import GittinsOrder


def by_what_they_lose(
    spread: dict[int, Job], now: float, limits: Limits, prices: Prices, order: GittinsOrder, retries: Retries
) -> list[Job]:
    """Gangs at work that run slower than they could, those who lose most GPU-seconds by it first."""
    rows: list[tuple[float, int]] = []
    for index, job in spread.items():
        if (
            job.non_preemptible
            or job.since_s > now
            or job.placed_s >= now
            or job.rate <= 0.0
            or not retries.is_due(job, now)
        ):
            continue
        excess = prices.excess(job)
        if excess > limits.least_excess:
            rows.append((-(excess - 1.0) * order.left_s(job) * float(job.gpus), index))
    rows.sort()
    return [spread[row[1]] for row in rows[: limits.most_moves]]


def better_place(
    job: Job, now: float, cluster: Cluster, kept: Kept, limits: Limits, prices: Prices, order: GittinsOrder
) -> Move | None:
    """The closest place that saves the gang enough to pay for its restart, its own GPUs counted as free."""
    held = job.allocation
    assert held is not None
    left_s = order.left_s(job) * prices.best(job)
    cost_s = prices.stop_s(job, now)
    least_s = max(limits.saving * cost_s, limits.least_saving_s)
    excess = prices.excess(job)
    found: Move | None = None
    trial = kept.trial(cluster)
    trial.release(held)
    for tier in range(cluster.root + 1):
        place = prices.cheapest(job, cluster, tier, limits.move_domains)
        if place is None:
            continue
        saved_s = left_s * (excess - place.price)
        if saved_s > least_s:
            found = Move(job, place.allocation, cost_s, saved_s)
            break
    trial.undo()
    return found
