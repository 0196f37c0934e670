"""Effective training time: the share of a gang's time that is work, between failures, restarts and checkpoints.

Closed form for failures at a constant rate, as Daly has it ("A higher order estimate of the optimum checkpoint
interval", 2006): a stretch of work `every_s` and its checkpoint is done again from its beginning if a failure comes
before it is complete, and a restart comes before that, in which another failure may come.
"""

from __future__ import annotations

from math import exp, expm1, inf, lgamma, log
from typing import Final

DAY_S: Final = 86400.0


def effective_share(failures_per_s: float, every_s: float, checkpoint_s: float, restart_s: float) -> float:
    """The share of time that is work (ETTR), once the gang runs; waiting for machines is not in it."""
    if failures_per_s <= 0.0:
        return every_s / (every_s + checkpoint_s) if every_s < inf else 1.0
    stretch = failures_per_s * (every_s + checkpoint_s)
    if stretch > 700.0 or failures_per_s * restart_s > 700.0:
        return 0.0
    return failures_per_s * every_s / (exp(failures_per_s * restart_s) * expm1(stretch))


def best_interval_s(failures_per_s: float, checkpoint_s: float, least_s: float = 1.0) -> float:
    """Work between checkpoints that makes the share largest, at least so many seconds; infinity without failures.

    Young's √(2 · checkpoint ÷ rate) is where the search begins; the share has one maximum. Without a cost
    checkpoints cannot be too frequent.
    """
    if failures_per_s <= 0.0:
        return inf
    if checkpoint_s <= 0.0:
        return least_s
    middle = (2.0 * checkpoint_s / failures_per_s) ** 0.5
    low, high = log(middle / 100.0), log(middle * 100.0)
    golden = (5.0**0.5 - 1.0) / 2.0
    for _ in range(80):
        left, right = high - golden * (high - low), low + golden * (high - low)
        if _cost(failures_per_s, exp(left), checkpoint_s) < _cost(failures_per_s, exp(right), checkpoint_s):
            high = right
        else:
            low = left
    return max(least_s, exp(0.5 * (low + high)))


def _cost(failures_per_s: float, every_s: float, checkpoint_s: float) -> float:
    """Time per work, as a logarithm: the restart's share does not depend on the interval."""
    stretch = failures_per_s * (every_s + checkpoint_s)
    grown = stretch if stretch > 700.0 else log(expm1(stretch))
    return grown - log(failures_per_s * every_s)


def spares(machines: int, failures_per_machine_s: float, repair_s: float, surely: float = 0.99) -> int:
    """How many machines more are needed so that with that probability enough are up at any moment.

    Machines fail and are repaired by themselves: how many are down at once is binomial.
    """
    down = failures_per_machine_s * repair_s / (1.0 + failures_per_machine_s * repair_s)
    count = 0
    while _at_most(count, machines + count, down) < surely:
        count += 1
    return count


def _at_most(most: int, machines: int, down: float) -> float:
    """The probability that no more are down."""
    if down <= 0.0:
        return 1.0
    total = 0.0
    for count in range(min(most, machines) + 1):
        ways = lgamma(machines + 1) - lgamma(count + 1) - lgamma(machines - count + 1)
        total += exp(ways + count * log(down) + (machines - count) * log(1.0 - down))
    return total
