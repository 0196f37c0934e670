"""Summaries and tables of one small run, by hand."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from dally.metrics.jobs_csv import jobs_csv, seconds
from dally.metrics.simulated import Simulated
from dally.metrics.summary import quantile, summarize
from dally.metrics.tables import events_frame
from dally.model import Costs
from dally.policies.registry import build
from dally.testing.strategies import Case

KEYS = [
    "jobs",
    "finished",
    "makespan_s",
    "jct_mean_s",
    "jct_p50_s",
    "jct_p95_s",
    "jct_p99_s",
    "queue_mean_s",
    "queue_p99_s",
    "comm_s",
    "comm_gpu_s",
    "comm_floor_s",
    "compute_gpu_s",
    "utilization",
    "goodput",
    "preemptions",
    "renewals",
    "migrations",
    "overhead_gpu_s",
    "tier_starts",
    "predicted",
    "prediction_error_p50",
    "prediction_log_error",
    "fragmentation_mean",
    "makespan_bound_s",
    "jct_bound_s",
    "events",
]


def test_a_run_by_hand() -> None:
    # 2 machines of 4, srtf, restart 2 s flat. Job 0 (8 GPUs, 10 s) loses its GPUs at 4 to job 1 (4 GPUs, 2 s),
    # which ends at 6; job 0 restarts until 8 and works its last 6 s until 14.
    case = Case([(("r",), 4), (("r",), 4)], [(0.0, 8, 10.0), (4.0, 4, 2.0)], costs=Costs(2.0, 0.0, 0.0))
    simulation = case.run(build("srtf"))
    summary = summarize(Simulated(simulation))
    assert list(summary) == KEYS
    assert summary["jct_mean_s"] == (14 + 2) / 2
    assert summary["makespan_s"] == 14.0
    assert summary["queue_mean_s"] == 2 / 2
    assert summary["compute_gpu_s"] == 88.0
    assert summary["overhead_gpu_s"] == 16.0
    assert summary["utilization"] == pytest.approx((88 + 16) / (8 * 14))
    assert summary["goodput"] == pytest.approx(88 / (8 * 14))
    assert summary["tier_starts"] == {"machine": 1, "rack": 2, "network": 0}
    assert (summary["preemptions"], summary["events"]) == (1, 8)
    assert "".join(jobs_csv(Simulated(simulation))).splitlines() == [
        "job_id,submit_s,start_s,finish_s,gpus,model,jct_s,queue_s,run_s,compute_s,comm_s,preemptions,tier,status,slowdown",
        "j0,0,0,14,8,,14,2,12,10,0,1,rack,finished,1.0000",
        "j1,4,4,6,4,,2,0,2,2,0,0,machine,finished,1.0000",
    ]


def test_the_event_table(tmp_path: Path) -> None:
    case = Case([(("r",), 4), (("r",), 4)], [(0.0, 6, 10.0)], outages=[(1, 3.0, 5.0)], costs=Costs(0.0, 0.0, 0.0))
    events_frame(Simulated(case.run(build("fifo")))).write_parquet(tmp_path / "e.parquet")
    rows = pl.read_parquet(tmp_path / "e.parquet").rows()
    placed = (["m0", "m1"], [4, 2])
    assert [row[:7] for row in rows] == [
        (0.0, "submit", "j0", None, None, None, None),
        (0.0, "start", "j0", None, "rack", *placed),
        (3.0, "fail", None, "m1", None, None, None),
        (3.0, "evict", "j0", None, None, None, None),
        (5.0, "repair", None, "m1", None, None, None),
        (5.0, "start", "j0", None, "rack", *placed),
        (12.0, "finish", "j0", None, None, None, None),
    ]
    assert {row[7:] for row in rows} == {(None, None)}  # link and load: no network here


def test_an_unfinished_run() -> None:
    case = Case([(("r",), 4)], [(0.0, 4, 20.0), (5.0, 4, 9.0), (90.0, 4, 1.0)], until_s=8.0)
    simulation = case.run(build("fifo"))
    assert "".join(jobs_csv(Simulated(simulation))).splitlines()[1:] == [
        "j0,0,0,,4,,,0,8,8,0,0,machine,running,1.0000",
        "j1,5,,,4,,,3,0,0,0,0,,waiting,",
        "j2,90,,,4,,,0,0,0,0,0,,pending,",
    ]
    summary = summarize(Simulated(simulation))
    assert (summary["finished"], summary["jct_mean_s"], summary["jct_bound_s"]) == (0, 0.0, 0.0)
    assert summary["utilization"] == 1.0


def test_quantiles_and_times() -> None:
    assert [quantile([1.0, 2.0, 3.0, 4.0], share) for share in (0.0, 0.5, 1.0)] == [1.0, 2.5, 4.0]
    assert quantile([], 0.5) == 0.0
    assert [seconds(value) for value in (0.0, 3600.0, 0.5, 1e-9, 1 / 3, -1.0)] == [
        "0",
        "3600",
        "0.5",
        "0",
        "0.333333",
        "",
    ]
