"""One comparison, six renderings: terminal, Markdown, LaTeX, CSV, JSON and report.html say the same.

Three seeds. `srtf` is the baseline and still has jobs when the clock stops under two of them: its means and its
bounds are over fewer jobs, so it must be marked, never best, and no bound may come from it.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.conftest import Run

TRACE = """job_id,submit_s,gpus,duration_s
a,0,12,4000
b,10,32,3000
c,20,4,2000
d,30,4,9000
e,40,16,2500
f,50,12,1200
"""
POLICIES = ("srtf", "fifo-backfill", "dally")
METRICS = {"jct_mean_s": "mean JCT", "makespan_s": "makespan", "comm_s": "exposed communication"}
SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class Shown(NamedTuple):
    """A figure as it is shown, in seconds; the bound is that of its column."""

    mean_s: float
    half_s: float
    best: bool
    unfinished: bool
    bound_s: float
    times_bound: float | None

    def close_to(self, other: Shown) -> bool:
        """The same but for rounding to three digits."""
        own, its = ((one.mean_s, one.half_s, one.bound_s) for one in (self, other))
        return (
            (self.best, self.unfinished) == (other.best, other.unfinished)
            and own == pytest.approx(its, rel=0.03)
            and self.times_bound == pytest.approx(other.times_bound, abs=0.006)
        )


Found = dict[tuple[str, str], Shown]  # by policy and metric


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder, and what the terminal showed."""
    folder = tmp_path_factory.mktemp("compared")
    (folder / "t.csv").write_text(TRACE)

    def dally(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "dally", *arguments], cwd=folder, capture_output=True, text=True, check=True
        )
        return done.stdout

    dally("simulate", "--trace", "t.csv", "--cluster", "2x2x8", "--network", "congested", "--until", "15200",
          "--out", "s", "--no-report")  # fmt: skip
    text = dally("compare", "--scenario", "s/scenario.toml", "--policies", ",".join(POLICIES), "--seeds", "1,2,3",
                 "--baseline", "srtf", "--out", "out", "--jobs", "1")  # fmt: skip
    return folder / "out", text


def in_json(folder: Path, _: str) -> Found:
    values = json.loads((folder / "comparison.json").read_text())
    return {
        (entry["policy"], key): Shown(
            entry[key]["mean"], entry[key]["spread"], entry[key]["best"], bool(entry["unfinished"]),
            entry[key]["bound"], entry[key]["times_bound"],
        )
        for entry in values["results"]
        for key in METRICS
    }  # fmt: skip


def in_csv(folder: Path, _: str) -> Found:
    with (folder / "table.csv").open() as file:
        return {
            (line["policy"], line["metric"]): Shown(
                float(line["mean"]), float(line["spread"]), line["best"] == "true", line["unfinished"] != "0",
                float(line["bound"]), float(line["times_bound"]) if line["times_bound"] else None,
            )
            for line in csv.DictReader(file)
            if line["metric"] in METRICS
        }  # fmt: skip


def from_cells(headings: list[str], lines: list[list[str]], is_best: Callable[[str], bool]) -> Found:
    """The figures of a table of texts whose last line has the bounds."""
    found: Found = {}
    for key, title in METRICS.items():
        titles = (title, title.replace("munication", "m."))
        (place,) = [place for place, text in enumerate(headings) if text.split(", ")[0] in titles]
        unit = SECONDS[headings[place].split(", ")[1]]
        bound_s = numbers(lines[-1][place])[0] * unit
        for line in lines[:-1]:
            mean, half = (*numbers(line[place]), 0.0)[:2]
            times = numbers(line[place + 1])
            found[re.split(r"[ `$]", line[0].strip("` "))[0], key] = Shown(
                mean * unit, half * unit, is_best(line[place]), "†" in line[0] or "dagger" in line[0], bound_s,
                times[0] if times else None,
            )  # fmt: skip
    return found


def numbers(text: str) -> list[float]:
    return [float(one) for one in re.findall(r"\d+\.?\d*", text.replace(",", ""))]


def in_terminal(_: Path, text: str) -> Found:
    """Headings may take two lines, so columns are known by their places."""
    lines = text.split("against srtf")[0].splitlines()
    place = next(place for place, line in enumerate(lines) if "──" in line)
    cells = [re.split(r"\s{2,}", line.strip()) for line in lines[place + 1 : place + 5]]
    assert cells[-1][0] == "at least"
    unit = re.findall(r"mean JCT, (\w+)", text)[0]
    titles = [
        "",
        "mean JCT",
        "÷",
        "p50 JCT",
        "p99 JCT",
        "mean wait",
        "exposed comm.",
        "÷",
        "makespan",
        "÷",
        "preemptions",
    ]
    bounds = dict(zip(("mean JCT", "exposed comm.", "makespan"), cells[-1][1:], strict=True))
    last = ["at least", *(bounds.get(title, "") for title in titles[1:])]
    return from_cells([f"{title}, {unit}" for title in titles], [*cells[:-1], last], lambda cell: "*" in cell)


