"""What a what-if gives to who called it from Python."""

from __future__ import annotations

from dataclasses import asdict
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dally.api.comparison_result import ComparisonResult
from dally.api.kept import Kept
from dally.api.run_result import written
from dally.metrics.before_after import Group
from dally.sweep.store import frame_of
from dally.sweep.whatif import Answer
from dally.sweep.whatif_tables import told
from dally.sweep.whatif_verdict import USE

if TYPE_CHECKING:
    import polars as pl


class WhatIfResult:
    """Two sides of the same jobs: `users`, `sizes`, `losing_jobs`… as polars frames; all of it in `summary`."""

    def __init__(
        self, found: Answer, summary: dict[str, Any], top: int, comparison: ComparisonResult, kept: Kept
    ) -> None:
        self._summary = summary
        self._kept = kept
        self._comparison = comparison
        self._found = found
        self._top = top

    @property
    def summary(self) -> dict[str, Any]:
        """All of whatif.json, by name."""
        return self._summary

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
        return _frame(self._found.users)

    @property
    def sizes(self) -> pl.DataFrame:
        """The same by the number of GPUs of the job."""
        return _frame(self._found.sizes)

    @property
    def queues(self) -> pl.DataFrame:
        """The same by queue; no rows where neither side has queues."""
        return _frame(self._found.queues)

    @property
    def accounts(self) -> pl.DataFrame:
        """The same by account; no rows where the trace names none."""
        return _frame(self._found.accounts)

    @property
    def partitions(self) -> pl.DataFrame:
        """The same by partition."""
        return _frame(self._found.partitions)

    @property
    def losing_jobs(self) -> pl.DataFrame:
        """Jobs that take more than 5 % and one minute longer, with `lost_s`; most first."""
        return frame_of(self._found.losing_jobs)

    def report(self, path: str | Path | None = None) -> str:
        """The text of report.html: verdict, who gains, who loses; with a path it is also written there."""
        from dally.report.html.whatif_page import whatif_page

        page = whatif_page(self._kept.folder, self.summary, self.comparison.rows.to_dicts())
        return written(page.to_html(), path)

    def __str__(self) -> str:
        parts = told(self._found, self.summary, self._top)
        return "\n".join(part if isinstance(part, str) else part.aligned() for part in parts)

    def __repr__(self) -> str:
        return f"<WhatIfResult: {self.answer} {self.verdict} Print it>"

    def _repr_html_(self) -> str:
        parts = told(self._found, self.summary, self._top)
        return "".join(f"<p>{escape(part)}</p>" if isinstance(part, str) else part.html() for part in parts if part)


def _frame(groups: list[Group]) -> pl.DataFrame:
    """A row per group, `current_…` beside `new_…`."""
    rows = []
    for group in groups:
        values = asdict(group)
        values.pop("ranges")
        sides = {side: values.pop(side) for side in ("current", "new")}
        both = {f"{side}_{name}": value for side, found in sides.items() for name, value in found.items()}
        rows.append({**values, "saved_gpu_h": group.saved_gpu_h(), **both})
    return frame_of(rows)
