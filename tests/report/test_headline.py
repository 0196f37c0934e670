"""Headlines say what the figures say, and the because follows from them."""

from __future__ import annotations

import polars as pl
import pytest

from dally.metrics.comparison import compare_rows
from dally.metrics.summary import Row
from dally.report.html.headline import Headline, comparison_headline, leaders_sentence, listed, run_headline
from dally.report.time_text import brief


def jobs(*rows: tuple[float, float, float, float, int]) -> pl.DataFrame:
    """Jobs from (jct, waiting, computing, communication, preemptions)."""
    columns = ["jct_s", "queue_s", "compute_s", "comm_s", "preemptions"]
    frame = pl.DataFrame([list(row) for row in rows], schema=columns, orient="row")
    return frame.with_columns(job_id=pl.Series([f"j{place}" for place in range(len(rows))]), seed=pl.lit(0))


def row(label: str, p50_s: float, p99_s: float, mean_s: float, wait_s: float = 0.0, lost: float = 0.0) -> Row:
    return {
        "policy": label, "seed": 1, "jobs": 10, "finished": 10, "jct_p50_s": p50_s, "jct_p99_s": p99_s,
        "jct_mean_s": mean_s, "jct_bound_s": 50.0, "queue_mean_s": wait_s, "comm_gpu_s": lost,
        "compute_gpu_s": 1.0 - lost,
    }  # fmt: skip


BASE = row("fifo", 100.0, 1000.0, 200.0, 100.0, 0.4)


def headline(subject: Row, frames: dict[str, pl.DataFrame] | None = None, base: Row = BASE) -> Headline:
    """The subject's runs against fifo's."""
    (contest,) = compare_rows([base, subject], "fifo")
    return comparison_headline(contest, contest.entries[1], frames)


@pytest.mark.parametrize(
    ("label", "p50_s", "p99_s", "expected"),
    [
        ("dally", 59.0, 1080.0,
         "the median job 41 % sooner than `fifo` (59 s instead of 1.7 min); p99 is 8 % worse."),
        ("dally", 59.0, 500.0,
         "the median job 41 % sooner than `fifo` (59 s instead of 1.7 min); p99 is 50 % better too."),
        ("slow", 130.0, 1010.0,
         "the median job 30 % later than `fifo` (2.2 min instead of 1.7 min); p99 is about the same."),
        ("same", 101.0, 600.0,
         "the median job about as fast as `fifo` (1.7 min instead of 1.7 min); p99 is 40 % better."),
    ],
)  # fmt: skip
def test_the_lead(label: str, p50_s: float, p99_s: float, expected: str) -> None:
    assert headline(row(label, p50_s, p99_s, 150.0)).lead == f"`{label}` finishes {expected}"


@pytest.mark.parametrize(
    ("tail", "because"),
    [
        ((3000.0, 2900.0, 100.0, 0.0, 4), "wait 33.3 min longer (preempted 4.0 times on average)"),
        ((3000.0, 900.0, 100.0, 2000.0, 0), "lose 33.3 min more to the network"),
        ((3000.0, 900.0, 100.0, 0.0, 9),
         "lose 33.3 min more to restarts or undone work (preempted 9.0 times on average)"),
    ],
)  # fmt: skip
def test_the_because_of_a_worse_tail_is_the_part_that_grew(
    tail: tuple[float, float, float, float, int], because: str
) -> None:
    base = jobs(*[(100.0, 10.0, 90.0, 0.0, 0)] * 9, (1000.0, 900.0, 100.0, 0.0, 0))
    own = jobs(*[(60.0, 0.0, 60.0, 0.0, 0)] * 9, tail)
    found = headline(row("dally", 60.0, 3000.0, 150.0), {"dally": own, "fifo": base})
    assert found.lead.endswith(f"p99 is 200 % worse, because the slowest 1 % of jobs {because}.")


def test_the_mean_change_names_its_parts_and_who_gains() -> None:
    base = jobs((1000.0, 800.0, 100.0, 100.0, 0), (400.0, 100.0, 200.0, 100.0, 0))
    own = jobs((300.0, 100.0, 100.0, 100.0, 0), (440.0, 40.0, 200.0, 200.0, 0))
    why = headline(row("dally", 60.0, 900.0, 370.0), {"dally": own, "fifo": base}).why
    assert why[0] == "The mean job gains 5.5 min: 6.3 min less waiting and 50 s more exposed communication."
    assert why[1] == "50 % of jobs finish sooner than under `fifo`, 50 % later, the rest within 3 %."
    assert why[2].startswith("No scheduler can do better than a mean JCT of 50 s: `dally` takes 7.4 times that and")
    assert why[2].endswith(" and `fifo` takes 4.0 times that.")


