"""What jobs state of their durations: relative hazards, and how much they are worth."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from dally.job_spec import JobSpec
from dally.model import Job
from dally.policies.ordering.gittins import MOST_INFLOW, GittinsOrder
from dally.policies.ordering.inflow import MEMORY_S, Inflow
from dally.policies.prediction.hazard import HazardTable
from dally.policies.prediction.statements import PRIOR_HOLD, StatementTable, relative_edges


def job(index: int = 0, user: str = "ann", duration_s: float = 36000.0) -> Job:
    return Job(index, f"j{index}", 0.0, 1, duration_s, spec=JobSpec(1, user=user))


def taught(
    states: Callable[[float, int], float], users: tuple[str, ...] = ("ann",), jobs: int = 200
) -> GittinsOrder:
    """An order that saw so many jobs end, which stated a duration by `states(duration_s, place)` after 300 s."""
    draw = random.Random(7)
    order = GittinsOrder(HazardTable())
    for place in range(jobs):
        one = job(place, users[place % len(users)], draw.uniform(3600.0, 360000.0))
        order.queued(one, 0.0)
        one.work_s = 300.0
        one.reported_s = states(one.duration_s, place)
        order.reported(one, 300.0)
        one.work_s = one.duration_s
        order.finished(one, one.duration_s)
    return order


def stated(order: GittinsOrder, stated_s: float, user: str = "ann") -> Job:
    """A job that has worked 300 s and says how long it takes."""
    one = job(10_000 + len(order._ranked), user)
    one.work_s = 300.0
    one.reported_s = stated_s
    order.reported(one, 300.0)
    return one


def test_edges_rise_and_are_narrow_where_statements_hold() -> None:
    edges = list(relative_edges())
    assert edges == sorted(set(edges))
    assert edges[0] == 0.0
    assert edges[-1] > 30.0
    near = [edge for edge in edges if 0.5 < edge < 1.4]
    assert all(later - edge < 0.051 for edge, later in pairwise(near))


def test_before_anything_is_known_most_statements_hold() -> None:
    table = StatementTable()
    leaf = table.class_of(job())
    assert table.worth(leaf) == PRIOR_HOLD
    assert 0.7 < table.rank_s(leaf, 0) < 1.4


def test_statements_that_hold_say_what_is_left() -> None:
    order = taught(lambda duration_s, place: duration_s)
    assert order.statements.worth(order.statements.class_of(job())) > 0.9
    for hours in (2, 10, 50):
        one = stated(order, 3600.0 * hours)
        assert order.left_s(one) == pytest.approx(3600.0 * hours - 300.0, rel=0.3)
    short, long = (order.per_finish_s(stated(order, 3600.0 * hours)) for hours in (2, 50))
    assert long > 10 * short


def test_wishful_totals_gain_nothing() -> None:
    """Bob states a fifth of what his jobs take: with him 1 h means 5 h, and with Ann 1 h is 1 h."""
    order = taught(lambda duration_s, place: duration_s / (5.0 if place % 2 else 1.0), ("ann", "bob"), 400)
    honest = order.per_finish_s(stated(order, 36000.0))
    wishful = order.per_finish_s(stated(order, 7200.0, "bob"))
    assert wishful == pytest.approx(honest, rel=0.35)


def test_statements_without_any_meaning_lose_their_weight() -> None:
    draw = random.Random(3)
    order = taught(lambda duration_s, place: draw.uniform(3600.0, 360000.0))
    assert order.statements.worth(order.statements.class_of(job())) < 0.5


def test_job_that_outlives_its_statement_is_ranked_by_what_such_jobs_did() -> None:
    order = taught(lambda duration_s, place: duration_s)
    one = stated(order, 3600.0)
    before = order.key(one, 300.0)
    one.work_s = 36000.0
    order.reported(one, 36000.0)
    assert order.key(one, 36000.0) > before


def test_without_statements_nothing_of_them_is_saved() -> None:
    order = GittinsOrder(HazardTable())
    order.queued(job(), 0.0)
    assert "statements" not in order.saved()


def test_saved_and_pickled_it_ranks_the_same() -> None:
    order = taught(lambda duration_s, place: duration_s * 1.2)
    other = GittinsOrder(HazardTable())
    other.restore(json.loads(json.dumps(order.saved())))
    copied = pickle.loads(pickle.dumps(order))
    ranks = [one.key(stated(one, 7200.0), 300.0) for one in (order, other, copied)]
    assert ranks[0] == ranks[1] == ranks[2]


def test_job_that_needs_longer_than_all_others_together_is_not_put_off_by_saying_so() -> None:
    """With one GPU the others take longer than the long job; with 100 it takes longer than they do."""
    ranks = {}
    for gpus in (1.0, 100.0):
        order = taught(lambda duration_s, place: duration_s)
        order.gpus = gpus
        for _ in range(50):
            stated(order, 36000.0)
        long = stated(order, 3600000.0)
        order.table.finishes += 1000
        order.moved(1e6)
        ranks[gpus] = order.key(long, 1e6)
    assert ranks[100.0] < 0.8 * ranks[1.0]


def test_age_of_a_job_tells_whether_it_ends_as_it_says() -> None:
    """Half of the statements hold, half mean nothing; most jobs end within 3 h.

    One that has worked 20 h and said 50 is likely one of those that say what is.
    """
    draw = random.Random(5)
    order = taught(lambda duration_s, place: duration_s if place % 2 else draw.uniform(3600.0, 360000.0))
    for place in range(500):
        one = job(1000 + place, duration_s=draw.uniform(3600.0, 10800.0))
        order.queued(one, 0.0)
        one.work_s = one.duration_s
        order.finished(one, one.duration_s)
    one = stated(order, 180000.0)
    ranked = order.ranked(one)
    young = order._share(ranked)
    assert young == pytest.approx(order.statements.worth(ranked.stated_leaf), rel=0.1)
    one.work_s = 72000.0
    order.reported(one, 72000.0)
    assert 1.0 - order._share(ranked) < 0.7 * (1.0 - young)


def test_inflow_counts_what_came_lately() -> None:
    inflow = Inflow()
    for hour in range(24 * 20):
        inflow.came(8.0 * 3600.0, 3600.0 * hour)
    now = 3600.0 * 24 * 20
    assert inflow.gpus(now) == pytest.approx(8.0, rel=0.03)
    assert inflow.gpus(now + 5 * MEMORY_S) < 0.1
    late, ordered = Inflow(), Inflow()
    for at_s in (0.0, 7200.0, 3600.0):
        late.came(1000.0, at_s)
    for at_s in (0.0, 3600.0, 7200.0):
        ordered.came(1000.0, at_s)
    assert late.gpus(7200.0) == pytest.approx(ordered.gpus(7200.0))


def test_cluster_drains_later_while_jobs_come() -> None:
    """The same jobs in the system: half as much again is counted on, at most, where they came today."""
    drains = {}
    for came_s in (0.0, 99.0 * MEMORY_S):
        order = taught(lambda duration_s, place: duration_s)
        order.gpus = 4.0
        for place in range(50):
            one = job(10_000 + place)
            one.submit_s = came_s
            order.queued(one, came_s)
        drains[came_s] = order._draining_s(99.0 * MEMORY_S)
    assert drains[99.0 * MEMORY_S] == pytest.approx((1.0 + MOST_INFLOW) * drains[0.0])
