"""The history of one job, to print or to show in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from dally.report.explanation.job_timeline import Entry

if TYPE_CHECKING:
    import polars as pl


class JobHistory:
    """What happened to a job and why, in order: print it, or take its `table`."""

    def __init__(
        self, job_id: str, entries: Sequence[Entry], when: Sequence[str], slowdowns: dict[str, float]
    ) -> None:
        self.job_id = job_id
        self._entries = list(entries)
        self._when = list(when)  # their times in words
        self._slowdowns = slowdowns

    @property
    def slowdowns(self) -> dict[str, float]:
        """How much slower it runs at each tier, alone; empty without a network."""
        return self._slowdowns

    @property
    def table(self) -> pl.DataFrame:
        """A row per thing that happened: `time_s`, `kind`, `text`."""
        import polars as pl

        kinds = {"time_s": pl.Float64, "kind": pl.String, "text": pl.String}
        return pl.DataFrame(
            [(entry.time_s, entry.kind, entry.text) for entry in self._entries], kinds, orient="row"
        )

    def __str__(self) -> str:
        lines = [f"  {when}  {entry.text}" for when, entry in zip(self._when, self._entries, strict=True)]
        return "\n".join([f"Job {self.job_id}", *lines, *(f"  {text}" for text in self._expected())])

    def __repr__(self) -> str:
        return f"<JobHistory of {self.job_id}: {len(self._entries)} entries; print it>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><td style="text-align:left;white-space:nowrap">{escape(when)}</td>'
            f'<td style="text-align:left">{escape(entry.text)}</td></tr>'
            for when, entry in zip(self._when, self._entries, strict=True)
        )
        below = "".join(f"<p>{escape(text)}</p>" for text in self._expected())
        return f"<p><b>Job {escape(self.job_id)}</b></p><table>{rows}</table>{below}"

    def _expected(self) -> list[str]:
        shown = ", ".join(f"{tier} {value:.2f}" for tier, value in self._slowdowns.items())
        return [f"Slowdown to expect, alone: {shown}."] if shown else []
