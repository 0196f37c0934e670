"""Ageing where gangs of a whole cluster do much of the work, and short patience where all jobs are alike."""

from __future__ import annotations

import random

import pytest

from dally.model import INFINITY, Costs, Job
from dally.policies.dally.limits import Limits
from dally.policies.dally.starvation import StarvationBound
from dally.policies.ordering.ageing import Ageing
from dally.policies.ordering.gittins import GittinsOrder
from dally.policies.prediction.hazard import HazardTable
from dally.policies.registry import build
from dally.testing import record_of
from dally.testing.invariants import JobRow
from dally.testing.strategies import Case

HOUR_S = 3600.0
Asked = list[tuple[float, int, float]]  # when, GPUs, seconds


def _job(index: int, gpus: int = 1, work_s: float = 0.0, submit_s: float = 0.0) -> Job:
    job = Job(index, f"j{index}", submit_s, gpus, 100.0)
    job.work_s = work_s
    return job


def _ageing(wide_gpus: int = 16) -> Ageing:
    """On 16 GPUs, two jobs of 6,000 and 2,000 GPU-seconds have ended; the second took so many."""
    ages = Ageing(3.0, 2.0, 3 * HOUR_S, 0.25)
    ages.gpus = 12.0
    ages.ended(_job(0, 1, 6000.0))
    ages.ended(_job(1, wide_gpus, 2000.0 / wide_gpus))
    return ages


def test_a_rank_falls_with_the_time_in_the_system_by_work() -> None:
    ages = _ageing()
    ages.now = 12 * HOUR_S
    # 12 h in the system, work counts as 3 h at least: twice the 2 from which on it counts, to the power of 3.
    assert ages.factor(_job(2)) == pytest.approx(8.0)
    assert ages.factor(_job(2, work_s=4 * HOUR_S)) == pytest.approx(1.5**3)
    assert ages.factor(_job(2, work_s=6 * HOUR_S)) == 1.0
    assert ages.factor(_job(2, submit_s=6 * HOUR_S)) == 1.0


def test_it_does_so_only_where_gangs_of_the_whole_cluster_do_a_share_of_the_work() -> None:
    ages = _ageing(wide_gpus=8)
    ages.now = 12 * HOUR_S
    assert ages.factor(_job(2)) == 1.0
    assert not ages.alternates(_job(2, 16))
    ages.ended(_job(3, 12, 1000.0))  # now 12,000 of 20,000 GPU-seconds are such a gang's
    assert ages.factor(_job(2)) > 1.0
    assert ages.alternates(_job(2, 12))
    assert not ages.alternates(_job(2, 11))
    for index in range(4, 40):
        ages.ended(_job(index, 1, 10_000.0))
    assert ages.factor(_job(2)) == 1.0


def test_what_was_seen_is_kept() -> None:
    order, again = (GittinsOrder(HazardTable(), ages=Ageing(3.0, 2.0, 3 * HOUR_S, 0.25)) for _ in range(2))
    for one in (order, again):
        one.set_gpus(16.0, 0.75)
    gang = _job(0, 16, 1000.0)
    order.ranked(gang)
    order.finished(gang, 1000.0)
    again.restore(order.saved())
    for one in (order, again):
        one.moved(12 * HOUR_S)
    assert again.saved() == order.saved()
    assert again.key(_job(1, 2), 12 * HOUR_S) == order.key(_job(1, 2), 12 * HOUR_S)
    plain = GittinsOrder(HazardTable())
    plain.restore(order.saved())
    assert plain.key(_job(1, 2), 12 * HOUR_S) == pytest.approx(8.0 * order.key(_job(1, 2), 12 * HOUR_S))


def _learnt(lengths_s: list[float]) -> HazardTable:
    table = HazardTable(forget=0.0)
    leaf = table.class_of(_job(0))
    for length_s in lengths_s:
        _end(table, leaf, length_s)
    return table


