"""Dialogs of actions keep what was typed, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.web.conftest import Desk, answering
from tests.web.visiting import Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture
def visitor(browser: Browser, desk: Desk) -> Iterator[Visitor]:
    with answering(desk) as url:
        found = Visitor(browser, url)
        yield found
        found.leave()


def test_a_dialog_is_not_lost_by_chance(visitor: Visitor) -> None:
    page = visitor.live("/log")
    page.get_by_role("button", name="Set a timer…").click()
    dialog = page.get_by_role("dialog")
    page.get_by_label("Gangs of this many GPUs").fill("8")
    page.get_by_label("minutes", exact=True).fill("45")
    assert page.get_by_role("radio", name="delays for").is_checked()
    why = page.get_by_label("Why")
    why.fill("a long reason")
    box, field = dialog.bounding_box(), why.bounding_box()
    assert box is not None
    assert field is not None
    page.mouse.click(box["x"] + 4, box["y"] + 4)  # its padding
    page.mouse.move(field["x"] + 20, field["y"] + field["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] - 60, box["y"] + 4)  # marking words, and letting go outside
    page.mouse.up()
    assert dialog.is_visible()
    visitor.expected = ("ERR_CONNECTION_REFUSED", "htmx:")
    page.route("**/act/**", lambda route: route.abort("connectionrefused"))
    for _ in range(2):
        dialog.get_by_role("button").last.click()
        visitor.until(lambda: "The server does not answer" in dialog.get_by_role("alert").inner_text())
    assert why.input_value() == "a long reason"
    page.mouse.click(box["x"] - 60, box["y"] + 4)
    visitor.until(lambda: dialog.count() == 0)
    page.get_by_role("button", name="Set a timer…").click()
    visitor.until(lambda: page.locator("#said").inner_text().startswith("The server does not answer"))


def test_a_button_works_from_the_moment_that_it_is_seen(visitor: Visitor, desk: Desk) -> None:
    """A page that fetches itself anew has new buttons; a click right after or just before that opens the dialog."""
    job_id = desk.submit(8)
    desk.cycle()
    page = visitor.live(f"/jobs/{job_id}")
    page.evaluate("""() => {
      const press = () => document.getElementById("act-cancel").click();
      const pressed = ({ target }) => { if (target.id === "job") setTimeout(press); };
      addEventListener("htmx:afterSwap", pressed, { once: true });
      htmx.trigger("#job", "touched");
    }""")
    page.get_by_role("dialog").get_by_label("Why").fill("at once")
    page.keyboard.press("Escape")
    visitor.until(lambda: page.get_by_role("dialog").count() == 0)
    page.evaluate("() => { document.getElementById('act-cancel').click(); htmx.trigger('#job', 'touched'); }")
    page.get_by_role("dialog").get_by_label("Why").fill("just before")
