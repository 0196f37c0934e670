"""Alerts, teams and the scheduler's events; and every page at three widths in both themes, with its figures."""

from __future__ import annotations

import csv
import io
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dally.live.config import Setup
from dally.live.forecast.whatif.from_now import USUAL_EFFORT
from dally.live.forecast.whatif.runner import Runner
from dally.web.alerts import LATE_S, RULES, Alerts, rules_yaml
from tests.web.conftest import Desk, answering
from tests.web.visiting import Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[2]
QUEUES = """
[queues.research]
guarantee = 16

[queues."research/nlp"]
guarantee = 8
min_runtime = "30d"
match = {user = ["ann"]}

[queues."research/vision"]
limit = 24
min_runtime = "30d"
match = {user = ["bob"]}

[queues.rest]
guarantee = 16
default = true
"""
PAGES = (
    "/", "/queue", "/queue?tab=running", "/queue?tab=ended", "/jobs/1", "/jobs/2", "/teams", "/trends", "/whatif",
    "/log", "/log?of=scheduler", "/nowhere",
)  # fmt: skip


@pytest.fixture(scope="module")
def open_desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Desk, str]]:
    """Two teams, one of which borrows; jobs that run, wait and have ended; a machine that is down."""
    folder = tmp_path_factory.mktemp("overview")
    (folder / "queues.toml").write_text(QUEUES)
    desk = Desk(
        folder / "service", setup=Setup("fifo-backfill", queues=str(folder / "queues.toml"), network="slow")
    )
    desk.service.whatifs.make_runner = Runner
    for gpus, user, seconds in ((24, "bob", 86400.0), (8, "ann", 300.0), (16, "ann", 86400.0), (32, "bob", 600.0)):
        desk.submit(gpus, seconds, user=user, name=f"of-{user}", model="vgg16")
        desk.cycle()
    for _ in range(10):
        desk.cycle(60.0)
    with answering(desk) as url:
        yield desk, url
    desk.service.close()


@pytest.fixture
def desk(open_desk: tuple[Desk, str]) -> Desk:
    return open_desk[0]


def test_the_rules_for_prometheus_are_the_ones_of_the_pages() -> None:
    assert (ROOT / "contrib" / "dally-alerts.yaml").read_text() == rules_yaml()


def test_rules_name_metrics_that_there_are(desk: Desk) -> None:
    """Those without a sample yet are declared all the same."""
    metrics = desk.client.get("/metrics").text
    names = {name for rule in RULES for name in re.findall(r"dally_\w+", rule.expression)}
    assert len(names) >= 6
    assert [name for name in names if name not in metrics] == []


def test_an_alert_fires_once_it_has_held_for_long_enough(desk: Desk) -> None:
    now_s = desk.service.daemon.status.wall_s
    clock = [now_s]
    alerts = Alerts(desk.service.daemon, lambda: clock[0])
    assert alerts.firing() == []
    clock[0] += LATE_S + 10.0
    assert alerts.firing() == [], "late, but not for a minute yet"
    clock[0] += 60.0
    [alert] = alerts.firing()
    assert (alert.name, alert.severity, alert.since_s) == ("DallyCycleLate", "critical", now_s + LATE_S + 10.0)
    desk.backend.now_s += 200.0
    desk.service.daemon.run_cycle()
    clock[0] = desk.service.daemon.status.wall_s
    assert alerts.firing() == []


def test_teams_and_who_borrows(desk: Desk) -> None:
    found = {row["path"]: row for row in desk.get("queues")["queues"]}
    assert list(found) == ["research", "research/nlp", "research/vision", "rest"]
    vision, nlp, rest = found["research/vision"], found["research/nlp"], found["rest"]
    assert (vision["held"], vision["guarantee"], vision["borrowed"], vision["limit"]) == (24, 0.0, 24.0, 24.0)
    assert (nlp["guarantee"], rest["lent"], rest["held"]) == (8.0, 16.0, 0)
    assert vision["used_gpu_h"] > 0.0
    text = desk.client.get("/teams").text
    assert "research/vision borrows GPUs that" in text
    assert "rest" in text


