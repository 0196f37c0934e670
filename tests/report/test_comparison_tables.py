"""A comparison as tables: units, digits, marks, and every way to write them down."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest

from dally.metrics.comparison import compare_rows
from dally.metrics.metric_list import COMM, JCT_MEAN, PREEMPTIONS, spread
from dally.metrics.summary import Row
from dally.report.comparison_tables import (
    absolute,
    notes,
    relative,
    to_csv,
    to_latex,
    to_markdown,
    to_values,
    unit_of,
)

FIGURES = (JCT_MEAN, COMM, PREEMPTIONS)


def row(policy: str, seed: int, jct_h: float, **more: Any) -> Row:
    figures = {"jct_mean_s": jct_h * 3600, "jct_bound_s": 3600.0, "comm_s": 0.0, "comm_floor_s": 0.0}
    labels = {"workload": "w", "network": "slow", "policy": policy, "seed": seed}
    return {**labels, "jobs": 2, "finished": 2, "preemptions": 3, "comm_gpu_s": 0.0, **figures, **more}


ROWS = [row("fifo", 1, 4), row("fifo", 2, 6), row("las", 1, 2), row("las", 2, 6)]
QUITTER = [row("quit_ter", 1, 0.1, finished=1, jct_bound_s=1.0), row("quit_ter", 2, 0.1)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3600.0], "1.00"),
        ([3600.0, None], "1.00"),
        ([3600.0, 9000.0], "1.75 ±0.75"),
        ([3600.0 * 1234.4], "1,234"),
        ([3600.0 * 123.456, 3600.0 * 125.456], "124.5 ±1.0"),
        ([5400.0, 5400.0], "1.50"),
    ],
)
def test_means_and_spread(values: list[float | None], expected: str) -> None:
    found = spread(values)
    assert found is not None
    assert found.shown(3600.0) == expected


def test_counts_are_whole() -> None:
    found = spread([3, 5])
    assert found is not None
    assert (found.shown(), found.shown(60.0)) == ("4 ±1", "0.07 ±0.02")


@pytest.mark.parametrize(("seconds", "unit"), [(100.0, "s"), (120.0, "min"), (7199.0, "min"), (7200.0, "h")])
def test_units_suit_the_largest(seconds: float, unit: str) -> None:
    (contest,) = compare_rows([row("a", 1, 1 / 3600), row("b", 1, seconds / 3600)], "")
    assert unit_of(contest)[0] == unit


def test_an_absolute_table() -> None:
    (contest,) = compare_rows(ROWS, "")
    table = absolute(contest, FIGURES)
    assert table.headings == ["", "mean JCT, h", "÷ bound", "exposed communication, h", "÷ alone", "preemptions"]
    assert table.marked() == [
        ["fifo", "5.00 ±1.00 ", "5.00 ", "0.00 ", "- ", "3 "],
        ["las", "4.00 ±2.00*", "4.00 ", "0.00 ", "- ", "3 "],
        ["at least", "1.00 ", " ", "(0.00) ", " ", " "],
    ]
    assert table.markdown().splitlines()[2:] == [
        "| `fifo` | 5.00 ±1.00 | 5.00 | 0.00 | - | 3 |",
        "| `las` | **4.00 ±2.00** | 4.00 | 0.00 | - | 3 |",
        "| at least | 1.00 |  | (0.00) |  |  |",
    ]
    assert absolute(contest, FIGURES, bounded=False, short=True).headings == [
        "", "mean JCT, h", "exposed comm., h", "preemptions",
    ]  # fmt: skip


def test_who_left_jobs_unfinished_is_marked() -> None:
    contests = compare_rows([*ROWS, *QUITTER], "fifo")
    lines = absolute(contests[0], FIGURES).marked()
    assert lines[2][:3] == ["quit_ter †", "0.10 ", "- "]
    assert lines[3][1] == "1.00 ", "the bound is that of all jobs"
    assert relative(contests[0], FIGURES).marked()[2][0] == "quit_ter †"
    assert len(notes(contests)) == 3
    note, alone = notes(compare_rows(ROWS, ""))
    assert note.startswith("* best of its column, or as good within noise (3 %); ± half the range over seeds and")
    assert alone.startswith("in brackets: communication of the jobs alone")
    assert "† left jobs unfinished" in to_markdown(contests)


def test_a_relative_table() -> None:
    (contest,) = compare_rows(ROWS, "fifo")
    table = relative(contest, FIGURES)
    assert table.headings == ["against fifo", "mean JCT", "exposed communication", "preemptions"]
    assert [[cell.text for cell in line] for line in table.lines] == [
        ["fifo", "+0.0%", "-", "+0.0%"],
        ["las", "-25.0% ±25.0", "-", "+0.0%"],
    ]


def test_markdown_has_two_tables_where_the_baseline_is() -> None:
    text = to_markdown(compare_rows([*ROWS, {**row("las", 1, 2), "network": ""}], "fifo"))
    assert text.count("## w") == 2
    assert text.count("| against fifo |") == 1, "the second contest lacks the baseline"


def test_fairness_between_users_is_in_the_page_where_jobs_have_users() -> None:
    users = {"user_slowdown_max": 3.5, "rho_max": 1.25}
    with_users = to_markdown(compare_rows([{**line, **users} for line in ROWS], "fifo"))
    assert "slowdown of the worst user" in with_users
    assert "finish-time fairness of the worst user" in with_users
    assert "3.5" in with_users
    assert "worst user" not in to_markdown(compare_rows(ROWS, "fifo"))


def test_values_for_scripts() -> None:
    found = to_values(compare_rows([*ROWS, *QUITTER], "fifo"), "fifo")
    assert (found["baseline"], found["spread"]) == ("fifo", "half the range over seeds and replications")
    las, quitter = found["results"][1:]
    assert (las["policy"], las["seeds"], las["unfinished"]) == ("las", [1, 2], {})
    assert las["jct_mean_s"] == {
        "mean": 14400.0, "spread": 7200.0, "low": 7200.0, "high": 21600.0, "noise": None,
        "values": [7200.0, 21600.0], "ranges": [[7200.0, 7200.0], [21600.0, 21600.0]],
        "best": True, "against_baseline": -0.25, "against_baseline_spread": 0.25, "bound": 3600.0,
        "times_bound": 4.0,
    }  # fmt: skip
    assert las["makespan_s"] is None
    assert "cpu_s" not in las, "it differs when a run is made again"
    assert (quitter["unfinished"], quitter["finished"]) == ({"1": 1}, 1)
    assert (quitter["jct_mean_s"]["best"], quitter["jct_mean_s"]["times_bound"]) == (False, None)


def test_csv_has_a_line_per_figure() -> None:
    lines = list(csv.DictReader(io.StringIO(to_csv(compare_rows([*ROWS, *QUITTER], "fifo")))))
    one = next(line for line in lines if (line["policy"], line["metric"]) == ("las", "jct_mean_s"))
    assert (one["mean"], one["spread"], one["best"], one["unfinished"]) == ("14400.0", "7200.0", "true", "0")
    assert {line["unfinished"] for line in lines if line["policy"] == "quit_ter"} == {"1"}
    assert not any(line["metric"] == "makespan_s" for line in lines), "no run has it"


def test_latex_escapes_and_marks() -> None:
    text = to_latex(compare_rows([*ROWS, *QUITTER], "fifo"))
    assert r"las & \textbf{4.00 $\pm$2.00} & 4.00 &" in text
    assert r"quit\_ter $^\dagger$ & 0.10 &" in text
    assert text.count(r"\midrule") == 2
    assert text.index(r"\toprule") < text.index(r"\midrule") < text.index(r"\bottomrule")


def test_replications_show_in_every_rendering() -> None:
    """fifo takes 4 and 4.2 h, las 2 and 2.6: half the ranges are 0.1 and 0.3 h."""
    rows = [row("fifo", 1, 4), row("fifo", 1, 4.2), row("las", 1, 2), row("las", 1, 2.6)]
    contests = compare_rows([{**one, "replication": place % 2} for place, one in enumerate(rows)], "fifo")
    assert contests[0].title().endswith(", seed 1, 2 replications")
    assert [line[1] for line in absolute(contests[0], FIGURES).marked()[:2]] == ["4.10 ±0.10 ", "2.30 ±0.30*"]
    note, _ = notes(contests)
    assert note.startswith("* best of its column, or as good within noise (that of replications); ")
    assert "4.10 ±0.10" in to_markdown(contests)
    assert "2.30" in to_latex(contests)
    fifo, las = to_values(contests, "fifo")["results"]
    assert (fifo["replications"], fifo["seeds"]) == (2, [1])
    assert las["jct_mean_s"]["noise"] == pytest.approx(0.3 * 3600)
    assert las["jct_mean_s"]["ranges"] == [[7200.0, pytest.approx(2.6 * 3600)]]
    (line,) = [line for line in to_csv(contests).splitlines() if ",las,jct_mean_s," in line]
    found = dict(zip(to_csv(contests).splitlines()[0].split(","), line.split(","), strict=True))
    assert float(found["noise"]) == pytest.approx(0.3 * 3600)
    assert found["replications"] == "2"


def test_the_spread_of_a_change_covers_replications() -> None:
    runs = [{**row("fifo", 1, 4), "replication": number} for number in (0, 1)]
    runs += [{**row("las", 1, hours), "replication": number} for number, hours in enumerate((2, 3))]
    (contest,) = compare_rows(runs, "fifo")
    ratio = contest.entries[1].standings["jct_mean_s"].ratio
    assert ratio is not None
    assert (ratio.mean, ratio.low, ratio.high) == (0.625, 0.5, 0.75)
    caption = to_latex([contest]).split(r"\caption{")[1].split("}\n")[0]
    assert r"$\pm$ half the range over seeds and replications" in caption
