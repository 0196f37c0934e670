"""Trends and what-ifs in a real browser, over a cluster in memory whose clock the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from dally.live.forecast.whatif.runner import Runner
from tests.web.conftest import Desk, opened
from tests.web.test_whatif import Endless
from tests.web.visiting import Visitor

if TYPE_CHECKING:
    from playwright.sync_api import APIResponse, Browser, Route

MINUTES = 90
POINTS = MINUTES + 1


@pytest.fixture(scope="module")
def open_desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Desk, str]]:
    """One and a half hours of a busy cluster, and where it answers."""
    desk = Desk(tmp_path_factory.mktemp("trends") / "service", "fifo", network="slow")
    desk.service.whatifs.make_runner = Runner
    for gpus, user in ((24, "ann"), (8, "bob"), (16, "bob"), (4, "ann")):
        desk.submit(gpus, 86400.0, user=user, name=f"of-{user}", model="vgg16")
    for _ in range(MINUTES):
        desk.cycle(60.0)
    with opened(desk) as both:
        yield both


@pytest.fixture
def desk(open_desk: tuple[Desk, str]) -> Desk:
    return open_desk[0]


@pytest.mark.parametrize(("device", "width", "scheme"), [("desktop", 1360, "light"), ("phone", 390, "dark")])
def test_pages_fit_and_keep_nobody_out(
    browser: Browser, open_desk: tuple[Desk, str], device: str, width: int, scheme: str
) -> None:
    visitor = Visitor(browser, open_desk[1], width, scheme)
    for name in ("trends", "whatif"):
        visitor.live(f"/{name}")
        visitor.until(lambda: visitor.count("gpus") == "32")
        visitor.page.wait_for_timeout(300)
        assert visitor.fits(), name
        assert visitor.grave() == [], name
        visitor.shoot(f"dashboard-{name}-{device}")
    visitor.leave()


def test_trends_are_drawn_told_and_listed(visitor: Visitor, desk: Desk) -> None:
    page = visitor.live("/trends")
    visitor.until(lambda: page.evaluate("dally.trends?.points") == POINTS)
    assert page.locator(".u-over").count() == 7  # no job delays for a closer place under fifo
    gpus = page.locator("[data-topic=gpus]")
    assert "32 of 32 GPUs in service are used" in gpus.inner_text()
    assert "used32" in gpus.locator(".u-legend").inner_text()
    gpus.get_by_text("As a table").click()
    visitor.until(lambda: gpus.locator(".tablebox tbody tr").count() == POINTS)
    page.get_by_role("link", name="Hour").click()
    visitor.until(lambda: page.evaluate("dally.trends.points") == 61)
    assert "span=hour" in page.url
    assert page.locator(".spans [aria-current]").inner_text() == "Hour"
    job_id = desk.submit(2, 600.0)
    desk.cycle(1.0)
    visitor.until(lambda: "3 jobs wait" in page.locator("[data-topic=waiting_jobs]").inner_text())
    desk.client.delete(f"/api/v1/jobs/{job_id}")
    desk.cycle(1.0)
    page.get_by_role("button", name="Switch between light and dark").click()
    page.get_by_role("link", name="Month").click()
    visitor.until(lambda: page.evaluate("dally.trends.points") == POINTS)


def test_who_looks_closer_goes_on_doing_so(visitor: Visitor) -> None:
    page = visitor.page
    page.clock.install()
    visitor.live("/trends?span=hour")
    points = "dally.trends?.points"
    visitor.until(lambda: page.evaluate(points))
    of_an_hour = page.evaluate(points)
    assert of_an_hour < POINTS
    seen = """() => dally.trends.charts.get("gpus").chart.series.map((line) => line.show)"""
    ends = """() => { const { min, max } = dally.trends.charts.get("gpus").chart.scales.x; return [min, max]; }"""
    gpus, whole = page.locator("[data-topic=gpus]"), page.evaluate(ends)
    gpus.locator(".u-legend th").nth(1).click()
    over = gpus.locator(".u-over").bounding_box()
    assert over is not None
    page.mouse.move(over["x"] + 0.3 * over["width"], over["y"] + 50)
    page.mouse.down()
    page.mouse.move(over["x"] + 0.6 * over["width"], over["y"] + 60)
    page.mouse.up()
    shown, closer = page.evaluate(seen), page.evaluate(ends)
    assert shown[:3] == [True, False, True]
    assert whole[0] < closer[0] < closer[1] < whole[1]
    page.evaluate("document.body.addEventListener('dally:trends', () => { window.anew = true; })")
    page.evaluate("document.body.dispatchEvent(new CustomEvent('dally:reset'))")
    visitor.until(lambda: page.evaluate("window.anew"))
    assert (page.evaluate(seen), page.evaluate(ends)) == (shown, closer)
    with page.expect_request("**/trends/now.json*"):
        page.clock.fast_forward(61_000)  # though nothing happens
    kept: list[tuple[Route, APIResponse]] = []  # an answer that comes late
    page.route("**/series.json?span=week", lambda route: kept.append((route, route.fetch())), times=1)
    page.get_by_role("link", name="Week").click()
    visitor.until(lambda: kept)
    page.get_by_role("link", name="Hour").click()
    page.wait_for_timeout(300)
    route, answer = kept[0]
    route.fulfill(response=answer)
    page.wait_for_timeout(300)
    assert page.evaluate(points) == of_an_hour
    page.get_by_role("link", name="Month").click()
    visitor.until(lambda: page.evaluate(points) > of_an_hour)
    assert page.evaluate(seen) == shown
    assert page.evaluate(ends)[0] < whole[0]


def test_a_what_if_is_asked_and_answered(visitor: Visitor, desk: Desk) -> None:
    page = visitor.live("/whatif")
    answer = page.locator("#answer")
    page.get_by_label("Machines").fill("two racks")
    page.get_by_role("button", name="Simulate").click()
    visitor.until(lambda: "Machines 'two racks': must be like '+2 racks'" in answer.inner_text())
    page.get_by_label("Machines").fill("+1 rack")
    page.locator("[name=futures]").fill("2")
    page.locator("select[name=policy]").select_option("fifo-backfill")
    page.get_by_role("button", name="Simulate").click()
    visitor.until(lambda: answer.locator("[data-done]").count() == 1)
    headline = answer.locator(".headline").inner_text()
    assert headline.startswith("fifo-backfill, +1 rack instead of fifo: jobs that wait now wait ")
    assert " less on average " in headline
    assert answer.get_by_role("row", name="Mean JCT").count() == 1
    page.locator("#settings").evaluate("(place) => place.replaceChildren()")
    page.get_by_text("Available settings").click()
    visitor.until(lambda: "tier=any" in page.locator("#settings").inner_text())
    assert answer.locator(".headline").count() == 1
    answer.get_by_role("link", name="of-bob").first.click()
    page.get_by_role("heading", name="History").wait_for()
    page.go_back()
    visitor.until(lambda: answer.locator(".headline").count() == 1)  # it is still known


def test_a_what_if_can_be_cancelled(visitor: Visitor, desk: Desk) -> None:
    desk.service.whatifs.make_runner = Endless
    page = visitor.live("/whatif")
    page.get_by_role("button", name="Simulate").click()
    page.get_by_role("button", name="Cancel").click()
    visitor.until(lambda: "cancelled" in page.locator("#answer").inner_text())
    desk.service.whatifs.wait()
    desk.service.whatifs.make_runner = Runner


def test_without_scripts_a_what_if_is_a_form(desk: Desk) -> None:
    wrong = desk.client.post(
        "/whatif", data={"policy": "fifo", "settings": "tier"}, headers={"accept": "text/html"}
    )
    assert (wrong.status_code, "Settings tier: must be KEY=VALUE" in wrong.text) == (422, True)
    begun = desk.client.post("/whatif", data={"cluster_delta": "+1 rack", "futures": "1"})
    assert begun.status_code == 303
    desk.service.whatifs.wait()
    assert "fifo, +1 rack instead of fifo" in desk.client.get(begun.headers["location"]).text
    assert "tier=" in desk.client.get("/whatif/settings?policy=fifo").text
    assert desk.client.get("/whatif/nobody").status_code == 404


def test_any_number_of_hours_or_days(desk: Desk) -> None:
    for span, seconds in (("36h", 129600.0), ("10d", 864000.0), ("week", 604800.0)):
        assert desk.client.get(f"/trends/series.json?span={span}").json()["span_s"] == seconds
    for nonsense in ("0h", "1000d", "36", "9999999999h", "-1h", "٣h"):
        assert desk.client.get("/trends/series.json", params={"span": nonsense}).json()["span_s"] == 86400.0
    assert 'value="36h"' in desk.client.get("/trends?span=36h").text
