"""Max-min fair fractions of time, against the linear program that Gavel solves for them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from dally.policies.gavel import max_min_fractions
from tests.examples import many

jobs_by_size = st.dictionaries(st.sampled_from([1, 2, 3, 4, 8, 16, 64]), st.integers(1, 50), min_size=1)


def least_share(jobs: dict[int, int], fixed: dict[int, float], gpus: float) -> float:
    """The largest t with size · x ≥ t for every size not fixed, 0 ≤ x ≤ 1, and all GPU time within the cluster."""
    sizes = np.array([size for size in jobs if size not in fixed], dtype=float)
    counts = np.array([jobs[size] for size in jobs if size not in fixed], dtype=float)
    room = gpus - sum(jobs[size] * size * fraction for size, fraction in fixed.items())
    answer = linprog(
        c=np.append(np.zeros(len(sizes)), -1.0),
        A_ub=np.vstack([np.append(counts * sizes, 0.0), np.hstack([-np.diag(sizes), np.ones((len(sizes), 1))])]),
        b_ub=np.append(max(0.0, room), np.zeros(len(sizes))),
        bounds=[(0.0, 1.0)] * len(sizes) + [(0.0, None)],
        method="highs",
    )
    return float(-answer.fun)


def by_programs(jobs: dict[int, int], gpus: float) -> dict[int, float]:
    """One program after the other: those who have all the time leave, the least of the others is raised."""
    found: dict[int, float] = {}
    while len(found) < len(jobs):
        share = least_share(jobs, found, gpus)
        left = [size for size in jobs if size not in found]
        full = [size for size in left if size <= share * (1.0 + 1e-9)]
        found |= {size: min(1.0, share / size) for size in full or left}
    return found


@settings(max_examples=many(100), deadline=None)
@given(jobs_by_size, st.integers(64, 640))
def test_fractions_are_those_of_the_linear_program(jobs: dict[int, int], gpus: int) -> None:
    assert max_min_fractions(jobs, float(gpus)) == pytest.approx(by_programs(jobs, float(gpus)), abs=1e-7)


@settings(max_examples=many(200), deadline=None)
@given(jobs_by_size, st.integers(64, 640))
def test_fractions_add_up(jobs: dict[int, int], gpus: int) -> None:
    shares = max_min_fractions(jobs, float(gpus))
    assert all(0.0 <= share <= 1.0 for share in shares.values())
    used = sum(jobs[size] * size * share for size, share in shares.items())
    wanted = sum(jobs[size] * size for size in jobs)
    assert abs(used - min(gpus, wanted)) <= 1e-6 * gpus
    # Max-min: who gets less than all the time has as large a GPU share as anybody.
    largest = max(size * share for size, share in shares.items())
    for size, share in shares.items():
        assert share >= 1.0 - 1e-6 or size * share >= largest - 1e-6 * gpus


def test_small_gangs_run_all_the_time_and_the_others_share_the_rest() -> None:
    # 12 GPUs: two jobs of 1 GPU take 2, the others have 10/2 each: all the time for 4, and 6/8 of it for 8.
    assert max_min_fractions({8: 1, 1: 2, 4: 1}, 12.0) == {1: 1.0, 4: 1.0, 8: 0.75}
    # Nobody is smaller than an equal share of 8/3.
    assert max_min_fractions({8: 1, 4: 2}, 8.0) == {8: 8 / 3 / 8, 4: 8 / 3 / 4}
