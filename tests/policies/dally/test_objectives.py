"""Objectives: what each makes of ranks, worked out by hand, and that what is set stands."""

from __future__ import annotations

import pytest

from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.model import Job
from dally.policies.dally.declared import DALLY, OBJECTIVES, for_objective
from dally.policies.dally.policy import Dally
from dally.policies.ordering.gittins import GittinsOrder
from dally.policies.ordering.user_stretch import UserStretch
from dally.policies.prediction.hazard import HazardTable
from dally.policies.registry import build
from dally.policies.settings import settings_for
from dally.testing import check_policy


def _job(index: int, gpus: int = 1, user: str = "") -> Job:
    return Job(index, f"j{index}", 0.0, gpus, 1e6, spec=JobSpec(gpus, user=user))


def _ended(table: HazardTable, job: Job, age_s: float) -> None:
    number = table.class_of(job)
    for age_bin in range(table.bin_of(age_s)):
        table.outlived(number, age_bin)
    table.ended(number, table.bin_of(age_s))


def test_for_the_slowdown_a_user_of_short_jobs_comes_earlier_than_for_the_mean() -> None:
    # The jobs of one user all take a quarter of an hour, those of the other five hours.
    ratios = []
    for power in (0.0, -1.0):
        table = HazardTable(forget=0.0, length_power=power)
        short, long = _job(0, user="a"), _job(1, user="b")
        for _ in range(100):
            _ended(table, short, 900.0)
            _ended(table, long, 18_000.0)
        ratios.append(table.order(table.class_of(long), 0) / table.order(table.class_of(short), 0))
    assert ratios[0] == pytest.approx(20.0, rel=0.5)
    # One in thirty of the second's jobs may be as short as the first's, which counts 20 times as much as others.
    assert ratios[1] > 1.2 * ratios[0]


def test_seconds_per_finish_are_the_same_whatever_a_finish_counts() -> None:
    usual, other = HazardTable(), HazardTable(length_power=-1.0)
    for table in (usual, other):
        _ended(table, _job(0), 5000.0)
    assert [usual.rank_s(0, place) for place in range(40)] == [other.rank_s(0, place) for place in range(40)]


@pytest.mark.parametrize(("power", "ratio"), [(1.0, 16.0), (0.5, 4.0), (0.0, 1.0)])
def test_a_rank_grows_with_the_gpus_to_a_power(power: float, ratio: float) -> None:
    order = GittinsOrder(HazardTable(by_user=False), gpu_power=power)
    assert order.key(_job(1, 16), 0.0) / order.key(_job(0, 1), 0.0) == pytest.approx(ratio)


def test_a_users_weight_is_its_time_at_work_by_its_time_in_the_system() -> None:
    users = UserStretch(1.0)
    lucky, waiting = _job(0, user="a"), _job(1, user="b")
    for job in (lucky, waiting):
        users.waits(job, 0.0)
    users.runs(lucky, 0.0)
    # A day counts half after another day; nothing has passed since. 600 s of each are counted for all.
    users.runs(waiting, 3000.0)
    assert users.weight(lucky) == pytest.approx(1.0)
    assert users.weight(waiting) == pytest.approx(600.0 / 3600.0)
    users.leaves(waiting, 3000.0)
    users.leaves(lucky, 3000.0 + 10 * 86400.0)
    assert users.weight(waiting) == pytest.approx(1.0, abs=0.01), "what was ten days ago is forgotten"


def test_a_job_counts_once_whatever_happens_to_it() -> None:
    users = UserStretch(2.0)
    job = _job(0, user="a")
    for event in (users.waits, users.waits, users.runs, users.runs):
        event(job, 0.0)
    users.waits(job, 600.0)
    users.leaves(job, 1200.0)
    users.leaves(job, 2000.0)
    # 1200 s in the system, 600 s of them at work.
    assert users.weight(job) == pytest.approx(((600.0 + 600.0) / (1200.0 + 600.0)) ** 2, rel=0.02)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_what_is_set_stands_and_the_rest_is_as_the_objective_wants_it(objective: str) -> None:
    given = for_objective(settings_for("dally", DALLY.params, {"objective": objective}))
    for name, value in OBJECTIVES[objective].items():
        assert given[name] == value
        assert (
            for_objective(settings_for("dally", DALLY.params, {"objective": objective, name: "1.5"}))[name] == 1.5
        )
    assert isinstance(build("dally", {"objective": objective}), Dally)


def test_an_objective_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(InputError, match="must be one of jct, slowdown, p99, makespan, fair"):
        build("dally", {"objective": "speed"})


@pytest.mark.parametrize("objective", [name for name in OBJECTIVES if name != "jct"])
def test_every_objective_keeps_the_contract(objective: str) -> None:
    check_policy(lambda: build("dally", {"objective": objective}), examples=10)
