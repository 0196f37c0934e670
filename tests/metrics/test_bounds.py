"""The lower bounds, by hand and against what is certainly possible."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dally.metrics.bounds import jct_bound_s, makespan_bound_s
from dally.metrics.bounds.busy_time import busy_time_total_s, srpt_total_s
from dally.metrics.bounds.jct import JctBounds
from dally.metrics.bounds.offered import Grid, Workload, workload_of
from dally.model import Job
from tests.optimal import Ask, best_schedule

GPUS = 4
Row = tuple[float, int, float]  # submit_s, GPUs, duration_s
ROWS = st.lists(
    st.tuples(st.integers(0, 100).map(float), st.integers(1, 8), st.integers(0, 60).map(float)),
    min_size=1,
    max_size=12,
).map(lambda rows: sorted(rows, key=lambda row: row[0]))
# Whole seconds: the best schedule is found by trying all of them.
TINY = st.lists(st.tuples(st.integers(0, 3), st.integers(1, GPUS), st.integers(1, 4)), min_size=1, max_size=5).map(
    lambda rows: sorted(rows, key=lambda row: row[0])
)


def jobs(rows: list[Row]) -> list[Job]:
    return [Job(i, f"j{i}", submit, gpus, duration) for i, (submit, gpus, duration) in enumerate(rows)]


def workload(rows: list[Row], gpus: int) -> Workload:
    return workload_of(jobs(rows), gpus)


def optimal_total_s(asks: list[Ask]) -> float:
    """The least sum of completion times that any schedule attains."""
    finish = [0] * len(asks)
    for second, running in enumerate(best_schedule(asks, GPUS)):
        for job in running:
            finish[job] = second + 1
    return float(sum(end - ask[0] for end, ask in zip(finish, asks, strict=True)))


def floats(asks: list[Ask]) -> list[Row]:
    return [(float(submit), gpus, float(duration)) for submit, gpus, duration in asks]


@pytest.mark.parametrize(
    ("name", "rows", "makespan", "at_least", "optimum"),
    [
        ("nothing", [], 0.0, 0.0, 0.0),
        ("no time at all", [(3, 8, 0), (3, 1, 0)], 0.0, 0.0, 0.0),
        ("one job cannot be hurried", [(5, 1, 10)], 10.0, 10.0, 10.0),
        ("work over GPUs", [(0, 8, 10), (0, 8, 10)], 20.0, 15.0, 15.0),
        # The late one waits a second for the first, which has all GPUs.
        ("a late long job", [(0, 8, 10), (9, 1, 30)], 39.0, 20.0, 20.5),
        # From 10 on there are 2 x 8 GPUs x 10 s of work: not before 30, though the total work is done by 25.
        ("work that comes late", [(0, 8, 5), (10, 8, 10), (10, 8, 10)], 30.0, 35 / 3, 35 / 3),
        # SRPT: the 2 s job interrupts at 1; 10 s job ends at 12.
        ("preemption", [(0, 8, 10), (1, 8, 2)], 12.0, 7.0, 7.0),
    ],
)
def test_by_hand(name: str, rows: list[Row], makespan: float, at_least: float, optimum: float) -> None:
    assert makespan_bound_s(jobs(rows), 8) == pytest.approx(makespan)
    assert at_least - 1e-9 <= jct_bound_s(jobs(rows), 8) <= optimum + 1e-9


def test_each_bound_by_hand() -> None:
    # 4 GPUs, three jobs of 2 GPUs and 4 s at once. One fast machine does each in 2 s: 2, 4, 6.
    found = JctBounds(workload([(0, 2, 4), (0, 2, 4), (0, 2, 4)], 4))
    assert found.duration_s == 4.0
    assert found.one_machine_s == pytest.approx((2 + 4 + 6) / 3)
    # Their work lies around 1, 3 and 5 s there, and nobody ends less than 2 s after the middle of its work.
    assert found.busy_time_s == pytest.approx((3 + 5 + 7) / 3)
    # Two at once and one after: 4, 4, 8. No sum of prices can promise more than the optimum.
    assert found.busy_time_s - 1e-9 <= found.priced_s <= (4 + 4 + 8) / 3


def test_a_smaller_job_interrupts_in_the_bound_of_busy_times() -> None:
    # One GPU: 4 s of work from 0; 1 s of work comes at 1 and is served until 2, around 1.5. The first is
    # served in 0..1 and 2..5: around (1·0.5 + 3·3.5) / 4 = 2.75. In all 2.75 + 0.5 + (4 + 1) / 2.
    rows = workload([(0, 1, 4), (1, 1, 1)], 1)
    grid = Grid(5.0, 5)
    assert busy_time_total_s(rows, grid) == pytest.approx(2.75 + 0.5 + 2.5)
    # Unfinished, by share: 1 to 0.75 in the first second; 1.75 to 0.75; then 0.75, 0.5 and 0.25 at the start.
    assert list(grid.price) == pytest.approx([0.875, 1.25, 0.625, 0.375, 0.125])


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


@given(TINY)
def test_no_bound_is_above_the_best_schedule(asks: list[Ask]) -> None:
    best_s = optimal_total_s(asks) / len(asks)
    found = JctBounds(workload(floats(asks), GPUS))
    for bound_s in (found.duration_s, found.one_machine_s, found.busy_time_s, found.priced_s):
        assert bound_s <= best_s * (1 + 1e-9)


@given(ROWS, st.integers(8, 20))
def test_more_gpus_never_raise_a_bound(rows: list[Row], gpus: int) -> None:
    few, many = workload(rows, gpus), workload(rows, gpus + 1)
    assert srpt_total_s(many) <= srpt_total_s(few) + 1e-6
    assert busy_time_total_s(many, Grid(1.0, 1)) <= busy_time_total_s(few, Grid(1.0, 1)) + 1e-6
    assert makespan_bound_s(jobs(rows), gpus + 1) <= makespan_bound_s(jobs(rows), gpus) + 1e-6


@given(ROWS)
def test_only_differences_of_time_count_and_only_their_ratio(rows: list[Row]) -> None:
    bound_s = jct_bound_s(jobs(rows), 8)
    assert jct_bound_s(jobs([(submit + 1024, gpus, duration) for submit, gpus, duration in rows]), 8) == bound_s
    twice = [(2 * submit, gpus, 2 * duration) for submit, gpus, duration in rows]
    assert jct_bound_s(jobs(twice), 8) == pytest.approx(2 * bound_s)


@given(ROWS, st.data())
def test_a_slowdown_is_a_longer_duration(rows: list[Row], data: st.DataObject) -> None:
    slowdowns = [data.draw(st.sampled_from([1.0, 1.5, 2.0])) for _ in rows]
    longer = [(row[0], row[1], row[2] * slowdown) for row, slowdown in zip(rows, slowdowns, strict=True)]
    assert jct_bound_s(jobs(rows), 8, slowdowns) == jct_bound_s(jobs(longer), 8)
    assert makespan_bound_s(jobs(rows), 8, slowdowns) == makespan_bound_s(jobs(longer), 8)
