"""Max-min fair shares of time, as a linear program."""

from __future__ import annotations

from collections.abc import Mapping

CLOSE = 1e-9  # relative; the solver rounds


def max_min_fractions(jobs: Mapping[int, int], gpus: float) -> dict[int, float]:
    """By gang size the fraction of time such jobs run, so that the least GPU share is as large as can be.

    `jobs` says how many jobs of each size there are. Then the least of those that could still have more is
    made as large as can be, and so on: what jobs that run all the time cannot use goes to the others. Jobs of
    one size get the same, so the program has one variable per size however many jobs there are.
    """
    found: dict[int, float] = {}
    left = dict(jobs)
    while left:
        room = gpus - sum(jobs[size] * size * share for size, share in found.items())
        share = _largest_share(left, max(0.0, room))
        full = [size for size in left if size <= share * (1.0 + CLOSE)]  # these run all the time and want no more
        for size in full or list(left):
            found[size] = min(1.0, share / size)
            del left[size]
    return found


def _largest_share(jobs: Mapping[int, int], room: float) -> float:
    """Maximise t with size · x ≥ t, x ≤ 1 for every size, and all their GPU time within `room`."""
    import numpy as np
    from scipy.optimize import linprog

    sizes = np.array(list(jobs), dtype=float)
    counts = np.array(list(jobs.values()), dtype=float)
    count = len(sizes)
    within = np.append(counts * sizes, 0.0)
    at_least = np.hstack([-np.diag(sizes), np.ones((count, 1))])
    answer = linprog(
        c=np.append(np.zeros(count), -1.0),
        A_ub=np.vstack([within, at_least]),
        b_ub=np.append(room, np.zeros(count)),
        bounds=[(0.0, 1.0)] * count + [(0.0, None)],
        method="highs",
    )
    if answer.status != 0:
        raise RuntimeError(f"the linear program of max-min shares failed: {answer.message}")
    return max(0.0, float(-answer.fun))
