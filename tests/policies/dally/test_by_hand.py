"""Small runs worked out by hand, on two racks of two machines of two GPUs unless said otherwise."""

from __future__ import annotations

import pytest

from dally.model import CANCEL, Costs, Event
from dally.policies.dally.policy import Dally
from dally.policies.registry import build
from dally.testing import record_of
from dally.testing.invariants import RunRows
from dally.testing.strategies import Case

GRID: list[tuple[tuple[str, ...], int]] = [(("r0",), 2), (("r0",), 2), (("r1",), 2), (("r1",), 2)]
ONE_S = Costs(0.0, 1.0, 0.0)  # a restart takes 1 s per GPU
PATIENT = {"finish_gain": "inf", "probe_share": "0"}  # a pass every 300 s, and none for gangs of the whole cluster


def run(
    jobs: list[tuple[float, int, float]],
    given: dict[str, str] | None = None,
    machines: list[tuple[tuple[str, ...], int]] = GRID,
) -> RunRows:
    """The run of jobs (submit_s, GPUs, duration_s) under `dally` with these settings."""
    return record_of(Case(machines, jobs, costs=ONE_S).run(build("dally", given)))


def test_a_newcomer_preempts_who_has_run_for_long() -> None:
    # Nothing is known but the prior: half of those alive at some age end by twice that. So the first, 5000 s old,
    # takes an expected 5700 s per finish and the newcomer 113. The hold of 10 restarts, 80 s, is over.
    # The newcomer runs 5000..5060; the first has 5000 s left, and restarts in 8 s.
    record = run([(0.0, 8, 10_000.0), (5000.0, 8, 60.0)])
    assert [(job.start_s, job.finish_s) for job in record.jobs] == [(0.0, 10_068.0), (5000.0, 5060.0)]
    assert [job.preemptions for job in record.jobs] == [1, 0]


def test_a_newcomer_of_one_size_preempts_nothing_where_jobs_must_be_seen_to_differ_first() -> None:
    record = run([(0.0, 8, 10_000.0), (5000.0, 8, 60.0)], {"alike": "2"})
    assert [(job.start_s, job.finish_s) for job in record.jobs] == [(0.0, 10_000.0), (10_000.0, 10_060.0)]


def test_preemption_can_be_switched_off() -> None:
    record = run([(0.0, 8, 10_000.0), (5000.0, 8, 60.0)], {"preemption": "off"})
    assert [(job.start_s, job.finish_s) for job in record.jobs] == [(0.0, 10_000.0), (10_000.0, 10_060.0)]


def test_a_job_keeps_what_it_got_for_its_hold() -> None:
    # The hold ends at 6000 s. The newcomer comes at 5000 s, and passes follow every 300 s: the first one after
    # the hold is at 6200 s.
    record = run([(0.0, 8, 10_000.0), (5000.0, 8, 60.0)], {"least_hold_s": "6000", **PATIENT})
    assert [job.start_s for job in record.jobs] == [0.0, 6200.0]


# The first four fill two machines; the second and the fourth end at 100 s and leave one GPU free on each. The other
# rack is taken. Then a gang of 2 comes.
GAPS = [(0.0, 1, 1000.0), (0.0, 1, 100.0), (0.0, 1, 1000.0), (0.0, 1, 100.0), (0.0, 4, 1000.0), (200.0, 2, 50.0)]


def test_a_machine_is_cleared_by_moving_one_gpu() -> None:
    # One of the two remaining jobs moves over to the other, for 1 s.
    record = run(GAPS, {"scatter": "off"})
    gang = record.jobs[5]
    assert (gang.start_s, gang.finish_s) == (200.0, 250.0)
    assert [job.migrations for job in record.jobs] == [1, 0, 0, 0, 0, 0]
    assert [job.finish_s for job in record.jobs[:5]] == [1001.0, 100.0, 1000.0, 100.0, 1000.0]
    assert not any(job.preemptions for job in record.jobs)


def test_where_the_network_does_not_feel_it_the_gang_is_scattered() -> None:
    record = run(GAPS)
    assert not any(job.migrations for job in record.jobs)
    assert record.jobs[5].finish_s == 250.0


def test_some_move_and_some_are_preempted_for_one_gang() -> None:
    # Two machines of 3 GPUs. The first holds an old gang of 2 and a young job of 1, the second a young one of 2 and
    # a free GPU. A newcomer wants 3: by rank only the old gang may be preempted, which leaves it one short. So the
    # young job moves to the free GPU, and the old gang is preempted.
    machines: list[tuple[tuple[str, ...], int]] = [((), 3), ((), 3)]
    jobs = [(0.0, 2, 1e6), (0.0, 1, 49_000.0), (0.0, 3, 49_000.0), (50_000.0, 2, 9000.0), (50_000.0, 1, 9000.0)]
    record = run([*jobs, (50_100.0, 3, 30.0)], machines=machines)
    assert record.jobs[5].start_s == 50_100.0
    assert record.jobs[0].preemptions == 1
    assert [job.preemptions for job in record.jobs[3:]] == [0, 0, 0]


