"""The files that reports are: kinds of folder, nothing from outside, names that could be code, packing."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path

import polars as pl
import pytest

from dally.errors import InputError
from dally.report.html import gantt
from dally.report.html.build import build_page, kind_of, run_reports, write_page
from dally.report.html.charts import (
    count_axis,
    fitted_span_axis,
    log_count_axis,
    log_span_axis,
    share_axis,
    span_axis,
    time_axis,
)
from dally.report.html.gantt import pack
from dally.runs.folder import FolderRecord
from dally.runs.scenario import Scenario
from tests.report.folders import make_comparison, make_run


def unpacked(text: str) -> dict[str, list[int] | list[str]]:
    """The columns of a packed text, by the layout that pack() documents."""
    raw = gzip.decompress(base64.b64decode(text))
    length = int.from_bytes(raw[:4], "little")
    header = json.loads(raw[4 : 4 + length])
    at = 4 + length
    found: dict[str, list[int] | list[str]] = {}
    for name, count, width, ascending in header["columns"]:
        planes = [raw[at + plane * count : at + (plane + 1) * count] for plane in range(width)]
        values = [sum(plane[row] << (8 * place) for place, plane in enumerate(planes)) for row in range(count)]
        at += width * count
        if ascending:
            values = [sum(values[: row + 1]) for row in range(count)]
        found[name] = values
    for name, size in header["texts"]:
        found[name] = raw[at : at + size].decode().split("\n")
        at += size
    assert at == len(raw)
    return found


def test_packed_columns_come_back() -> None:
    columns = {"up": [3, 3, 70_000, 2**32 - 1], "any": [255, 0, 256, 1], "none": []}
    text = pack(columns, ("up",), {"names": ["a", "ß\nc"]})
    assert unpacked(text) == {**columns, "names": ["a", "ß c"]}
    assert pack(columns, ("up",), {"names": ["a", "ß\nc"]}) == text  # no clock in it
    with pytest.raises(ValueError, match="down: does not fit"):
        pack({"down": [2, 1]}, ("down",))


def test_the_chart_holds_every_stay(run_folder: Path) -> None:
    run = FolderRecord(run_folder)
    end_s = float(run.all_events["time_s"].max() or 0.0)  # type: ignore[arg-type]
    found = gantt.gantt_data(run, end_s)
    columns = unpacked(found.packed)
    starts = run.events.filter(pl.col("kind").is_in(["start", "migrate"]))
    assert len(columns["start"]) == starts["machines"].list.len().sum()
    held = sum(gpus * length for gpus, length in zip(columns["gpus"], columns["end"], strict=True))  # type: ignore[operator]
    expected = (run.jobs["run_s"] * run.jobs["gpus"]).sum()
    assert held * found.facts["tick_s"] == pytest.approx(expected, rel=1e-6)
    assert columns["down_start"] == [90_000_000]
    assert columns["job_id"] == run.jobs["job_id"].to_list()
    assert found.facts["left_out"] == 0


def test_a_run_too_long_keeps_what_can_be_seen_and_says_so(
    run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gantt, "MOST_PIECES", 50)
    run = FolderRecord(run_folder)
    found = gantt.gantt_data(run, 1e6)
    columns = unpacked(found.packed)
    assert len(columns["start"]) == 50
    assert columns["start"] == sorted(int(tick) for tick in columns["start"])
    assert found.facts["left_out"] > 0
    assert 0.0 < found.facts["hidden_share"] < 1.0
    page = build_page(run_folder).to_html()
    assert "of the shortest stays on a machine are not shown" in page


def test_nothing_in_a_page_is_fetched(run_folder: Path, comparison_folder: Path, sweep_folder: Path) -> None:
    for folder in (run_folder, comparison_folder, sweep_folder):
        text = build_page(folder).to_html()
        assert "%%" not in text
        addresses = set(re.findall(r"""(?:src|href)=["']([^"'#][^"']*)""", text))
        assert addresses <= {"data:,"}
        assert not re.search(r"url\(|@import|\bfetch\(|XMLHttpRequest|\bimport\(", text)
        assert set(re.findall(r"https?://[^\"' )]+", text)) == {"http://www.w3.org/2000/svg"}


def test_the_same_folder_gives_the_same_bytes(run_folder: Path) -> None:
    assert build_page(run_folder).to_html() == build_page(run_folder).to_html()


def test_names_cannot_become_code(tmp_path: Path) -> None:
    nasty = "</script><script>alert(1)</script>"
    (tmp_path / "t.csv").write_text(f"job_id,submit_s,gpus,duration_s\n{nasty},0,2,10\n<b>,1,2,10\n")
    make_run(tmp_path / "run", Scenario(str(tmp_path / "t.csv"), "1x1x2", "fifo"))
    text = build_page(tmp_path / "run").to_html()
    assert "alert(1)</script>" not in text
    assert "<b></b>" not in text
    assert "&lt;b&gt;" in text


@pytest.mark.parametrize("cluster", ["1x1x1", "2x8", "2x2x2x4"])
def test_any_cluster_and_no_network(tmp_path: Path, cluster: str) -> None:
    (tmp_path / "t.csv").write_text("job_id,submit_s,gpus,duration_s\na,0,1,10\nb,1,1,10\n")
    make_run(tmp_path / "run", Scenario(str(tmp_path / "t.csv"), cluster, "fifo"))
    page = build_page(tmp_path / "run")
    assert {"jct-cdf", "tiers", "utilization", "waiting"} <= {chart.name for chart in page.charts}
    assert "link-load" not in {chart.name for chart in page.charts}


def test_runs_without_a_finish_or_without_jobs(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("job_id,submit_s,gpus,duration_s\na,5,1,10\n")
    scenario = Scenario(str(tmp_path / "t.csv"), "1x1x1", "fifo", until_s=7.0)
    make_run(tmp_path / "early", scenario)
    text = build_page(tmp_path / "early").to_html()
    assert "finished none of 1 jobs" in text
    make_run(tmp_path / "none", Scenario(str(tmp_path / "t.csv"), "1x1x1", "fifo", until_s=2.0))
    assert "Nothing happened in this run" in build_page(tmp_path / "none").to_html()


def test_kinds_of_folder(run_folder: Path, comparison_folder: Path, sweep_folder: Path, tmp_path: Path) -> None:
    kinds = [kind_of(folder) for folder in (run_folder, comparison_folder, sweep_folder)]
    assert kinds == ["run", "comparison", "sweep"]
    with pytest.raises(InputError, match="holds neither summary"):
        kind_of(tmp_path)
    with pytest.raises(InputError, match="is not a folder"):
        kind_of(tmp_path / "nowhere")
    (tmp_path / "results.parquet").write_text("no parquet")
    with pytest.raises(InputError, match=r"results.parquet: cannot be read"):
        kind_of(tmp_path)
    pl.DataFrame({"policy": ["a"], "seed": [1]}).write_parquet(tmp_path / "results.parquet")
    with pytest.raises(InputError, match="jct_mean_s: this column is missing"):
        build_page(tmp_path)


def test_a_comparison_links_the_reports_of_its_runs(tmp_path: Path, trace: str) -> None:
    folder = make_comparison(tmp_path, trace, ("fifo", "dally"), cluster="3x3x8")
    assert 'href="runs/' not in build_page(folder).to_html()
    assert len(run_reports(folder)) == 2
    assert 'href="runs/slow-dally-s1/report.html"' in build_page(folder).to_html()
    with pytest.raises(InputError, match="unknown baseline 'las'"):
        build_page(folder, "las")
    assert "against <code>dally</code>" in build_page(folder, "dally").to_html()


def test_failed_runs_are_counted(sweep_folder: Path) -> None:
    assert "1 of 17 runs failed" in build_page(sweep_folder).to_html()


def test_seeds_of_a_sweep_repeat_its_settings(sweep_folder: Path) -> None:
    page = build_page(sweep_folder)
    text = page.to_html()
    assert page.facts == "8 settings × 2 seeds · varied: policy, lease_s, restart_s"
    assert text.count("<tr><td") == 8
    assert "± is half the range over seeds" in text
    assert not any(chart.name.startswith("effect-seed") for chart in page.charts)
    (matters,) = (chart for chart in page.charts if chart.name == "importance-jct_mean_s")
    assert {label for _, label in matters.y.ticks} >= {"policy", "lease_s", "restart_s"}
    assert sum(total.value for total in matters.totals) <= 1.0 + 1e-9
    (effect,) = (chart for chart in page.charts if chart.name == "effect-lease_s-jct_mean_s")
    settings, mean = effect.series
    assert (len(settings.xs), len(mean.xs), len(mean.lows)) == (8, 2, 2)
    assert effect.y.low > 0.3 * min(settings.ys)  # fitted: not from 0


def test_a_page_is_written_whole_or_not_at_all(run_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        write_page(build_page(run_folder), tmp_path / "no" / "report.html")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("axis", "title", "ticks"),
    [
        (time_axis("t", 0.0, 10 * 86400.0), "t (days)", ["0", "2", "4", "6", "8", "10"]),
        (time_axis("t", 100.0, 220.0), "t (minutes)", ["2", "2.5", "3", "3.5"]),
        (span_axis("s", 3 * 3600.0), "s (hours)", ["0", "1", "2", "3"]),
        (fitted_span_axis("s", 5 * 3600.0, 7 * 3600.0), "s (hours)", ["5", "5.5", "6", "6.5", "7"]),
        (share_axis("g", 0.83, low=0.71), "g (%)", ["70", "75", "80", "85"]),
        (share_axis("u"), "u (%)", ["0", "25", "50", "75", "100"]),
        (share_axis("u", 0.07), "u (%)", ["0", "2", "4", "6", "8"]),
        (count_axis("n", 3.0, "jobs"), "n (jobs)", ["0", "1", "2", "3"]),
        (log_span_axis("j", 1.0, 7200.0), "j (s to h, log scale)", ["1 s", "10 s", "1 min", "10 min", "1 h"]),
        (log_count_axis("x", 10.0, 10_000.0, "GB/s"), "x (GB/s, log scale)", ["10", "100", "1,000", "10,000"]),
    ],
)  # fmt: skip
def test_axes(axis: object, title: str, ticks: list[str]) -> None:
    assert axis.full_title() == title  # type: ignore[attr-defined]
    assert [label for _, label in axis.ticks] == ticks  # type: ignore[attr-defined]
