"""What a what-if gives to who called it from Python."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dally.api.comparison_result import ComparisonResult
from dally.api.result_folder import ResultFolder
from dally.api.run_result import written
from dally.report.text_table import TextTable
from dally.report.whatif_text import whatif_parts
from dally.sweep.store import frame_of
from dally.sweep.whatif.answer import Replay
from dally.sweep.whatif.verdict import USE

if TYPE_CHECKING:
    import polars as pl


class WhatIfResult:
    """Two sides of the same jobs: `users`, `sizes`, `losing_jobs`… as polars frames; all of it in `summary`."""

    def __init__(self, replay: Replay, top: int, comparison: ComparisonResult, results: ResultFolder) -> None:
        self._replay = replay
        self._results = results
        self._comparison = comparison
        self._top = top

    @property
    def summary(self) -> dict[str, Any]:
        """All of whatif.json, by name."""
        return self._replay.values

    @property
    def comparison(self) -> ComparisonResult:
        """The same runs, policy against policy."""
        return self._comparison

    @property
    def verdict(self) -> str:
        """Whether the figures can be used, by how well the replay of the policy in use fits the record."""
        return str(self.summary["verdict"]["text"])

    @property
    def usable(self) -> bool:
        """Whether the replay fits well enough for figures to be quoted."""
        return bool(self.summary["verdict"]["level"] == USE)

    @property
    def answer(self) -> str:
        """The answer in a sentence."""
        return str(self.summary["answer"])

    @property
    def users(self) -> pl.DataFrame:
        """A row per user: GPU-hours and waits on both sides, jobs that are better and worse off."""
        return _frame(self.summary.get("users", []))

    @property
    def sizes(self) -> pl.DataFrame:
        """The same by the number of GPUs of the job."""
        return _frame(self.summary.get("sizes", []))

    @property
    def queues(self) -> pl.DataFrame:
        """The same by queue; no rows where neither side has queues."""
        return _frame(self.summary.get("queues", []))

    @property
    def accounts(self) -> pl.DataFrame:
        """The same by account; no rows where the trace names none."""
        return _frame(self.summary.get("accounts", []))

    @property
    def partitions(self) -> pl.DataFrame:
        """The same by partition."""
        return _frame(self.summary.get("partitions", []))

    @property
    def losing_jobs(self) -> pl.DataFrame:
        """Jobs that take more than 5 % and one minute longer, with `lost_s`; most first."""
        return frame_of(self.summary["losing_jobs"])

    def report(self, path: str | Path | None = None) -> str:
        """The text of report.html: verdict, who gains, who loses; with a path it is also written there."""
        from dally.report.html.whatif_page import whatif_page

        page = whatif_page(self._results.folder, self.summary, self.comparison.rows.to_dicts())
        return written(page.to_html(), path)

    def __str__(self) -> str:
        return "\n".join(part if isinstance(part, str) else part.aligned() for part in self._parts())

    def __repr__(self) -> str:
        return f"<WhatIfResult: {self.answer} {self.verdict} Print it>"

    def _repr_html_(self) -> str:
        pieces = [part for part in self._parts() if part]
        return "".join(f"<p>{escape(part)}</p>" if isinstance(part, str) else part.html() for part in pieces)

    def _parts(self) -> Iterator[str | TextTable]:
        return whatif_parts(self.summary, self._replay.top_users, self._top)


def _frame(groups: list[dict[str, Any]]) -> pl.DataFrame:
    """A row per group, `current_…` beside `new_…`."""
    rows = []
    for group in groups:
        plain = {name: value for name, value in group.items() if name not in ("ranges", "current", "new")}
        both = {f"{side}_{name}": value for side in ("current", "new") for name, value in group[side].items()}
        rows.append({**plain, **both})
    return frame_of(rows)