def test_ranks_are_gpu_seconds_per_finish() -> None:
    # Both of one age: whoever asks for fewer GPUs comes first, and las goes by GPU-seconds had, which are none.
    jobs = [(0.0, 8, 100.0), (10.0, 8, 10.0), (11.0, 4, 10.0)]
    assert [job.start_s for job in run(jobs, PATIENT).jobs] == [0.0, 110.0, 100.0]
    assert [job.start_s for job in run(jobs, {"order": "las", **PATIENT}).jobs] == [0.0, 100.0, 110.0]


@pytest.mark.once
def test_for_the_makespan_nobody_is_left_for_the_end() -> None:
    # A stream of small jobs holds up the gang for ever; for the makespan it is served after six hours, once the
    # hold of those in its way, 60 s, is over.
    small = [(float(at_s), 2, 400.0) for at_s in range(0, 40_000, 90)]
    jobs = sorted([*small, (1000.0, 8, 50.0)])
    gang = jobs.index((1000.0, 8, 50.0))
    assert run(jobs).jobs[gang].start_s > 40_000.0
    assert 1000.0 + 21_600.0 <= run(jobs, {"objective": "makespan"}).jobs[gang].start_s <= 1000.0 + 21_600.0 + 360.0
    # What is set stands.
    assert run(jobs, {"objective": "makespan", "patience_s": "9000"}).jobs[gang].start_s <= 10_360.0


def test_where_nobody_runs_any_more_what_failed_is_tried_again() -> None:
    # 128 racks of two machines, one of each down. The gang of 16 finds the GPUs it wants nowhere, and on so large a
    # cluster the end of one job would be no reason to look again: but it was the last.
    machines: list[tuple[tuple[str, ...], int]] = [((f"r{number // 2}",), 8) for number in range(256)]
    down = [(number, 1.0, 90_000.0) for number in range(0, 256, 2)]
    case = Case(machines, [(2.0, 8, 100.0), (50.0, 16, 500.0)], down, network="congested")
    alone, gang = case.run(build("dally")).jobs
    assert gang.start_s == alone.finish_s


def test_who_is_first_starts_farther_apart_where_no_rack_is_whole() -> None:
    # Two racks of four machines of 8 GPUs, one of each down, full of small jobs; at 3000 s a gang of 32 comes.
    machines: list[tuple[tuple[str, ...], int]] = [((f"r{number // 4}",), 8) for number in range(8)]
    jobs = sorted([(3000.0, 32, 100.0), *((10.0 * number, 1, 480.0 + number % 7) for number in range(600))])
    case = Case(machines, jobs, [(0, 1.0, 90_000.0), (4, 1.0, 90_000.0)])
    simulation = case.simulation(build("dally"))
    gang = next(job for job in simulation.jobs if job.gpus == 32)
    gang.prioritized = True
    simulation.run(20_000.0)
    assert gang.start_s == 3000.0


def test_nothing_is_kept_for_a_gang_that_no_machines_could_hold() -> None:
    # 24 GPUs in groups of 8 that share a machine: with one of those of 8 down, the four of 4 do not help.
    machines: list[tuple[tuple[str, ...], int]] = [(("r0",), gpus) for gpus in (8, 8, 8, 4, 4, 4, 4)]
    jobs = [(0.0, 8, 50.0), (150.0, 24, 100.0), *((160.0 + number, 1, 60.0) for number in range(20))]
    simulation = Case(machines, jobs, [(0, 100.0, 9000.0)]).simulation(build("dally"))
    gang = simulation.jobs[1]
    gang.prioritized, gang.group = True, 8
    simulation.run()
    assert [job.start_s for job in simulation.jobs[2:]] == [job.submit_s for job in simulation.jobs[2:]]
    assert gang.start_s == 9000.0


def test_nothing_is_kept_of_one_cancelled_while_it_was_protected() -> None:
    policy = build("dally")
    simulation = Case(GRID, [(0.0, 8, 10_000.0), (1.0, 8, 100.0)]).simulation(policy)
    gang = simulation.jobs[1]
    simulation.go_on(5.0)
    assert isinstance(policy, Dally)
    policy.starvation.protect(gang, 9000.0)
    simulation.happen([Event(CANCEL, gang)], 6.0)
    assert policy.starvation.protected_until_s(gang) < 0.0
