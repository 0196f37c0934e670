"""Short turns for young jobs that have waited for long: when they are due, and what they cost, by hand."""

from __future__ import annotations

import pytest

from dally.model import Costs, Job
from dally.policies.dally.limits import Limits
from dally.policies.dally.policy import Dally
from dally.policies.dally.probes import Probes
from dally.policies.prediction.hazard import HazardTable
from dally.policies.registry import build
from dally.testing import record_of
from dally.testing.invariants import RunRows
from dally.testing.strategies import Case
from tests.policies.dally.test_by_hand import run as run_on_grid
from tests.policies.dally.test_safety import overload


def _job(index: int, gpus: int = 1, submit_s: float = 0.0, work_s: float = 0.0, held_s: float = 0.0) -> Job:
    job = Job(index, f"j{index}", submit_s, gpus, 1e6)
    job.number, job.work_s, job.held_s = index, work_s, held_s
    return job


@pytest.mark.parametrize(
    ("work_s", "held_s", "due_s"),
    [
        (0.0, 0.0, 100.0 + 5.0 * 10.0),  # nothing worked: five times the least
        (8.0, 25.0, 125.0 + 5.0 * 10.0),
        (90.0, 100.0, 200.0 + 5.0 * 90.0),  # five times what it has worked
        (600.0, 600.0, float("inf")),  # young no more
    ],
)
def test_a_job_is_due_once_it_has_waited_five_times_as_long_as_it_has_worked(
    work_s: float, held_s: float, due_s: float
) -> None:
    probes = Probes(Limits())
    probes.waits(_job(0, 1, 100.0, work_s, held_s))
    assert probes.next_s() == due_s


def test_the_first_that_is_due_comes_first_and_one_that_left_does_not_come() -> None:
    probes = Probes(Limits())
    late, gone, early = _job(0, submit_s=50.0), _job(1), _job(2, submit_s=10.0)
    for job in (late, gone, early):
        probes.waits(job)
    probes.leaves(gone)
    assert probes.due(40.0) == []
    assert probes.due(400.0) == [early, late]
    probes.put_off(late, 500.0)
    assert (probes.next_s(), probes.due(499.0), probes.due(500.0)) == (500.0, [], [late])


def test_probes_hold_a_share_of_the_gpus_until_each_ends_unless_it_is_one() -> None:
    probes = Probes(Limits(probe_share=0.25))  # 4 of 16
    assert probes.room_for(_job(1, 12), 16, 50.0), "no other has one"
    probes.protect(_job(0, 3), 100.0)
    assert probes.room_for(_job(1, 1), 16, 50.0)
    assert not probes.room_for(_job(1, 2), 16, 50.0)
    assert probes.room_for(_job(1, 2), 16, 100.0), "the first probe is over"
    probes.forget(_job(0))
    assert probes.room_for(_job(1, 4), 16, 50.0)


def test_the_share_that_ends_is_what_was_seen_and_nothing_else() -> None:
    table = HazardTable()
    number = table.class_of(_job(0))
    assert table.share_ending(number, 0, 600.0) == 0.0, "a prior is not an observation"
    for age_s in (20.0, 100.0, 5000.0, 5000.0):
        for age_bin in range(table.bin_of(age_s)):
            table.outlived(number, age_bin)
        table.ended(number, table.bin_of(age_s))
    assert table.share_ending(number, 0, 600.0) == pytest.approx(0.5, abs=0.02)  # two of four
    assert table.share_ending(number, table.bin_of(600.0), 1e5) == pytest.approx(1.0, abs=0.05)


NO_HOLD = {"least_hold_s": "0", "hold": "0", "finish_gain": "inf"}
# Ten jobs of a minute show that jobs may be short. A gang then takes the machine, and at 5000 s a short one comes.
# `stick=0`: ranks preempt nothing.
TAKEN = [*((60.0 * number, 4, 60.0) for number in range(10)), (1000.0, 4, 10_000.0), (5000.0, 4, 60.0)]


def run(**settings: str) -> RunRows:
    case = Case([((), 4)], TAKEN, costs=Costs(0.0, 1.0, 0.0))
    return record_of(case.run(build("dally", {"stick": "0", "probe_share": "1", **settings})))


