"""The lower bounds, by hand and against what is certainly possible."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dally.metrics.bounds import jct_bound_s, makespan_bound_s
from dally.model import Job


def jobs(rows: list[tuple[float, int, float]]) -> list[Job]:
    return [Job(i, f"j{i}", submit, gpus, duration) for i, (submit, gpus, duration) in enumerate(rows)]


@pytest.mark.parametrize(
    ("name", "rows", "makespan", "jct"),
    [
        ("nothing", [], 0.0, 0.0),
        ("one job cannot be hurried", [(5, 1, 10)], 10.0, 10.0),
        ("work over GPUs", [(0, 8, 10), (0, 8, 10)], 20.0, 15.0),
        ("a late long job", [(0, 8, 10), (9, 1, 30)], 39.0, 20.0),
        # From 10 on there are 2 x 8 GPUs x 10 s of work: not before 30, though the total work is done by 25.
        ("work that comes late", [(0, 8, 5), (10, 8, 10), (10, 8, 10)], 30.0, (5 + 10 + 20) / 3),
        # SRPT: the 2 s job interrupts at 1; 10 s job ends at 12.
        ("preemption", [(0, 8, 10), (1, 8, 2)], 12.0, (12 + 2) / 2),
    ],
)
def test_by_hand(name: str, rows: list[tuple[float, int, float]], makespan: float, jct: float) -> None:
    assert makespan_bound_s(jobs(rows), 8) == pytest.approx(makespan)
    assert jct_bound_s(jobs(rows), 8) == pytest.approx(jct)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 30)), min_size=1, max_size=12))
def test_srpt_is_optimal_on_one_machine(rows: list[tuple[int, int]]) -> None:
    # On a cluster of one GPU the bound is what SRPT, stepped second by second, really reaches.
    rows = sorted(rows)
    left = [duration for _, duration in rows]
    finish = [submit if duration == 0 else -1 for submit, duration in rows]
    now = 0
    while any(left):
        ready = [i for i, (submit, _) in enumerate(rows) if submit <= now and left[i] > 0]
        if ready:
            chosen = min(ready, key=lambda i: (left[i], i))
            left[chosen] -= 1
            if left[chosen] == 0:
                finish[chosen] = now + 1
        now += 1
    total = sum(end - submit for end, (submit, _) in zip(finish, rows, strict=True))
    bound = jct_bound_s(jobs([(float(submit), 1, float(duration)) for submit, duration in rows]), 1)
    assert bound == pytest.approx(total / len(rows))
