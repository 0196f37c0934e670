"""The chart of GPUs over time in a browser: moments, jobs, links to a moment, users and dates."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dally.report.explanation.job_timeline import Explainer
from dally.report.html.build import build_page, write_page
from dally.runs.folder import FolderRecord
from dally.runs.scenario import Scenario
from tests.report.conftest import Open
from tests.report.folders import ROOT, make_run

SLURM = ROOT / "examples" / "slurm"


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with users and dates, and its page."""
    folder = tmp_path_factory.mktemp("slurm")
    scenario = Scenario(str(SLURM / "sacct.txt"), str(SLURM / "topology.conf"), "easy-backfill", network="slow")
    scenario.trace_format, scenario.zone = "sacct", "Europe/Paris"
    make_run(folder, scenario)
    write_page(build_page(folder), folder / "page.html")
    return folder


def test_the_chart_shows_what_the_run_left(run_folder: Path, tmp_path: Path, open_page: Open) -> None:
    run = Explainer(FolderRecord(run_folder))
    write_page(build_page(run_folder), tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    assert page.evaluate("dally.gantt.now.time_s") == pytest.approx(run.busiest_s(), abs=0.01)
    for time_s in (20_000.0, 100_000.0, run.busiest_s()):
        now = page.evaluate(
            "time => (dally.gantt.seek(time / dally.course.tick_s), dally.gantt.now)", time_s + 0.01
        )
        waiting = {wait.job_id for wait in run.waiting(time_s)}
        running = [
            row["gpus"]
            for row in run.jobs.iter_rows(named=True)
            if row["submit_s"] <= time_s < (row["finish_s"] or 1e18) and row["job_id"] not in waiting
        ]
        assert [now["jobs"], now["held"]] == [len(running), sum(running)]
        assert page.locator(".gantt .command").inner_text() == f"dally view RUN_DIR --at {now['time_s']:.10g}"


def test_choosing_a_moment_a_job_and_colours(run_folder: Path, tmp_path: Path, open_page: Open) -> None:
    write_page(build_page(run_folder), tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    page.locator(".gantt .jump").select_option(label="rack0-m0 fails")
    assert page.evaluate("dally.gantt.now.time_s") == 90_000
    page.locator(".gantt .find").fill("j7")
    page.keyboard.press("Enter")
    assert page.evaluate("dally.course.job_id[dally.gantt.chosen]") == "j7"
    assert "job j7: " in page.locator(".gantt .state").inner_text()
    page.locator(".gantt .find").fill("nobody")
    page.keyboard.press("Enter")
    assert page.locator(".gantt .missing").inner_text() == "no job nobody"
    pictures = []
    for way in ("job", "slowdown", "tier"):
        page.locator(".gantt select.colour").select_option(way)
        pictures.append(page.evaluate("document.querySelector('.gantt canvas').toDataURL()"))
        assert page.locator(".gantt .legend").inner_text()
    assert len(set(pictures)) == 3


def test_dates_and_users_of_the_trace(slurm: Path, open_page: Open) -> None:
    page = open_page(slurm / "page.html")
    assert re.fullmatch(r"2024-03-04 \d\d:\d\d:\d\d", page.locator(".gantt .clock").inner_text())
    page.locator(".gantt select.colour").select_option("user")
    titles = page.locator("figure[data-name=waiting] .axis-title.x").all_text_contents()
    assert titles == ["date in 2024 (Europe/Paris)"]
    assert page.locator(".gantt .axis-title.x").inner_text() == "date from 2024-03-04 (Europe/Paris)"
    assert "2024-03-04 to 2024-03-05 (Europe/Paris)" in page.locator(".facts").inner_text()
    assert "5 Mar" in page.locator("figure[data-name=waiting] svg").all_text_contents()[0]


def test_an_address_leads_to_a_moment_and_a_job(slurm: Path, open_page: Open) -> None:
    page = open_page(slurm / "page.html", at="#t=20000.5&job=4117")
    now = "[Math.round(dally.gantt.now.time_s * 10) / 10, dally.course.job_id[dally.gantt.chosen]]"
    assert page.evaluate(now) == [20000.5, "4117"]
    page.wait_for_function("scrollY > 200")  # the chart is below the headline
    address = page.locator(".gantt .here").get_attribute("href")
    page.evaluate("location.hash = '#job=4104'")
    page.wait_for_function("dally.course.job_id[dally.gantt.chosen] === '4104'")
    page.evaluate("address => { location.hash = address }", address)
    page.wait_for_function("dally.course.job_id[dally.gantt.chosen] === '4117'")
    assert page.evaluate(now) == [20000.5, "4117"]
    page.locator("details.job summary").first.click()
    page.locator("details.job dt a").nth(1).click()
    name = page.locator("details.job summary b").first.inner_text()
    page.wait_for_function("name => dally.course.job_id[dally.gantt.chosen] === name", arg=name)
