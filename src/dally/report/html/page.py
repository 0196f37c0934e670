"""One HTML file with everything inside: style, script, charts."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

from dally import __version__
from dally.report.html.charts import HEAT, Chart
from dally.report.html.headline import Headline

SCRIPTS = ("format.js", "charts.js", "table.js", "course.js", "gantt.js", "page.js")


class Page:
    """Sections and charts as they are added, then the whole text."""

    def __init__(self, title: str, facts: str) -> None:
        self.title = title
        self.facts = facts
        self.charts: list[Chart] = []
        self._body: list[str] = []
        self._links: list[str] = []
        self.part = ""  # the part of the page that is being added, where only one is shown at a time
        self._scripts: list[str] = []

    def add(self, html: str) -> None:
        """Add what is HTML already."""
        self._body.append(html)

    def section(self, anchor: str, title: str) -> None:
        """A heading, also in the list of contents."""
        part = f' data-part-of="cell" data-part="{escape(self.part)}"' if self.part else ""
        self._links.append(f'<a href="#{anchor}"{part}>{escape(title)}</a>')
        self.add(f'<h2 id="{anchor}">{escape(title)}</h2>')

    def headline(self, headline: Headline) -> None:
        """The sentence to remember, and why."""
        self.add(f'<p class="lead">{marked(headline.lead)}</p>')
        if headline.why:
            self.add(f'<p class="why">{marked(" ".join(headline.why))}</p>')

    def note(self, text: str) -> None:
        """A line of small print."""
        self.add(f'<p class="soft small">{marked(text)}</p>')

    def add_charts(self, charts: Sequence[Chart]) -> None:
        """Charts side by side; heat maps over the whole width."""
        self.add('<div class="charts">')
        for chart, wide in zip(charts, _widths(charts), strict=True):
            self.add(
                f'<figure class="chart{" wide" if wide else ""}" data-chart="{len(self.charts)}" '
                f'data-name="{escape(chart.name)}"><figcaption><h3>{escape(chart.title)}</h3>'
                f'<div class="note">{escape(chart.note)}</div></figcaption>'
                '<ul class="legend"></ul><div class="plot"></div></figure>'
            )
            self.charts.append(chart)
        self.add("</div>")

    def embed(self, name: str, value: Any) -> None:
        """A value for the script, as JSON, or a text as it is."""
        text = value if isinstance(value, str) else _json(value)
        kind = "text/plain" if isinstance(value, str) else "application/json"
        self._scripts.append(f'<script type="{kind}" id="{name}">{text}</script>')

    def to_html(self) -> str:
        """The whole file."""
        self.embed("chart-specs", [chart.to_page() for chart in self.charts])
        parts = {
            "TITLE": escape(self.title),
            "FACTS": escape(self.facts),
            "STYLE": asset("colours.css") + asset("page.css"),
            "LINKS": "".join(self._links),
            "BODY": "\n".join(self._body),
            "VERSION": escape(__version__),
            "VALUES": "\n".join(self._scripts),
            "SCRIPT": "\n".join(asset(name) for name in SCRIPTS),
        }
        pieces = asset("page.html").split("%%")
        return "".join(parts[piece] if place % 2 else piece for place, piece in enumerate(pieces))


def marked(text: str) -> str:
    """Text with what stands in backticks as code, and numbers that stay with their units."""
    together = re.sub(r"(?<=\d) (?=(%|s|min|h|d|times)\b|%)", "\u00a0", escape(text))
    pieces = together.split("`")
    return "".join(f"<code>{piece}</code>" if place % 2 else piece for place, piece in enumerate(pieces))


def _widths(charts: Sequence[Chart]) -> list[bool]:
    """Which charts take the whole width: heat maps, and what would stand alone before one or at the end."""
    wide = [chart.kind == HEAT for chart in charts]
    alone = False
    for place, chart in enumerate(charts):
        if chart.kind == HEAT and alone:
            wide[place - 1] = True
        alone = chart.kind != HEAT and not alone
    if alone and wide:
        wide[-1] = True
    return wide


def asset(name: str) -> str:
    """The text of one of the page's files."""
    return (files("dally") / "report" / "html" / "assets" / name).read_text(encoding="utf-8")


def _json(value: Any) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
