"""Adversarial workloads: the same for a seed, at their load; and how ours is judged, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.adversarial import judged, knows_durations, page, sections, values
from benchmarks.adversarial_workloads import ASIDE, CHOICE, ROWS, history_of, prepared

from dally.cluster.spec import read_topology
from dally.metrics.comparison import compare_rows
from dally.metrics.metric_list import JCT_MEAN, SHORT_SLOWDOWN
from dally.metrics.summary import Row
from dally.traces import read_history
from dally.traces.changes import load_of


@pytest.mark.parametrize("name", ROWS)
def test_a_seed_makes_the_same_jobs_at_the_load_of_the_row(name: str) -> None:
    history = history_of(name, 1)
    assert history.rows == history_of(name, 1).rows != history_of(name, 2).rows
    workload, gpus = ROWS[name], int(read_topology(ROWS[name].cluster).total_gpus())
    assert len(history.rows) == workload.jobs
    assert load_of(history, gpus) == pytest.approx(workload.load, rel=1e-3)
    assert max(row.spec.gpus for row in history.rows) <= gpus


def test_what_makes_a_row_adversarial() -> None:
    whole = [row for row in history_of("lab-2x2x4", 1).rows if row.spec.gpus == 16]
    assert 0.1 < len(whole) / ROWS["lab-2x2x4"].jobs < 0.2
    flood = {row.submit_s for row in history_of("flood-4x4x8", 1).rows if row.spec.user == "flood"}
    assert len(flood) == 6, "all of them come in six bursts"
    assert len({(row.spec.gpus, row.stated) for row in history_of("equal-2x4x8", 1).rows}) == 1


def test_a_row_is_written_as_it_is_drawn(tmp_path: Path) -> None:
    made = prepared("lab-1x1x8", 11, tmp_path)
    rows = read_history(made.trace, format="csv").rows
    assert [row.submit_s for row in rows] == [row.submit_s for row in history_of("lab-1x1x8", 11).rows]


def _row(policy: str, seed: int, mean_s: float, short: float | None, left: int = 0) -> Row:
    return {
        "workload": "lab-1x1x8", "network": "slow", "policy": policy, "seed": seed, "jobs": 9, "finished": 9 - left,
        "jct_mean_s": mean_s, "jct_p99_s": mean_s, "short_slowdown_p99": short, "preemptions": 0,
    }  # fmt: skip


ROW_LIST = [
    *(_row("dally", seed, 110.0, 3.0) for seed in (1, 11)),
    *(_row("las", seed, 100.0, 4.0) for seed in (1, 11)),
    *(_row("fifo", seed, 300.0, 1.0) for seed in (1, 11)),
    *(_row("srtf", seed, 10.0, 1.0) for seed in (1, 11)),
    *(_row("gavel", seed, 20.0, 1.0, left=1) for seed in (1, 11)),
]


def test_ours_is_judged_against_the_lowest_without_durations_that_finished_all() -> None:
    assert knows_durations("srtf:tier=closest")
    assert not knows_durations("tiresias:tier=closest")
    contest = compare_rows(ROW_LIST, "")[0]
    mean, short = judged(contest, "dally", JCT_MEAN), judged(contest, "dally", SHORT_SLOWDOWN)
    assert mean is not None
    assert mean.rival == "las"
    assert mean.ratio() == pytest.approx(1.1)
    assert short is not None
    assert short.rival == "fifo"
    assert short.ratio() == pytest.approx(3.0)


def test_seeds_of_the_choice_and_those_kept_aside_are_told_apart() -> None:
    assert not {*CHOICE} & {*ASIDE}
    titles = [title for title, *_ in sections(ROW_LIST, [1, 11], "dally")]
    assert titles == ["tuning seeds (1)", "held-out seeds (11)"]
    text = page(ROW_LIST, [1, 11], "dally", "slow")
    assert "Within its limit: mean JCT in 0 of 1, at worst 1.10 times the lowest" in text
    assert "`srtf †`" in text
    assert "`gavel (2 unfinished)`" in text
    results = values(ROW_LIST, [1, 11], "dally")["results"]
    assert [result["aside"] for result in results] == [True, True], "a row kept aside is so with any seed"