def in_markdown(folder: Path, _: str) -> Found:
    rows = [line for line in (folder / "table.md").read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[: 3 + len(POLICIES)]]
    return from_cells(cells[0], cells[2:], lambda cell: "**" in cell)


def in_latex(folder: Path, _: str) -> Found:
    rows = [line for line in (folder / "table.tex").read_text().splitlines() if " & " in line]
    cells = [row.removesuffix(r"\\").split(" & ") for row in rows]
    return from_cells(cells[0], cells[1:], lambda cell: "textbf" in cell)


class Cells(HTMLParser):
    """The texts of the first table's cells."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.inside = False

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.inside = True
        elif tag == "span" and self.inside and self.rows[-1]:
            self.rows[-1][-1] += "|"

    def handle_endtag(self, tag: str) -> None:
        self.inside = self.inside and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.rows[-1][-1] += data


def in_html(folder: Path, _: str) -> Found:
    text = (folder / "report.html").read_text()
    parser = Cells()
    parser.feed(text[text.index("<table") : text.index("</table>")])
    headings, *lines = parser.rows
    found: Found = {}
    for key, title in METRICS.items():
        start = title.replace("munication", "m.") + ", "
        place = next(place for place, heading in enumerate(headings) if heading.startswith(start))
        unit_s = SECONDS[headings[place].removeprefix(start)]  # one for the whole column
        for line in lines[:-1]:
            cell = line[place]
            mean, half = (float(value) * unit_s for value in re.findall(r"\d+\.?\d*", cell)[:2])
            times = re.findall(r"(\d+\.\d+)× (?:bound|alone)", cell)
            found[line[0].split("|")[0], key] = Shown(
                mean, half, "★" in cell, "unfinished" in line[0],
                float(lines[-1][place].removesuffix(" alone")) * unit_s,
                float(times[0]) if times else None,
            )  # fmt: skip
    return found


@pytest.mark.parametrize("rendering", [in_csv, in_terminal, in_markdown, in_latex, in_html])
def test_all_renderings_say_the_same(compared: tuple[Path, str], rendering: Callable[[Path, str], Found]) -> None:
    expected, found = in_json(*compared), rendering(*compared)
    assert set(found) == set(expected) == {(policy, key) for policy in POLICIES for key in METRICS}
    for key, shown in found.items():
        assert shown.close_to(expected[key]), f"{key}: {shown} is not {expected[key]}"


def test_what_they_say_is_right(compared: tuple[Path, str]) -> None:
    """From the runs' own summaries: half the range, no star for who stopped early, the bounds of all six jobs."""
    folder, text = compared
    runs = {
        (policy, seed): json.loads((folder / "runs" / f"t-congested-{policy}-{seed}" / "summary.json").read_text())
        for policy in POLICIES
        for seed in (1, 2, 3)
    }
    left = {pair: run["jobs"] - run["finished"] for pair, run in runs.items() if run["jobs"] != run["finished"]}
    assert left == {("srtf", 1): 1, ("srtf", 2): 1}
    shown = in_json(folder, text)
    means_s = {
        name: sum(runs[name, seed]["jct_mean_s"] for seed in (1, 2, 3)) for name in POLICIES if name != "srtf"
    }
    best = min(means_s, key=lambda name: means_s[name])
    jct_s = [runs[best, seed]["jct_mean_s"] for seed in (1, 2, 3)]
    bound_s = [runs[best, seed]["jct_bound_s"] for seed in (1, 2, 3)]
    times = [one / bound for one, bound in zip(jct_s, bound_s, strict=True)]
    ours = shown[best, "jct_mean_s"]
    assert (ours.best, ours.unfinished) == (True, False)
    assert (ours.mean_s, ours.half_s) == pytest.approx((sum(jct_s) / 3, (max(jct_s) - min(jct_s)) / 2))
    assert (ours.bound_s, ours.times_bound) == pytest.approx((sum(bound_s) / 3, sum(times) / 3))
    early = shown["srtf", "jct_mean_s"]
    assert early.mean_s < ours.mean_s, "over fewer jobs"
    assert (early.best, early.unfinished, early.times_bound) == (False, True, None)
    assert runs["srtf", 1]["jct_bound_s"] < bound_s[0], "its own bound is that of five jobs"


def test_the_report_made_later_keeps_the_baseline(compared: tuple[Path, str], dally: Run) -> None:
    folder, _ = compared
    before = (folder / "report.html").read_bytes()
    assert dally("report", str(folder)).returncode == 0
    assert (folder / "report.html").read_bytes() == before
