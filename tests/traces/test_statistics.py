"""Figures of a trace: by hand, and as the README of the shared traces states them."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from dally.job_spec import JobSpec
from dally.traces import History, read_history
from dally.traces.rows import TraceRow
from dally.traces.statistics import percentile, statistics
from dally.traces.times import Clock

HOUR = 3600.0


def test_by_hand() -> None:
    rows = [
        TraceRow(2, "a", 0.0, JobSpec(1, user="u"), HOUR, "Pass", 10.0),
        TraceRow(3, "b", HOUR, JobSpec(4, user="v"), 30.0, "Pass"),
        TraceRow(4, "c", 25 * HOUR, JobSpec(16), 2 * HOUR, "Failed", 30.0),
        TraceRow(5, "d", 26 * HOUR, JobSpec(3), 0.0, wait_s=20.0),
    ]
    found = statistics(History(rows, "duration_s", "csv", {"without GPUs": 2}, {}, None), Clock(), 8)
    work = 1 + 4 / 120 + 32
    assert found["rows"] == 4
    assert found["users"] == 2
    assert found["span_s"] == 26 * HOUR
    assert found["gpu_hours"] == pytest.approx(work)
    assert found["share_over_8"] == pytest.approx(32 / work)
    assert (found["gpus_mean"], found["gpus_max"], found["zero_durations"]) == (6.0, 16, 1)
    assert (found["duration_p50_s"], found["duration_p90_s"], found["duration_max_s"]) == (30.0, 7200.0, 7200.0)
    assert (found["wait_mean_s"], found["wait_p50_s"]) == (20.0, 20.0)
    assert [(size["gpus"], size["jobs"]) for size in found["sizes"]] == [("1", 1), ("3-4", 2), ("9-16", 1)]
    assert [row["jobs"] for row in found["durations"]] == [2, 0, 1, 1, 0, 0, 0]
    assert found["arrivals_by_hour"] == [1, 2, 1] + [0] * 21
    assert found["statuses"] == {"Pass": 2, "Failed": 1}
    assert found["load"] == pytest.approx(work / (8 * 26))
    assert (found["impossible"], found["unused"]) == (1, {"without GPUs": 2})


def test_hours_are_local_where_dates_are_known() -> None:
    history = History(
        [TraceRow(2, "a", 0.0, JobSpec(1), 1.0)], "duration_s", "csv", {}, {}, 1698535800.0
    )  # 23:30 UTC
    assert statistics(history, Clock())["arrivals_by_hour"].index(1) == 23
    assert statistics(history, Clock("Europe/Berlin"))["arrivals_by_hour"].index(1) == 1


def test_iterations_are_no_durations() -> None:
    found = statistics(
        History([TraceRow(2, "a", 0.0, JobSpec(9), 1e9)], "iterations", "csv", {}, {}, None), Clock(), 64
    )
    assert [found[name] for name in ("gpu_hours", "share_over_8", "duration_mean_s", "load")] == [None] * 4


def test_percentiles() -> None:
    assert [percentile([1.0, 2.0, 3.0, 4.0], share) for share in (0, 50, 75, 76, 100)] == [1, 2, 3, 4, 4]
    assert percentile([], 50) is None


# jobs, days, share of GPU-hours over 8 GPUs in percent, largest job, zero durations: as the README states them
STATED: dict[str, tuple[int, int, int | None, int | None, int | None]] = {
    "helios_venus_window20d.csv.gz": (10796, 20, 61, None, None),
    "alibaba_lingjun2023.csv.gz": (2498, 16, 93, 744, 241),
    "ms_itp2021_cluster04.csv.gz": (15802, 59, 49, None, None),
    "philly_win14d.csv.gz": (18792, 14, None, None, None),
    "philly.csv.gz": (111549, 129, None, None, None),
    "paper_batch500.csv": (500, 0, None, None, None),
    "paper_poisson_week.csv": (411, 7, None, None, None),
}  # fmt: skip


@pytest.mark.parametrize("name", STATED)
def test_shared_traces_are_what_their_readme_states(name: str, shared: Path) -> None:
    found = statistics(read_history(shared / "traces" / name), Clock())
    jobs, days, over_8, largest, zeros = STATED[name]
    assert found["rows"] == jobs
    assert not found["unused"]
    assert round(found["span_s"] / 86400) == days
    assert over_8 is None or round(found["share_over_8"] * 100) == over_8
    assert largest is None or found["gpus_max"] == largest
    assert zeros is None or found["zero_durations"] == zeros


def test_what_is_stated_here_is_what_the_readme_states(shared: Path) -> None:
    readme = (shared / "traces" / "README.md").read_text()
    for name, (jobs, *_) in STATED.items():
        row = next(line for line in readme.splitlines() if line.startswith(f"| `{name.removesuffix('.csv.gz')}`"))
        assert f"{jobs:,}" in row


def test_gpu_hours_to_the_last_digit(shared: Path) -> None:
    path = shared / "traces" / "philly.csv.gz"
    seconds = 0
    for line in gzip.decompress(path.read_bytes()).decode().splitlines()[1:]:
        fields = line.split(",")
        seconds += int(fields[3]) * int(fields[4])
    assert statistics(read_history(path), Clock())["gpu_hours"] == seconds / 3600
