"""Hand-worked schedules: a few jobs, one policy, and when each must start and finish."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dally.model import Costs
from dally.policies.registry import build
from dally.testing.strategies import Case

FREE = Costs(0.0, 0.0, 0.0)

Asked = tuple[float, int, float]  # submitted, GPUs, seconds
Ran = tuple[float, float]  # started, finished
# Name, policy, settings, GPUs of the machines of one rack, jobs, what is expected.
Row = tuple[str, str, dict[str, str], list[int], list[Asked], list[Ran]]

TABLE: list[Row] = [
    # Job 1 needs 8, has to wait for job 0; job 2 would fit but may not overtake the head.
    ("head blocks", "fifo", {}, [8], [(0, 4, 10), (1, 8, 5), (2, 4, 3)], [(0, 10), (10, 15), (15, 18)]),
    # The same jobs: job 2 overtakes.
    ("backfill", "fifo-backfill", {}, [8], [(0, 4, 10), (1, 8, 5), (2, 4, 3)], [(0, 10), (10, 15), (2, 5)]),
    # Greedy backfill starves the head: job 2 (20 s) delays job 1 until 22.
    ("starved head", "fifo-backfill", {}, [8], [(0, 4, 10), (1, 8, 5), (2, 4, 20)], [(0, 10), (22, 27), (2, 22)]),
    # EASY: job 1 is reserved at 10; job 2 would run until 22 on GPUs the head needs: it waits.
    ("easy reserves", "easy-backfill", {}, [8], [(0, 4, 10), (1, 8, 5), (2, 4, 20)], [(0, 10), (10, 15), (15, 35)]),
    # EASY: job 2 ends at 10, just in time.
    ("easy in time", "easy-backfill", {}, [8], [(0, 4, 10), (1, 8, 5), (2, 4, 8)], [(0, 10), (10, 15), (2, 10)]),
    # EASY: job 1 needs 6 of 8 at 10, 2 are spare: job 3 (2 GPUs, long) may go, job 2 (3 GPUs, long) may not.
    ("easy spare", "easy-backfill", {}, [8],
     [(0, 4, 10), (1, 6, 5), (2, 3, 20), (3, 2, 30)], [(0, 10), (10, 15), (15, 35), (3, 33)]),
    # EASY looks past the first of a demand: job 2 is too long, job 3 of the same size is not.
    ("easy looks on", "easy-backfill", {}, [8],
     [(0, 4, 10), (1, 8, 5), (2, 4, 20), (3, 4, 7)], [(0, 10), (10, 15), (15, 35), (3, 10)]),
    # Shortest first among those waiting at 10; nobody is interrupted.
    ("sjf", "sjf", {}, [8], [(0, 8, 10), (1, 8, 9), (2, 8, 2)], [(0, 10), (12, 21), (10, 12)]),
    # Job 1 has less left at 2 than job 0 (8): it takes over, job 0 resumes at 5.
    ("srtf", "srtf", {}, [8], [(0, 8, 10), (2, 8, 3)], [(0, 13), (2, 5)]),
    # At 2 job 0 has 8 s left, job 1 brings 8 s: on a tie the running job stays.
    ("srtf tie", "srtf", {}, [8], [(0, 8, 10), (2, 8, 8)], [(0, 10), (10, 18)]),
    # Remaining service: job 0 has 8 x 4 = 32 GPU-s left at 2, job 1 brings 5 x 8 = 40: it waits.
    ("srsf", "srsf", {}, [8], [(0, 4, 10), (2, 8, 5)], [(0, 10), (10, 15)]),
    # Job 1 (2 GPU-s) beats both running ones; the worst, job 0 (72), goes; job 2's 1 GPU then fits again.
    ("srsf spares", "srsf", {}, [8], [(0, 8, 10), (1, 1, 2), (1, 7, 3)], [(0, 13), (1, 3), (1, 4)]),
    # Lease 5: at 5 job 0 has attained 40 GPU-s, job 1 none: it gets the GPUs.
    # Job 1 finishes at 8 and job 0 resumes.
    ("las", "las", {"lease_s": "5"}, [8], [(0, 8, 10), (1, 8, 3)], [(0, 13), (5, 8)]),
    # Job 1 runs 5 to 10 and has then attained 40 GPU-s like job 0: on a tie it stays, until 15.
    ("las tie", "las", {"lease_s": "5"}, [8], [(0, 8, 10), (0, 8, 12)], [(0, 20), (5, 22)]),
]  # fmt: skip


def schedules(table: list[Row]) -> Callable[..., None]:
    """A test that jobs start and finish as each row says."""

    @pytest.mark.parametrize(
        ("policy", "settings", "machines", "jobs", "expected"), [pytest.param(*row[1:], id=row[0]) for row in table]
    )
    def test_schedule(
        policy: str, settings: dict[str, str], machines: list[int], jobs: list[Asked], expected: list[Ran]
    ) -> None:
        case = Case([(("r",), gpus) for gpus in machines], jobs, costs=FREE)
        assert [(job.start_s, job.finish_s) for job in case.run(build(policy, settings)).jobs] == expected

    return test_schedule


test_schedule = schedules(TABLE)


def test_a_lease_renewed_costs_nothing_and_one_lost_costs_a_restart() -> None:
    # 8 GPUs, lease 5 s, restart 1 s per GPU. Alone, job 0 renews at 5; job 1 comes at 6 and takes over
    # at 10; it is done at 12, and job 0 restarts for 8 s before its last 10 s of work.
    case = Case([(("r",), 8)], [(0.0, 8, 20.0), (6.0, 8, 2.0)], costs=Costs(0.0, 1.0, 0.0))
    first, second = case.run(build("las", {"lease_s": "5"})).jobs
    assert (first.finish_s, first.preemptions, first.overhead_s) == (30.0, 1, 8.0)
    # Renewed at 5; the lease after the restart runs from 20, when it works again: renewed at 25.
    assert first.renewals == 2
    assert (second.start_s, second.finish_s, second.renewals) == (10.0, 12.0, 0)


def test_leases_shorter_than_a_restart_still_let_jobs_finish() -> None:
    case = Case([(("r",), 8)], [(0.0, 8, 20.0), (1.0, 8, 20.0)], costs=Costs(0.0, 1.0, 0.0))
    assert all(job.finish_s > 0 for job in case.run(build("las", {"lease_s": "2"})).jobs)


def test_preempted_while_restarting_pays_again() -> None:
    # srtf, restart 10 s flat. Job 0 (10 s) loses its GPU at 1 to job 1 (1 s), restarts at 2, loses it again
    # at 4 to job 2 (1 s) after 2 s of restart, and starts over at 5: 10 s of restart, 9 s of work.
    case = Case([(("r",), 1)], [(0.0, 1, 10.0), (1.0, 1, 1.0), (4.0, 1, 1.0)], costs=Costs(10.0, 0.0, 0.0))
    first = case.run(build("srtf")).jobs[0]
    assert (first.finish_s, first.overhead_s, first.preemptions) == (24.0, 12.0, 2)
