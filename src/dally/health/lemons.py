"""Lemons: machines that fail far more often than the others can explain."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, lgamma, log
from statistics import median
from typing import Final

FALSELY: Final = 0.01  # probability that any sound machine is called a lemon
LEAST_FAILURES: Final = 3


def lemons(failures: Mapping[str, int]) -> list[str]:
    """Machines whose failures are too many for chance, by name; `failures` has every machine, also with 0.

    A sound machine's failures are Poisson at the mean of all that are not lemons: who is taken out lowers it.
    """
    result: set[str] = set()
    while True:
        others = [count for name, count in failures.items() if name not in result]
        if not others:
            break
        usual = max(sum(others) / len(others), median(others), 1.0 / len(failures))
        more = {
            name
            for name, count in failures.items()
            if name not in result and count >= LEAST_FAILURES and _at_least(count, usual) < FALSELY / len(failures)
        }
        if not more:
            break
        result |= more
    return sorted(result)


def _at_least(count: int, mean: float) -> float:
    """The probability of so many failures or more."""
    below = sum(exp(number * log(mean) - mean - lgamma(number + 1)) for number in range(count))
    return max(0.0, 1.0 - below)
