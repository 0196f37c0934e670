"""Pages that are left open, in a real browser: what is shown stays true, and where the reader is stays his."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dally.web.auth import token_cache
from dally.web.auth.tokens import remove_token
from dally.web.dashboard.event_streams import event
from tests.web.conftest import Desk, opened
from tests.web.visiting import Visitor

REFRESH = "document.body.dispatchEvent(new CustomEvent('dally:queue'))"
ANEW = """() => new Promise((came) => {
  document.addEventListener("htmx:afterOnLoad", () => came(), { once: true });
  htmx.trigger("#job", "touched");
})"""


@pytest.fixture
def open_desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Desk, str]]:
    """A full cluster on which two jobs wait, and where it answers."""
    desk = Desk(tmp_path_factory.mktemp("pages") / "service", "fifo", network="slow")
    for gpus, user in ((32, "ann"), (16, "bob"), (4, "ann")):
        desk.submit(gpus, 86400.0, user=user, name=f"of-{user}", model="vgg16")
    desk.cycle()
    with opened(desk) as both:
        yield both


@pytest.fixture
def desk(open_desk: tuple[Desk, str]) -> Desk:
    return open_desk[0]


def test_back_filters_and_focus(desk: Desk, visitor: Visitor) -> None:
    page = visitor.live("/queue")
    rows = page.locator("table.jobs tbody tr")
    page.get_by_label("Search").fill("bob")
    visitor.until(lambda: "q=bob" in page.url and rows.count() == 1)
    page.go_back()
    visitor.until(lambda: rows.count() == 2 and page.get_by_role("navigation", name="Pages").count() == 1)
    assert page.get_by_label("Search").input_value() == ""

    visitor.live("/queue?tab=running&user=carol")  # who has no job
    with page.expect_response("**/queue?*user=carol*"):
        page.evaluate(REFRESH)

    visitor.live("/queue")
    for link in ("tab-held", "job-2"):
        page.locator(f"#{link}").evaluate("(link) => { link.focus(); link.dataset.old = 'yes'; }")
        page.evaluate(REFRESH)
        visitor.until(lambda link=link: page.locator(f"#{link}[data-old]").count() == 0)  # type: ignore[misc]
        assert page.evaluate("document.activeElement.id") == link
    desk.client.delete("/api/v1/jobs/2")
    desk.cycle()
    visitor.until(lambda: page.locator("#job-2").count() == 0)
    visitor.until(lambda: page.evaluate("document.activeElement.id") == "main")


def test_a_press_is_not_lost_to_what_comes_meanwhile(visitor: Visitor) -> None:
    page = visitor.live("/jobs/2")
    old = page.locator("#act-hold[data-old]")
    page.locator("#act-hold").evaluate("(button) => { button.dataset.old = 'yes'; }")
    page.locator("#act-hold").hover()
    page.mouse.down()
    page.evaluate(ANEW)
    assert old.count() == 1
    page.mouse.up()
    page.get_by_role("dialog", name="Hold job 2").wait_for()
    visitor.until(lambda: old.count() == 0)


def test_what_failed_or_was_missed_is_caught_up(desk: Desk, visitor: Visitor) -> None:
    page = visitor.live("/queue")
    visitor.expected = ("503",)
    page.route("**/queue?*", lambda route: route.fulfill(status=503), times=1)
    desk.submit(32, name="asked-for-again")
    desk.cycle()
    visitor.until(lambda: page.get_by_role("link", name="asked-for-again").count() == 1)

    channels: dict[Any, Any] = desk.app.state.streams._channels
    sight = "(hidden) => { Object.defineProperty(document, 'hidden', { configurable: true, get: () => hidden });"
    sight += " document.dispatchEvent(new Event('visibilitychange')); }"
    page.evaluate(sight, True)
    visitor.until(lambda: not channels)
    desk.submit(32, name="out-of-sight")
    desk.cycle()
    page.evaluate(sight, False)
    visitor.until(lambda: page.get_by_role("link", name="out-of-sight").count() == 1)
    assert page.evaluate("dally.link") == "live"

    with page.expect_request("**/events"):  # nothing was heard for an hour
        page.evaluate("() => { const now = Date.now; Date.now = () => now() + 3600000; }")
    visitor.until(lambda: page.evaluate("dally.link") == "live")


def test_slowdowns_are_news_to_the_list_of_those_who_run(desk: Desk, visitor: Visitor) -> None:
    page = visitor.live("/queue?tab=running")
    cycle = page.evaluate("dally.cycle")
    told = {
        "cycle": cycle + 1,
        "after": cycle,
        "counts": {},
        "queue": False,
        "touched": [],
        "jobs": {"1": {}},
        "wall_s": 1,
    }
    streams = desk.app.state.streams
    [channel] = streams._channels.values()
    with page.expect_response("**/queue?*tab=running*"):
        streams._loop.call_soon_threadsafe(channel.send, event("cycle", told))


def test_who_is_not_known_any_more_signs_in(desk: Desk, visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_cache, "FRESH_S", 0.0)
    desk.token("other", "operator")
    token = desk.token("op", "operator")["Authorization"].removeprefix("Bearer ")
    page = visitor.page
    visitor.context.add_cookies([{"name": "dally_token", "value": token, "url": visitor.url}])
    visitor.live("/trends?span=hour")
    visitor.expected = ("401", "MIME")
    remove_token(desk.service.store, "op")
    desk.submit(1)
    desk.cycle()
    page.wait_for_url("**/login?next=*")
    assert page.locator("[name=next]").input_value() == "/trends?span=hour"