def test_without_jobs_the_summaries_must_do() -> None:
    why = headline(row("dally", 60.0, 900.0, 90.0, 40.0, 0.1)).why
    assert (
        why[0]
        == "Mean waiting falls by 60 s and the share of GPU time lost to the network falls from 40 % to 10 %."
    )


def test_who_left_jobs_unfinished_is_named_and_not_held_against_the_bound() -> None:
    early = {**BASE, "finished": 7, "jct_bound_s": 1.0}
    why = headline(row("dally", 60.0, 900.0, 90.0), base=early).why
    assert why[-2:] == [
        "No scheduler can do better than a mean JCT of 50 s: `dally` takes 1.8 times that.",
        "`fifo` left 3 jobs unfinished, which its means leave out.",
    ]


def test_a_run_is_measured_by_its_bound() -> None:
    found = run_headline("las", jobs((100.0, 50.0, 40.0, 10.0, 0), (300.0, 250.0, 50.0, 0.0, 1)), 100.0)
    assert (
        found.lead
        == "`las` finishes the median job in 3.3 min and the mean job in 3.3 min, 2.0× the least possible."
    )
    assert found.why[0] == "75 % of the mean job's time is waiting, 22 % computing and 2 % exposed communication."
    assert found.why[1] == "The slowest job takes 5 min; 83 % of that time is waiting and 17 % computing."
    assert "as fast as any scheduler could" in run_headline("las", jobs((9.0, 0.0, 9.0, 0.0, 0)), 9.0).lead


def test_unfinished_jobs_are_held_against_no_bound() -> None:
    done = jobs((9.0, 0.0, 9.0, 0.0, 0), (9.0, 0.0, 9.0, 0.0, 0))
    half = done.with_columns(jct_s=pl.Series([9.0, None], dtype=pl.Float64))
    if "status" in half.columns:
        half = half.with_columns(status=pl.Series(["finished", "waiting"]))
    found = run_headline("las", half, 9.0)
    assert found.lead == "`las` finishes the median job in 9 s and the mean job in 9 s."
    assert found.why[-1] == "1 of 2 jobs had not finished when the clock stopped."


def test_nothing_finished_is_said() -> None:
    none = jobs((1.0, 1.0, 0.0, 0.0, 0)).with_columns(jct_s=pl.lit(None, pl.Float64))
    assert run_headline("las", none, 0.0).lead == "`las` finished none of 1 jobs."


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.0, "0 s"), (42.04, "42 s"), (89.0, "89 s"), (95.0, "1.6 min"), (5399.0, "90 min"), (6480.0, "1.8 h"),
     (172799.0, "48 h"), (259200.0, "3 d"), (123 * 86400.0, "123 d"), (12345 * 86400.0, "12,345 d")],
)  # fmt: skip
def test_brief_durations(seconds: float, expected: str) -> None:
    assert brief(seconds) == expected


def test_durations_in_tables_line_up() -> None:
    assert [brief(seconds, in_table=True) for seconds in (59.0, 36000.0, 9e6)] == ["59.0 s", "10.0 h", "104 d"]


def test_lists_read_as_people_write_them() -> None:
    assert [listed(words) for words in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ({"jct_mean_s": 100.0, "jct_p99_s": 900.0, "preemptions": 20}, {"jct_mean_s": 125.0, "jct_p99_s": 600.0},
         "Of the two leaders, `las` is better at mean JCT (−20 %); `dally` at p99 JCT (−33 %) "
         "and preemptions (0 instead of 20)."),
        ({"jct_mean_s": 100.0}, {"jct_mean_s": 125.0},
         "Of the two leaders, `las` is better at mean JCT (−20 %); `dally` at nothing beyond noise."),
        ({"jct_mean_s": 100.0}, {"jct_mean_s": 101.0},
         "The two leaders, `las` and `dally`, differ in nothing beyond noise."),
        ({"jct_mean_s": 100.0}, {"jct_mean_s": 125.0, "finished": 9}, ""),
    ],
)  # fmt: skip
def test_what_each_of_two_leaders_is_better_at(first: Row, second: Row, expected: str) -> None:
    same = {"seed": 1, "jobs": 10, "finished": 10, "jct_p99_s": 700.0, "preemptions": 0}
    same |= {"jct_p99_s": first.get("jct_p99_s", 700.0)}
    rows = [{**same, "policy": "las", **first}, {**same, "policy": "dally", **second}]
    (contest,) = compare_rows(rows, "las")
    assert leaders_sentence(contest) == expected


def test_a_duration_below_nothing_can_be_told() -> None:
    assert (brief(-1e-12), brief(-90.0), brief(0.0, in_table=True)) == ("0 s", "−1.5 min", "0.0 s")
