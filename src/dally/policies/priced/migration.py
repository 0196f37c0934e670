"""Priced migration: a running gang moves to any faster place that pays for its restart."""

from __future__ import annotations

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import Allocation, Job
from dally.policies.ordering.gittins import GittinsOrder
from dally.policies.priced.limits import Limits
from dally.policies.priced.prices import Prices

DOMAINS_TRIED: i64 = 4


def by_what_they_lose(
    spread: dict[int, Job], now: float, limits: Limits, prices: Prices, order: GittinsOrder
) -> list[Job]:
    """Gangs at work that run slower than they could, those who lose most GPU-seconds by it first."""
    rows: list[tuple[float, int]] = []
    for index, job in spread.items():
        if job.since_s > now or job.placed_s >= now or job.rate <= 0.0:
            continue
        excess = prices.excess(job)
        if excess > limits.least_excess:
            rows.append((-(excess - 1.0) * order.left_s(job) * float(job.gpus), index))
    rows.sort()
    return [spread[row[1]] for row in rows[: limits.most_moves]]


def better_place(
    job: Job, cluster: Cluster, limits: Limits, prices: Prices, order: GittinsOrder
) -> Allocation | None:
    """The closest place that saves the gang enough to pay for its restart, its own GPUs counted as free."""
    held = job.allocation
    assert held is not None
    left_s = order.left_s(job) * prices.best(job)
    least_s = limits.saving * prices.stop_s(job)
    if least_s < limits.least_saving_s:
        least_s = limits.least_saving_s
    excess = prices.excess(job)
    found: Allocation | None = None
    trial = cluster.trial()
    trial.release(held)
    for tier in range(cluster.root + 1):
        place = prices.cheapest(job, cluster, tier, DOMAINS_TRIED)
        if place is not None and left_s * (excess - place.price) > least_s:
            found = place.allocation
            break
    trial.undo()
    return found
