"""The story of one job, to print or to show in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from dally.report.explanation.history import Line

if TYPE_CHECKING:
    import polars as pl


class Story:
    """What happened to a job and why, in order: print it, or take its `table`."""

    def __init__(
        self, job_id: str, lines: Sequence[Line], when: Sequence[str], slowdowns: dict[str, float]
    ) -> None:
        self.job_id = job_id
        self._lines = list(lines)
        self._when = list(when)  # the lines' times in words
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
        return pl.DataFrame([(line.time_s, line.kind, line.text) for line in self._lines], kinds, orient="row")

    def __str__(self) -> str:
        told = [f"  {when}  {line.text}" for when, line in zip(self._when, self._lines, strict=True)]
        return "\n".join([f"Job {self.job_id}", *told, *(f"  {text}" for text in self._expected())])

    def __repr__(self) -> str:
        return f"<Story of {self.job_id}: {len(self._lines)} lines; print it>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><td style="text-align:left;white-space:nowrap">{escape(when)}</td>'
            f'<td style="text-align:left">{escape(line.text)}</td></tr>'
            for when, line in zip(self._when, self._lines, strict=True)
        )
        below = "".join(f"<p>{escape(text)}</p>" for text in self._expected())
        return f"<p><b>Job {escape(self.job_id)}</b></p><table>{rows}</table>{below}"

    def _expected(self) -> list[str]:
        shown = ", ".join(f"{tier} {value:.2f}" for tier, value in self._slowdowns.items())
        return [f"Slowdown to expect, alone: {shown}."] if shown else []