def test_users_see_no_totals_of_others(desks: Callable[..., Desk]) -> None:
    desk = desks()
    user = desk.token("u", "user", "ann")
    for path in ("/api/v1/queues", "/api/v1/events", "/teams"):
        assert desk.client.get(path, headers=user).status_code == 403
    assert "/teams" not in desk.client.get("/queue", headers=user).text
    assert "Scheduler" not in desk.client.get("/log", headers=user).text


def test_what_the_scheduler_did(desk: Desk) -> None:
    events = desk.get("events", params={"limit": 5})
    assert events["total"] > 5
    assert len(events["events"]) == 5
    starts = desk.get("events", params={"kind": "start", "job_id": "1"})["events"]
    assert [one["machines"] for one in starts] == ["rack0-m[0-1],rack1-m0"]
    text = desk.client.get("/log?of=scheduler").text
    assert "rack0-m[0-1],rack1-m0" in text
    assert "No actions on jobs or machines yet" in desk.client.get("/log").text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_at_three_widths(browser: Browser, open_desk: tuple[Desk, str], scheme: str) -> None:
    """Nothing sticks out at the side, nothing keeps people out; pictures of it are left to look at."""
    visitor = Visitor(browser, open_desk[1], 1440, scheme)
    visitor.expected = ("404",)  # of the page that is not there
    for path in PAGES:
        visitor.live(path)
        visitor.until(lambda: visitor.count("gpus") == "32")
        for width in (1440, 1280, 390):
            visitor.page.set_viewport_size({"width": width, "height": 860})
            visitor.page.wait_for_timeout(150)
            assert visitor.fits(), (path, width)
            assert visitor.grave() == [], (path, width)
            visitor.shoot(f"page{re.sub('[^a-z0-9]+', '-', path)}-{width}-{scheme}")
        visitor.page.set_viewport_size({"width": 1440, "height": 860})
    visitor.leave()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/login", "/docs"])
def test_pages_without_a_cluster(browser: Browser, open_desk: tuple[Desk, str], path: str, scheme: str) -> None:
    """As those above."""
    visitor = Visitor(browser, open_desk[1], 1440, scheme)
    visitor.go(path)
    for width in (1440, 1280, 390):
        visitor.page.set_viewport_size({"width": width, "height": 860})
        assert visitor.fits(), width
        assert (width > 390 and path == "/docs") or visitor.grave() == [], "the reference is long: once is enough"
        visitor.shoot(f"page{path.replace('/', '-')}-{width}-{scheme}")
    visitor.leave()


def test_figures_on_pages_are_those_of_the_api(visitor: Visitor, desk: Desk) -> None:
    page = visitor.live("/queue?tab=running")
    visitor.until(lambda: visitor.count("gpus") == "32")
    status, jobs = desk.get("status"), desk.get("jobs")["jobs"]
    running = [job for job in jobs if job["state"] == "running"]
    counts = [int(visitor.count(name)) for name in ("busy", "gpus", "running", "waiting", "held")]
    waiting = [job for job in jobs if job["state"] == "waiting"]
    assert counts == [status["gpus"] - status["free_gpus"], status["gpus"], len(running), len(waiting), 0]
    for job, row in zip(running, page.locator("table.jobs tbody tr").all(), strict=True):
        text = row.inner_text()
        assert str(job["gpus"]) in text
        assert f"{job['slowdown']:.2f}" in text
    page = visitor.live("/teams")
    for team in desk.get("queues")["queues"]:
        cells = page.locator(f"tr[data-queue='{team['path']}'] td").all_inner_texts()
        assert [cells[0], cells[1], cells[4]] == [
            f"{team['guarantee']:g}",
            str(team["held"]),
            str(team["waiting_gpus"]),
        ]
    page = visitor.live("/jobs/1")
    explained = desk.get("jobs/1/explanation")
    for value in explained["slowdowns"].values():
        assert f"{value:.2f}" in page.locator("main").inner_text()