def test_a_short_job_gets_its_turn_fifty_seconds_after_it_came() -> None:
    record = run()
    assert (record.jobs[11].start_s, record.jobs[11].finish_s) == (5050.0, 5110.0)
    assert record.jobs[10].finish_s == 11_000.0 + 60.0 + 4.0  # it lost the turn and a restart of 4 s


@pytest.mark.parametrize("settings", [{"probe_share": "0"}, {"probe_odds": "2"}, {"probe_s": "5000"}])
def test_no_turn_without_a_share_nor_odds_nor_jobs_that_are_young_no_more(settings: dict[str, str]) -> None:
    # With probes of 5000 s the gang is young itself, until it has worked for 5000 s at 6000 s. The short job is due
    # at 5050 s, and every 60 s from then on.
    start_s = run(**settings).jobs[11].start_s
    assert start_s == (6010.0 if "probe_s" in settings else 11_000.0)


def test_a_young_job_that_found_no_room_may_be_tried_again_later() -> None:
    # As above the gang is young until 6000 s. The short job is tried with every pass: every 300 s.
    assert run(probe_s="5000", probe_again_s="inf").jobs[11].start_s == 6200.0


def test_a_rescue_ends_a_turn() -> None:
    # The first gang works for 4050 s until 5050 s, when the second has its turn, of 600 s if nobody comes. But the
    # first has waited 400 s in all at 5450 s: it has 5950 s left, and restarts in 4 s.
    jobs = [*TAKEN[:-1], (5000.0, 4, 10_000.0)]
    given = {"stick": "0", "probe_share": "1", "patience_s": "400", "patience": "0", "stretch_s": "20000"}
    record = record_of(Case([((), 4)], jobs, costs=Costs(0.0, 1.0, 0.0)).run(build("dally", given)))
    first, second = record.jobs[10], record.jobs[11]
    assert (second.start_s, first.finish_s) == (5050.0, 5450.0 + 4.0 + 5950.0)
    assert (first.preemptions, second.preemptions) == (1, 1)


@pytest.mark.once
@pytest.mark.parametrize(("preemption", "latest_s"), [("on", 3100.0), ("off", 3180.0)])
def test_the_wait_bound_holds_where_every_start_is_a_turn(preemption: str, latest_s: float) -> None:
    # As in test_safety.py, but ranks preempt nothing among the small jobs, and all may have their turn: those that
    # run at 3100 s were due, and no other starts where the gang's GPUs are collected.
    jobs = sorted([*overload(4000), (100.0, 8, 50.0)])
    given = {"patience_s": "3000", "least_hold_s": "0", "hold": "0", "preemption": preemption}
    record = run_on_grid(jobs, {**given, "alike": "2", "probe_share": "1"})
    assert 3100.0 <= record.jobs[jobs.index((100.0, 8, 50.0))].start_s <= latest_s


@pytest.mark.parametrize(("odds", "kept"), [("0", False), ("2", True)])
def test_a_drained_domain_is_lost_to_a_turn_that_can_be_had(odds: str, kept: bool) -> None:
    # As in test_drain.py, three idle GPUs buy the machine for a gang at 400 s, which keeps it for 113 s. A job that
    # comes at 410 s is due 10 s later; the next pass is at 430 s. Odds of more than 1 are those of no job.
    given = {"stick": "0", "probe_least_s": "1", "probe_s": "20", "probe_odds": odds, "probe_share": "0.25"}
    policy = build("dally", {**given, "probe_stretch": "10", "probe_again_s": "inf", **NO_HOLD})
    assert isinstance(policy, Dally)
    jobs = [(90.0, 1, 2000.0), (100.0, 4, 5000.0), (410.0, 1, 50.0), (430.0, 4, 50.0)]
    simulation = Case([((), 4)], jobs, costs=Costs(0.0, 1.0, 0.0)).simulation(policy)
    simulation.go_on(431.0)
    assert (len(policy._side.credit.drained) == 1) == kept
    assert simulation.jobs[1].preemptions == (0 if kept else 1)
