"""Max-min fair shares of time: what Gavel's linear program comes to where all GPUs are of one kind."""

from __future__ import annotations

from collections.abc import Mapping


def max_min_fractions(jobs: Mapping[int, int], gpus: float) -> dict[int, float]:
    """By gang size the fraction of time such jobs run, so that the least GPU share is as large as can be.

    `jobs` says how many jobs of each size there are. Then the least of those that could still have more is
    made as large as can be, and so on. With one kind of GPU no solver is needed: jobs smaller than an equal share
    of what is left run all the time, smallest first, and the others have equal shares of the rest.
    """
    found: dict[int, float] = {}
    room = gpus
    sharing = sum(jobs.values())
    for size in sorted(jobs):
        share = room / sharing
        if size > share:
            return found | {larger: share / larger for larger in jobs if larger >= size}
        found[size] = 1.0
        room -= jobs[size] * size
        sharing -= jobs[size]
    return found
