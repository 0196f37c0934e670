"""A simulated day in a browser: played, paused, scrubbed, stepped, and true at every moment."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest

from dally.runs.folder import FolderRecord
from tests.web.replay.conftest import DAY_S, Read
from tests.web.replay.test_replay_status import walked

GPUS_BY_JOB = """() => {
  const { seats, jobs } = dally.map.occupancy, found = {};
  for (const slot of seats) if (slot >= 0) found[jobs[slot].id] = (found[jobs[slot].id] ?? 0) + 1;
  return found;
}"""
HOURS = (9.5, 14.25, 24.0)


def told(day: FolderRecord, at_s: float) -> dict[str, int]:
    """What the page is to count at a moment."""
    log = walked(day, at_s)
    held = sum(sum(placement.values()) for placement in log.placements.values())
    return {"busy": held, "gpus": 64, "running": len(log.placements), "waiting": len(log.waiting), "held": 0}


def test_plays_pauses_and_keeps_up(read: Read, day: FolderRecord) -> None:
    reader = read("/?at=3600")
    page = reader.page
    page.locator("#speed").select_option("86400")
    page.locator("#play").click()
    reader.holds("dally.replay.at_s >= 7200")
    page.locator("#speed").select_option("3600")
    page.keyboard.press("Escape")
    page.locator("main").focus()
    began = reader.state()
    page.wait_for_timeout(1000)
    played = reader.state()
    speed = (played["at_s"] - began["at_s"]) / (played["now_s"] - began["now_s"])
    assert 1000 < played["at_s"] - began["at_s"] < 15_000, "an hour a second, however slow the machine is"
    assert speed < 1.2 * 3600
    assert played["asked"] > began["asked"] + 1
    page.keyboard.press("Space")
    reader.settled()
    stopped = reader.state()
    assert not stopped["playing"]
    page.wait_for_timeout(600)
    assert reader.state()["at_s"] == stopped["at_s"]
    assert reader.counts() == told(day, stopped["at_s"])
    assert parse_qs(urlsplit(page.url).query)["at"] == [f"{stopped['at_s']:.3f}".rstrip("0").rstrip(".")]
    assert page.locator("#replay-clock").inner_text().startswith("day 0, ")
    assert max(reader.at_once) <= 2, "the map's own question when it opens, and one of the bar's"


def test_scrubs_to_any_moment(read: Read, day: FolderRecord) -> None:
    reader = read("/queue?at=0")
    for hour in HOURS:
        reader.page.locator("#scrub").fill(str(hour * 3600.0))
        reader.settled()
        at_s = reader.state()["at_s"]
        assert at_s == hour * 3600.0
        expected = told(day, at_s)
        assert reader.counts() == expected
        reader.holds(f"document.querySelector('.tabs b').textContent === '{expected['waiting']}'")
        names = reader.page.locator("table.jobs tbody th a")
        waiting = sorted(walked(day, at_s).waiting)
        reader.until(lambda: sorted(names.all_inner_texts()) == waiting)  # noqa: B023
    assert reader.page.locator("#scrub").get_attribute("aria-valuetext") == "day 1, 00:00"


def test_the_map_is_true_at_any_moment(read: Read, day: FolderRecord) -> None:
    reader = read("/?at=0")
    reader.holds("dally.map?.occupancy")
    for hour in HOURS:
        reader.page.evaluate("at => dally.replay.seek(at)", hour * 3600.0)
        reader.holds(f"dally.replay.shown_s === {hour * 3600.0}")
        log = walked(day, hour * 3600.0)
        held = {name: sum(placement.values()) for name, placement in log.placements.items()}
        assert reader.page.evaluate(GPUS_BY_JOB) == held
        assert reader.page.evaluate("dally.map.occupancy.tally(0, 8).down") == len(log.down)


def test_steps_from_event_to_event(read: Read, day: FolderRecord) -> None:
    kinds = ("submit", "start", "preempt", "evict", "migrate", "finish")
    events = day.events.filter(day.events["kind"].is_in(kinds))
    times = events["time_s"].unique().sort().to_list()
    after = next(time_s for time_s in times if time_s > 20_000.0)
    before = max(time_s for time_s in times if time_s < 20_000.0)
    reader = read("/queue?at=20000")
    reader.expected = ("503",)
    gone: list[bool] = []  # a route takes its time to hold: it is there from the beginning
    reader.page.route(
        "**/replay/near.json*", lambda route: route.fulfill(status=503) if gone else route.continue_()
    )
    reader.page.locator("[data-step=after]").click()
    reader.holds(f"dally.replay.at_s === {after} && dally.replay.settled")
    reader.page.locator("main").focus()
    reader.page.keyboard.press(",")
    reader.holds(f"dally.replay.at_s === {before} && dally.replay.settled")
    reader.page.locator("#scrub").focus()
    reader.page.keyboard.press("ArrowRight")
    reader.holds(f"Math.abs(dally.replay.at_s - {before + DAY_S / 200}) < 1")
    # an event of many digits is passed in either direction
    place = next(at for at, time_s in enumerate(times) if round(time_s, 3) != time_s)
    reader.seek(times[place - 1])
    for key, at in ((".", place), (".", place + 1), (",", place), (",", place - 1)):
        reader.page.keyboard.press(key)
        reader.holds(f"dally.replay.at_s === {times[at]} && dally.replay.settled")
    gone.append(True)
    reader.page.keyboard.press(".")
    reader.until(lambda: reader.page.get_by_text("is dally view still running?").count() == 1)


def test_a_pinned_card_can_be_used_while_it_plays(read: Read, day: FolderRecord) -> None:
    job = max(day.jobs.iter_rows(named=True), key=lambda row: row["run_s"])
    reader = read(f"/jobs/{job['job_id']}?at={job['start_s'] + 1.0}")
    reader.page.get_by_role("link", name="Show it on the map").click()
    card = reader.page.locator(".map-card")
    card.get_by_role("link", name=job["job_id"]).wait_for()
    card.get_by_role("button", name="Unpin").focus()
    before = card.inner_text()
    reader.seek(job["start_s"] + 61.0)
    reader.until(lambda: card.inner_text() != before)
    assert reader.page.evaluate("document.activeElement.textContent") == "Unpin"
    reader.seek(job["submit_s"] - 1.0)
    assert reader.page.evaluate("dally.map.marked()") is None  # nothing is dimmed for a job that is not there
    assert card.is_hidden()
    reader.seek(job["start_s"] + 1.0)
    assert card.is_visible()


def test_the_moment_goes_along_from_page_to_page(read: Read, day: FolderRecord) -> None:
    job = max(day.jobs.iter_rows(named=True), key=lambda row: row["run_s"])
    started_s = job["start_s"] + 1.0
    reader = read("/queue?tab=running&at=0")
    reader.seek(started_s)
    reader.page.locator(f"table.jobs a:text-is('{job['job_id']}')").click()
    reader.settled()
    assert reader.state()["at_s"] == started_s
    story = reader.page.locator("#job").inner_text()
    assert "started on" in story
    assert "finished" not in story, "what is to come is not told"
    reader.seek(job["submit_s"] - 1.0)
    reader.holds("document.querySelector('#job').textContent.includes('not there yet')")
    reader.page.locator("nav a:text-is('Map')").click()
    reader.settled()
    assert reader.state()["at_s"] == job["submit_s"] - 1.0


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", ["", "queue", "jobs", "trends"])
def test_everybody_can_read_it(read: Read, day: FolderRecord, page: str, scheme: str) -> None:
    longest = max(day.jobs.iter_rows(named=True), key=lambda row: row["run_s"])
    path = f"/jobs/{longest['job_id']}" if page == "jobs" else f"/{page}"
    reader = read(f"{path}?at=60000", scheme=scheme)
    for width in (1440, 1280, 390):
        reader.page.set_viewport_size({"width": width, "height": 860})
        reader.page.wait_for_timeout(150)
        assert reader.fits(), width
        assert width == 1280 or reader.grave() == [], width
        reader.shoot(f"replay-{page}-{width}-{scheme}")


def test_trends_of_the_run_and_where_it_is(read: Read) -> None:
    reader = read("/trends?at=43200")
    reader.holds("dally.trends && dally.trends.points > 100")
    assert reader.page.get_by_text("CPU time of a cycle").count() == 0  # nobody measured that
    before = reader.page.locator("[data-topic=gpus] [data-words]").inner_text()
    reader.seek(3600.0)
    reader.holds(f"document.querySelector('[data-topic=gpus] [data-words]').textContent !== {before!r}")
    reader.page.get_by_role("link", name="Hour", exact=True).click()
    reader.holds("document.querySelector('.spans [aria-current]').textContent === 'Hour'")
    reader.shoot("replay-trends")
