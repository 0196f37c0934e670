"""A visitor of the dashboard in a real browser, who complains about everything that is wrong with a page."""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ARTIFACTS = Path(__file__).parents[2] / "artifacts"
GRAVE = ("serious", "critical")


class Visitor:
    """One browser window on one server. `wrong` is what went wrong: errors, and requests to anybody else."""

    def __init__(self, browser: Browser, url: str, width: int = 1360, scheme: Any = "light") -> None:
        self.url = url
        self.wrong: list[str] = []
        self.context = browser.new_context(viewport={"width": width, "height": 860}, color_scheme=scheme)
        self.page: Page = self.context.new_page()
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda asked: None if self._ours(asked.url) else self.wrong.append(asked.url))
        self.expected: tuple[str, ...] = ()  # words of errors that are no fault, as of a server that is gone

    def _ours(self, address: str) -> bool:
        return address.startswith((self.url, "data:", "blob:"))

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning") and not any(word in message.text for word in self.expected):
            self.wrong.append(message.text)

    def go(self, path: str) -> Page:
        """Open a page of the server."""
        self.page.goto(self.url + path)
        return self.page

    def live(self, path: str) -> Page:
        """Open one and wait until cycles come in."""
        self.go(path)
        self.until(lambda: self.page.evaluate("window.dally?.link === 'live'"))
        return self.page

    def sign_in(self, token: str) -> None:
        """On the page that asks for a token."""
        self.page.get_by_label("Token").fill(token)
        with self.page.expect_response(lambda answer: answer.request.method == "POST"):
            self.page.get_by_role("button", name="Sign in").click()

    def until(self, holds: Callable[[], Any], within_s: float = 15.0) -> None:
        """Wait; Playwright's own way is an eval, which our pages do not allow."""
        give_up = time.monotonic() + within_s
        while not holds():
            if time.monotonic() > give_up:
                self.shoot("given-up")
                raise AssertionError(f"not within {within_s:g} s; {self.wrong}; {self.page.url}")
            self.page.wait_for_timeout(30)

    def act(self, opener: str, button: str) -> None:
        """Say why in the dialog that a button opens, and do it."""
        self.page.get_by_role("button", name=opener).click()
        dialog = self.page.get_by_role("dialog")
        dialog.get_by_label("Why").fill("asked for by phone")
        dialog.get_by_role("button", name=button).click()
        self.until(lambda: dialog.count() == 0)

    def count(self, name: str) -> str:
        """A figure at the top of the page."""
        return self.page.locator(f"[data-count={name}]").inner_text()

    def grave(self) -> list[str]:
        """What axe-core finds that keeps people out."""
        self.page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8"))
        found = self.page.evaluate("axe.run()")
        return [
            f"{one['id']}: {one['help']}: {', '.join(node['html'][:120] for node in one['nodes'][:3])}"
            for one in found["violations"]
            if one["impact"] in GRAVE
        ]

    def fits(self) -> bool:
        """Whether nothing sticks out at the side."""
        found: bool = self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        return found

    def shoot(self, name: str) -> None:
        """A picture to look at."""
        ARTIFACTS.mkdir(exist_ok=True)
        self.page.screenshot(path=str(ARTIFACTS / f"{name}.png"))

    def leave(self) -> None:
        """Close the window; nothing may have been wrong."""
        self.context.close()
        assert not self.wrong, self.wrong
