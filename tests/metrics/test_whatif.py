"""Two replays compared, on jobs whose figures are plain to see."""

from __future__ import annotations

from dataclasses import astuple

import polars as pl
import pytest

from dally.metrics.before_after import (
    Group,
    by_owner,
    by_size,
    is_worse,
    judged,
    losing_jobs,
    losing_users,
    paired,
    total,
)

Job = tuple[str, int, float, float, float, float]  # id, GPUs, wait, compute, communication, restarts
OWNERS = {
    "user": {"a": "ana", "b": "ben", "c": "ana", "d": "", "e": "eva"},
    "account": {"a": "vision", "b": "vision"},
}
CURRENT: list[Job] = [
    ("a", 1, 0.0, 3600.0, 0.0, 0.0),
    ("b", 8, 600.0, 3600.0, 1800.0, 0.0),
    ("c", 4, 1200.0, 1800.0, 0.0, 0.0),
    ("d", 2, 0.0, 1800.0, 0.0, 0.0),
]
NEW: list[Job] = [
    ("a", 1, 1800.0, 3600.0, 0.0, 0.0),  # half an hour later
    ("b", 8, 0.0, 3600.0, 900.0, 90.0),
    ("c", 4, 0.0, 1800.0, 0.0, 0.0),
    ("d", 2, 60.0, 1800.0, 0.0, 0.0),  # a minute is not more than one
]


def table(jobs: list[Job], unfinished: tuple[str, ...] = ()) -> pl.DataFrame:
    """What jobs.csv says of them; all submitted at 100 s, and waiting at the start only."""
    return pl.DataFrame(
        [
            {
                "job_id": name, "gpus": gpus, "submit_s": 100.0, "start_s": 100.0 + wait_s, "queue_s": wait_s,
                "run_s": compute_s + comm_s + restart_s, "compute_s": compute_s, "comm_s": comm_s,
                "jct_s": None if name in unfinished else wait_s + compute_s + comm_s + restart_s,
            }
            for name, gpus, wait_s, compute_s, comm_s, restart_s in jobs
        ],
        schema_overrides={"jct_s": pl.Float64},
    )  # fmt: skip


@pytest.fixture
def jobs() -> pl.DataFrame:
    return judged([paired(table(CURRENT), table(NEW), OWNERS)])


def test_all_jobs(jobs: pl.DataFrame) -> None:
    found = total(jobs)
    # 1 h + 8 × 1.5 h + 4 × 0.5 h + 2 × 0.5 h; of b 8 × 0.5 h are communication.
    assert astuple(found.current) == pytest.approx((16.0, 4.0, 0.0, 450.0, 300.0, 1110.0, 3600.0, 8 / 3))
    # b: 8 × (1 h + 0.25 h + 0.025 h). Waits 1800, 0, 0, 60: p95 is 60 + 0.85 × 1740.
    assert astuple(found.new) == pytest.approx((14.2, 2.0, 0.2, 465.0, 30.0, 1539.0, 3412.5, 8 / 15))
    assert found.saved_gpu_h() == pytest.approx(1.8)
    assert (found.jobs, found.worse, found.better) == (4, 1, 2)


def test_by_user_and_by_size(jobs: pl.DataFrame) -> None:
    def told(groups: list[Group]) -> list[tuple[object, ...]]:
        return [(g.name, g.jobs, g.worse, g.better, round(g.saved_gpu_h(), 6)) for g in groups]

    assert told(by_owner(jobs, "user")) == [
        ("ben", 1, 0, 1, 1.8),
        ("ana", 2, 1, 1, 0.0),
        ("(no user)", 1, 0, 0, 0.0),
    ]
    assert told(by_owner(jobs, "user", 1)) == [("ben", 1, 0, 1, 1.8), ("2 others", 3, 1, 1, 0.0)]
    assert [group.name for group in by_owner(jobs, "user", 2)] == ["ben", "ana", "(no user)"], "one is no sum"
    assert told(by_size(jobs)) == [
        ("1", 1, 1, 0, 0.0), ("2", 1, 0, 0, 0.0), ("3–4", 1, 0, 1, 0.0), ("5–8", 1, 0, 1, 1.8),
    ]  # fmt: skip
    others = by_owner(jobs, "user", 1)[1]
    assert others.current.gpu_h + by_owner(jobs, "user")[0].current.gpu_h == total(jobs).current.gpu_h


def test_who_loses(jobs: pl.DataFrame) -> None:
    """ana's jobs take 3600 and 3000 s before, 5400 and 1800 s after: her mean job is 300 s later, 9 %."""
    assert [(group.name, group.lost_s()) for group in losing_users(jobs)] == [("ana", 300.0)]
    (loser,) = losing_jobs(jobs)
    assert (loser["job_id"], loser["user"], loser["gpus"], loser["lost_s"]) == ("a", "ana", 1, 1800.0)
    assert (loser["current_wait_s"], loser["new_wait_s"]) == (0.0, 1800.0)


@pytest.mark.parametrize(
    ("before_s", "after_s", "expected"),
    [
        (100.0, 161.0, True),
        (100.0, 160.0, False),
        (10000.0, 10500.0, False),
        (10000.0, 10501.0, True),
        (9.0, 1.0, False),
    ],
)
def test_worse_is_by_more_than_5_percent_and_a_minute(before_s: float, after_s: float, expected: bool) -> None:
    assert is_worse(before_s, after_s) == expected


def test_jobs_that_one_side_did_not_finish_do_not_count() -> None:
    found = paired(table(CURRENT, unfinished=("b",)), table(NEW[:3], unfinished=("c",)), OWNERS)
    assert found["job_id"].to_list() == ["a"]


def test_hours_and_counts_are_those_of_one_seed() -> None:
    """In the second seed nothing changes: a is 900 s worse in the mean, and half is saved."""
    jobs = judged(
        [paired(table(CURRENT), table(NEW), OWNERS, 1), paired(table(CURRENT), table(CURRENT), OWNERS, 2)]
    )
    found = total(jobs)
    assert (found.jobs, found.worse, found.better) == (4, 1, 2)
    assert (found.current.gpu_h, found.saved_gpu_h()) == pytest.approx((16.0, 0.9))
    assert [job["lost_s"] for job in losing_jobs(jobs)] == [900.0]
    assert by_owner(jobs, "user", 1)[1].current.gpu_h == 4.0
