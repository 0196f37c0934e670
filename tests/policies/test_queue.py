"""The queue: rank across demands, closing, setting aside."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dally.model import RUNNING, WAITING, Job
from dally.policies.queue import Queue


def waiting(index: int, gpus: int) -> Job:
    job = Job(index, f"j{index}", 0.0, gpus, 1.0)
    job.status = WAITING
    return job


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3), st.integers(0, 1)), min_size=1), st.integers(0, 6))
def test_best_is_the_lowest_rank_that_fits(rows: list[tuple[int, int, int]], most: int) -> None:
    queue = Queue()
    jobs = [waiting(index, gpus) for index, (gpus, _, _) in enumerate(rows)]
    for job, (_, key, tie) in zip(jobs, rows, strict=True):
        queue.add(job, float(key), float(tie))
    ranked = sorted(range(len(rows)), key=lambda i: (rows[i][1], rows[i][2], i))
    assert [int(job.index) for job in queue] == ranked
    fitting = [i for i in ranked if rows[i][0] <= most]
    best = queue.best(float(most))
    assert (None if best is None else best.index) == (fitting[0] if fitting else None)


def test_closed_classes_open_again_with_the_next_pass() -> None:
    queue = Queue()
    small, large = waiting(0, 1), waiting(1, 8)
    queue.add(small, 5.0, 0.0)
    queue.add(large, 1.0, 0.0)
    queue.close(large)
    assert queue.best() is small
    queue.end_pass()
    assert queue.best() is large


def test_jobs_set_aside_come_back_unless_started() -> None:
    queue = Queue()
    first, second = waiting(0, 2), waiting(1, 2)
    queue.add(first, 1.0, 0.0)
    queue.add(second, 2.0, 0.0)
    queue.take(first)
    queue.take(second)
    assert queue.best() is None
    assert len(queue) == 0
    first.status = RUNNING
    queue.end_pass()
    assert list(queue) == [second]
    assert queue.key(second) == 2.0
