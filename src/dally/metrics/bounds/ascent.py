"""Better prices step by step: dearer where jobs ask for more GPUs than there are, cheaper where they leave some."""

from __future__ import annotations

from typing import Final

from librt.vecs import vec
from mypy_extensions import i64

from dally.metrics.bounds.market import Market, Ruling
from dally.metrics.bounds.offered import Grid, Workload

STEPS: Final = 60
MOST_VISITS: Final = 20_000_000  # of bins by jobs, over all steps: about a second, compiled
HOPE: Final = 0.02  # by how much the bound may still grow, at first: sets the length of a step
PATIENCE: Final = 3  # steps without a better bound before the hope is halved


def best_priced_total_s(workload: Workload, grid: Grid) -> float:
    """The best bound found on the sum of completion times.

    The grid holds the unfinished jobs over time. One GPU-second more would put each of them off by one
    second ÷ GPUs: that is the first price. Or none, where that is better.
    """
    waiting = grid.price
    grid.price = vec[float]([0.0] * int(grid.bins))
    market = Market(workload, grid)
    free = market.ruling()
    if _push(grid, free.overdrawn, 0.0) == 0.0:
        return free.total_s  # everybody runs at once
    for place in range(grid.bins):
        grid.price[place] = waiting[place] / workload.gpus
    first = market.ruling()
    if free.total_s > first.total_s:
        grid.price = vec[float]([0.0] * int(grid.bins))
        first = free
    return _climb(market, first)


def _climb(market: Market, best: Ruling) -> float:
    """Polyak's subgradient steps, back to the best prices when they lead nowhere."""
    grid = market.grid
    best_price = _copy(grid.price)
    here = best
    hope = HOPE
    failed: i64 = 0
    visits: i64 = 0
    for _ in range(STEPS):
        norm = _push(grid, here.overdrawn, 0.0)
        if norm == 0.0 or visits > MOST_VISITS:
            break
        _push(grid, here.overdrawn, (best.total_s * (1.0 + hope) - here.total_s) / norm)
        here = market.ruling()
        visits += here.visits
        if here.total_s > best.total_s:
            best = here
            best_price = _copy(grid.price)
            failed = 0
            continue
        failed += 1
        if failed == PATIENCE:
            failed = 0
            hope *= 0.5
            here = best
            grid.price = _copy(best_price)
    return best.total_s


def _push(grid: Grid, overdrawn: vec[float], step: float) -> float:
    """Move the prices by so much per GPU-second; the squares of what moves them, added up.

    A price of 0 does not fall, so its bin does not count.
    """
    norm = 0.0
    for place in range(grid.bins):
        if grid.price[place] > 0.0 or overdrawn[place] > 0.0:
            norm += overdrawn[place] * overdrawn[place]
            price = grid.price[place] + step * overdrawn[place]
            grid.price[place] = price if price > 0.0 else 0.0
    return norm


def _copy(values: vec[float]) -> vec[float]:
    copied = vec[float]([0.0] * len(values))
    for place in range(len(values)):
        copied[place] = values[place]
    return copied
