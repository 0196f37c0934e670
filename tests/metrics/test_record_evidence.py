"""What a record tells about its cluster."""

from __future__ import annotations

from dally.job_spec import JobSpec
from dally.metrics.wait_fit import RecordedJob, evidence_of


def job(submit_s: float, start_s: float, end_s: float, gpus: int, limit_s: float | None = None) -> RecordedJob:
    return RecordedJob(submit_s, start_s, end_s, JobSpec(gpus, "a100", partition="gpu", limit_s=limit_s))


def test_counts_by_hand() -> None:
    """8 GPUs from 0 to 100, 4 from 100 to 1000: who asks for 4 and starts at 500 waits beside 4 free ones."""
    found = evidence_of(
        [job(0, 0, 100, 8), job(0, 100, 1000, 4, 3600), job(90, 500, 600, 4), job(95, 500, 600, 6)], 8
    )
    assert (found.jobs, found.cluster_gpus, found.peak_gpus) == (4, 8, 14)
    assert (found.waited, found.waited_beside_free) == (3, 1)
    assert (found.without_limit, found.partitions, found.gpu_types) == (3, {"gpu": 4}, {"a100": 4})


def test_who_ends_makes_room_at_once() -> None:
    assert evidence_of([job(0, 0, 100, 8), job(0, 100, 200, 8)], 8).peak_gpus == 8
    assert evidence_of([], 8).peak_gpus == 0


def test_job_of_several_runs_is_no_evidence_of_more_gpus_at_once() -> None:
    """When it ran in between is not known: its running times are added up."""
    requeued = job(0, 0, 300, 8)._replace(runs=2)
    found = evidence_of([requeued, job(0, 100, 200, 8)], 8)
    assert (found.peak_gpus, found.waited) == (8, 1)