def _end(table: HazardTable, leaf: int, length_s: float) -> None:
    last = table.bin_of(length_s)
    for age_bin in range(last):
        table.outlived(leaf, age_bin)
    table.ended(leaf, last)


def test_jobs_are_alike_if_99_of_100_take_less_than_three_times_the_median() -> None:
    alike = [HOUR_S * (1.0 + place / 100) for place in range(100)]
    end_s = HazardTable().end_s(HazardTable().bin_of(2 * HOUR_S))
    assert _learnt(alike).recompute(3.0) == end_s
    assert _learnt([*alike, 30 * HOUR_S]).recompute(3.0) == end_s, "one of 101"
    assert _learnt([*alike, *[30 * HOUR_S] * 3]).recompute(3.0) == INFINITY
    assert _learnt(alike[1:]).recompute(3.0) == INFINITY, "99 have ended: who knows"
    assert _learnt(alike).recompute(1.0) == INFINITY
    assert _learnt(alike).recompute(0.0) == INFINITY


def test_ranks_of_jobs_alike_change_for_all_at_once() -> None:
    table = _learnt([HOUR_S] * 100)
    leaf = table.class_of(_job(0))
    table.recompute(3.0)
    before = table.rank_s(leaf, 0)
    _end(table, leaf, 2 * HOUR_S)
    assert table.rank_s(leaf, 0) == before
    table.recompute(3.0)
    assert table.rank_s(leaf, 0) != before


def test_patience_is_short_where_jobs_are_alike() -> None:
    bound = StarvationBound(Limits(patience_s=1000.0, patience=0.0, alike_patience=2.0, reserved=0.1))
    early, late = _job(0), _job(1)
    bound.waits(late)
    assert bound.next_s() == 1000.0
    bound.take_to_last(300.0)
    assert bound.next_s() == 600.0, "those who wait already, too"
    bound.take_to_last(100.0)
    bound.waits(early)
    assert bound.next_s() == 200.0
    assert bound.is_early(early, 200.0)
    assert not bound.is_early(early, 1000.0)
    bound.protect(early, 500.0)
    assert bound.room_for(_job(2, 4), 10, 300.0), "half of the GPUs, instead of a tenth"
    bound.take_to_last(INFINITY)
    assert not bound.room_for(_job(2, 4), 10, 300.0)


def _run(jobs: Asked, **settings: str) -> list[JobRow]:
    grid: list[tuple[tuple[str, ...], int]] = [((f"r{rack}",), 4) for rack in range(2) for _ in range(2)]
    return record_of(Case(grid, jobs, costs=Costs(1.0, 1.0, 0.0)).run(build("dally", settings))).jobs


def test_equal_jobs_that_wait_for_long_are_served_in_order_and_never_preempted() -> None:
    # 200 jobs on 8 halves of machines, 1.25 times what these can serve: the last wait for 5 h.
    jobs = _run([(place * HOUR_S / 10, 2, HOUR_S) for place in range(200)], alike="2", alike_times="3")
    assert sum(job.preemptions for job in jobs) == 0
    ends_s = [job.finish_s for job in jobs]
    assert ends_s[120:] == sorted(ends_s[120:]), "100 must have ended before"
    assert ends_s[-1] - jobs[-1].submit_s > 4 * HOUR_S


def test_where_jobs_are_alike_the_wide_do_not_wait_for_the_narrow() -> None:
    rng = random.Random(1)
    rows: Asked = [
        (round(place * 500.0, 1), rng.choice((1, 1, 1, 4)), round(rng.uniform(HOUR_S, 2 * HOUR_S), 1))
        for place in range(400)
    ]
    longest = {}
    for name, settings in {"alike": {"alike_times": "3"}, "default": {}}.items():
        jobs = _run(rows, **settings)
        longest[name] = sorted(job.finish_s - job.submit_s for job in jobs)[-4]
    assert longest["alike"] < 0.9 * longest["default"]
