"""The replay in a browser: why a job waits, loads of uplinks, links to a moment, users and dates."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from dally.report.explain import Stories
from dally.report.html import uplinks, wait_reasons
from dally.report.html.build import build_page, write_page
from dally.runs.folder import FolderRecord
from dally.runs.scenario import Scenario
from tests.report.conftest import Open
from tests.report.folders import ROOT, make_run
from tests.report.test_explain import trace_of
from tests.report.test_reasons import BUSY

SLURM = ROOT / "examples" / "slurm"
SECONDS = re.compile(r" \(\d+ s\)")
# One for each kind of answer: heads, reservations, offers and timers, rounds, admission.
ANSWERS = ("fifo", "easy-backfill", "dally-paper-manual", "gavel", "a-srpt")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run with users and dates, and its page."""
    folder = tmp_path_factory.mktemp("slurm")
    scenario = Scenario(str(SLURM / "sacct.txt"), str(SLURM / "topology.conf"), "easy-backfill", network="slow")
    scenario.trace_format, scenario.zone = "sacct", "Europe/Paris"
    make_run(folder, scenario)
    write_page(build_page(folder), folder / "page.html")
    return folder


def check_answers(page: Any, stories: Stories, at_s: float) -> int:
    """The page gives everybody who waits at an instant the reason that `dally explain` gives."""
    page.evaluate("time_s => dally.replay.seek(time_s / dally.course.tick_s + 0.001)", at_s)
    waits = stories.waiting(at_s)
    for wait in waits:
        why = page.evaluate(
            "name => (dally.replay.choose(dally.course.number.get(name)), dally.replay.now.why)", wait.job_id
        )
        assert why == SECONDS.sub("", wait.why)
        shown = page.locator(".replay .chosen").inner_text()
        assert wait.job_id in shown
        assert why in shown
    return len(waits)


@pytest.mark.parametrize("policy", ANSWERS)
def test_a_waiting_job_answers_why(tmp_path: Path, open_page: Open, policy: str) -> None:
    settings = {"gavel": {"round_s": "60"}, "dally-paper-manual": {"lease_s": "10", "floors": "0.4,0.8"}}
    scenario = Scenario(trace_of(tmp_path, list(BUSY)), "1x2x8", policy, settings.get(policy, {}))
    scenario.restart_per_gpu_s = 0.0
    make_run(tmp_path / "run", scenario)
    stories = Stories(FolderRecord(tmp_path / "run"))
    write_page(build_page(tmp_path / "run"), tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    assert sum(check_answers(page, stories, at_s) for at_s in (4.0, 6.0, 7.5)) >= 4


def test_answers_have_dates_and_queues_have_users(slurm: Path, open_page: Open) -> None:
    stories = Stories(FolderRecord(slurm))
    page = open_page(slurm / "page.html")
    assert check_answers(page, stories, stories.busiest_s()) > 10
    assert re.fullmatch(r"2024-03-04 \d\d:\d\d:\d\d", page.locator(".replay .clock").inner_text())
    assert page.locator(".queue li span").first.inner_text().startswith("eva · 12 GPUs · ")
    page.locator(".replay select.colour").select_option("user")
    titles = page.locator("figure[data-name=waiting] .axis-title.x").all_text_contents()
    assert titles == ["date in 2024 (Europe/Paris)"]
    assert page.locator(".gantt .axis-title.x").inner_text() == "date from 2024-03-04 (Europe/Paris)"
    assert "2024-03-04 to 2024-03-05 (Europe/Paris)" in page.locator(".facts").inner_text()
    assert "5 Mar" in page.locator("figure[data-name=waiting] svg").all_text_contents()[0]


def test_the_map_draws_the_load_of_each_uplink_at_its_moment(slurm: Path, open_page: Open) -> None:
    changes = FolderRecord(slurm).all_events.filter(pl.col("kind") == "link")
    assert changes.height > 10
    page = open_page(slurm / "page.html")
    names = page.evaluate("dally.course.links.map(([tier, , name]) => `${dally.course.tiers[tier]} ${name}`)")
    assert {"rack leaf1", "rack leaf2", "machine gpu01"} <= set(names)
    for at_s in changes["time_s"].gather([3, changes.height // 2, changes.height - 4]).to_list():
        loads = dict(
            changes.filter(pl.col("time_s") <= at_s).group_by("link").agg(pl.col("load").last()).iter_rows()
        )
        found = page.evaluate(
            "time_s => dally.course.links.map((_, link) => dally.course.load(link, time_s / dally.course.tick_s))",
            at_s + 0.01,
        )
        assert found == pytest.approx([loads.get(name, 0.0) for name in names], abs=0.001)
    page.locator(".replay canvas").hover(position={"x": 120, "y": 10})
    assert "of its capacity in use" in page.locator("#tip").inner_text()


def test_an_address_leads_to_a_moment_and_a_job(slurm: Path, open_page: Open) -> None:
    page = open_page(slurm / "page.html", at="#t=20000.5&job=4117")
    now = "[Math.round(dally.replay.now.time_s * 10) / 10, dally.course.job_id[dally.replay.chosen]]"
    assert page.evaluate(now) == [20000.5, "4117"]
    page.wait_for_function("scrollY > 200")  # the replay is below the headline
    page.locator(".replay .forward").click()
    address = page.locator(".replay .here").get_attribute("href")
    moment = page.evaluate(now)
    page.evaluate("location.hash = '#job=4104'")
    page.wait_for_function("dally.course.job_id[dally.replay.chosen] === '4104'")
    page.evaluate("address => { location.hash = address }", address)
    page.wait_for_function("dally.course.job_id[dally.replay.chosen] === '4117'")
    assert page.evaluate(now) == moment
    page.locator("details.job summary").first.click()
    page.locator("details.job dt a").nth(1).click()
    name = page.locator("details.job summary b").first.inner_text()
    page.wait_for_function("name => dally.course.job_id[dally.replay.chosen] === name", arg=name)


def test_too_much_to_tell_is_thinned_or_left_out(slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = FolderRecord(slurm)
    monkeypatch.setattr(uplinks, "MOST_CHANGES", 20)
    columns, facts = uplinks.uplinks_of(run, 1.0)
    assert 5 < len(columns["load_time"]) <= 20
    assert facts["load_step_s"] > 0
    monkeypatch.setattr(wait_reasons, "MOST_RECORDS", 5)
    columns, facts = wait_reasons.reasons_of(run, 1.0)
    assert not any(columns.values())
    assert facts["reasons"] is False
