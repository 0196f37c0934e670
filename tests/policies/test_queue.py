"""The queue: rank across demands, closing, setting aside."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dally.errors import PolicyError
from dally.model import RUNNING, WAITING, Job
from dally.policies.queue import Queue, demand


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


def test_kinds_and_groups_of_one_size_never_share_a_class() -> None:
    # Kind 16 in groups of 1 was once the same number as kind 0 in groups of 2.
    seen = set()
    for gpus in (1, 8, 64):
        for group in (1, 2, 16):
            for kind in (0, 1, 15, 16, 255, 1_048_575):
                job = waiting(0, gpus)
                job.group, job.kind = group, kind
                seen.add(demand(job))
    assert len(seen) == 3 * 3 * 6


@pytest.mark.parametrize("kind", [-1, 1_048_576])
def test_a_kind_beyond_its_bounds_is_refused(kind: int) -> None:
    job = waiting(0, 1)
    job.kind = kind
    with pytest.raises(PolicyError, match=rf"kind {kind}: must be from 0 to 1048575"):
        Queue().add(job, 0.0, 0.0)


def test_closed_classes_can_be_opened_again_within_a_pass() -> None:
    queue = Queue()
    small, large, aside = waiting(0, 1), waiting(1, 8), waiting(2, 8)
    for job in (small, large, aside):
        queue.add(job, float(job.index), 0.0)
    queue.take(aside)
    queue.close(small)
    queue.close(large)
    assert queue.best() is None
    queue.reopen()
    assert [queue.best(), queue.best(1.0)] == [small, small]
    queue.close(small)
    assert queue.best() is large
    queue.end_pass()
    assert len(queue) == 3