def test_jobs_beside_the_map(visitor: Visitor, desk: Desk) -> None:
    """Both lists are those of the API; a row points at its job on the map, and a job there at its row."""
    page = visitor.live("/")
    rows = page.locator("[data-beside]")
    jobs = desk.get("jobs")["jobs"]
    shown = [job for job in jobs if job["state"] in ("running", "waiting")]
    visitor.until(lambda: rows.count() == len(shown))
    for job in shown:
        text = page.locator(f"[data-beside='{job['job_id']}']").inner_text()
        assert str(job["gpus"]) in text
        assert job["state"] == "waiting" or f"{job['slowdown']:.2f}×" in text
    [runs] = [job["job_id"] for job in shown if job["state"] == "running"]
    page.locator(f"[data-beside='{runs}'] a").hover()
    visitor.until(lambda: page.evaluate("(window.dally.map.marked() || []).map((job) => job.id)") == [runs])
    box = page.locator(".map-top").bounding_box()
    assert box is not None
    gpu = page.evaluate(
        "() => { const { view, layout } = window.dally.map, at = layout.gpu(0, 0);"
        " return [view.px(at.x + 0.5), view.py(at.y + 0.5)]; }"
    )
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    visitor.until(lambda: page.locator("tr.pointed").count() == 0)
    page.mouse.move(box["x"] + gpu[0], box["y"] + gpu[1])
    visitor.until(lambda: page.locator("tr.pointed").get_attribute("data-beside") == runs)


def test_users_see_their_own_jobs_beside_the_map(desks: Callable[..., Desk]) -> None:
    desk = desks("fifo")
    desk.submit(8, user="ann", name="hers")
    desk.submit(8, user="bob", name="his")
    desk.cycle()
    desk.token("op", "operator")
    text = desk.client.get("/map/jobs", headers=desk.token("ann", "user", "ann")).text
    assert ("hers" in text, "his" in text) == (True, False)


def test_a_table_becomes_a_file(visitor: Visitor, desk: Desk) -> None:
    page = visitor.live("/queue?tab=running")
    with page.expect_download() as caught:
        page.get_by_role("button", name="These rows as CSV").click()
    rows = list(csv.DictReader(io.StringIO(Path(caught.value.path()).read_text())))
    running = [job for job in desk.get("jobs")["jobs"] if job["state"] == "running"]
    assert [row["GPUs"] for row in rows] == [str(job["gpus"]) for job in running]
    assert rows[0]["User"] == running[0]["user"]


def test_three_questions_to_begin_with(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dally.web.routes.outlook.USUAL_EFFORT", replace(USUAL_EFFORT, cpu_s=2.0))
    page = visitor.live("/whatif")
    page.get_by_role("button", name="Would jobs wait less under dally?").click()
    give_up = time.monotonic() + 120.0
    while page.locator("article[data-done]").count() == 0 and time.monotonic() < give_up:
        page.wait_for_timeout(100)
    assert "dally" in page.locator("article[data-done]").inner_text()


def test_an_alert_is_on_the_page_while_it_fires(
    visitor: Visitor, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = desk.app.state.site
    monkeypatch.setattr(site.alerts, "_wall_s", lambda: desk.service.daemon.status.wall_s + 3600.0)
    site.alerts.firing()
    monkeypatch.setattr(site.alerts, "_wall_s", lambda: desk.service.daemon.status.wall_s + 7200.0)
    page = visitor.go("/queue")
    assert "No cycle came about lately" in page.get_by_role("alert").first.inner_text()
    assert [one["name"] for one in desk.get("alerts")["alerts"]] == ["DallyCycleLate"]
