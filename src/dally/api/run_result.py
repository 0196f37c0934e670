"""What one run gives to who called it from Python."""

from __future__ import annotations

from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dally.api.job_history import JobHistory
from dally.api.result_folder import ResultFolder
from dally.metrics.record import Inputs, Record
from dally.report.run_summary import summary_table
from dally.report.time_text import span
from dally.whole_file import write_whole

if TYPE_CHECKING:
    import polars as pl

    from dally.report.explanation.job_timeline import Explainer
    from dally.report.figures import Look


class RunResult:
    """One run: its summary, its tables as polars frames, and the history of every job."""

    def __init__(self, record: Record, results: ResultFolder | None = None) -> None:
        self._record = record
        self._results = results  # files that the run was made from last as long as this

    @property
    def summary(self) -> dict[str, Any]:
        """The figures of summary.json, by name."""
        return self._record.summary

    @property
    def scenario(self) -> Inputs:
        """What was run; its `to_toml()` is the text that repeats the run."""
        return self._record.scenario

    @property
    def jobs(self) -> pl.DataFrame:
        """jobs.csv: a row per job."""
        return self._record.jobs

    @property
    def events(self) -> pl.DataFrame:
        """events.parquet: a row per event, those of machines and links included."""
        return self._record.all_events

    @property
    def decisions(self) -> pl.DataFrame:
        """decisions.parquet: the policy's reasons."""
        return self._record.decisions

    @property
    def slots(self) -> pl.DataFrame:
        """slots.parquet: samples of what could start."""
        return self._record.slots

    def explain(self, job: str | int, until_s: float = float("inf")) -> JobHistory:
        """The history of a job up to an instant: why it waited, where it ran, why it was preempted."""
        explainer, job_id = self._explainer, str(job)
        entries = explainer.history(job_id, until_s)
        slowdowns = zip(explainer.tiers, explainer.slowdowns(explainer.job(job_id)), strict=False)
        when = [explainer.stamp(entry.time_s) for entry in entries]
        return JobHistory(job_id, entries, when, {tier: value for tier, value in slowdowns if value > 0.0})

    def report(self, path: str | Path | None = None) -> str:
        """The text of report.html; with a path it is also written there."""
        from dally.report.html.run_page import run_page

        return written(run_page(self._record).to_html(), path)

    def draw(self, folder: str | Path, look: Look | None = None) -> list[Path]:
        """Every chart of the report as files for papers, in a folder; the look says formats, size and font."""
        from dally.report.figures import write_figures
        from dally.report.html.run_page import run_page

        return write_figures(run_page(self._record).charts, Path(folder), look)

    def perfetto(self, path: str | Path) -> None:
        """Write the run as a trace that ui.perfetto.dev and chrome://tracing open; packed if it ends in .gz."""
        from dally.report.perfetto import write_perfetto

        write_perfetto(self._record, Path(path))

    @cached_property
    def _explainer(self) -> Explainer:
        from dally.report.explanation.job_timeline import Explainer

        return Explainer(self._record)

    def __str__(self) -> str:
        return summary_table(self.summary).aligned()

    def __repr__(self) -> str:
        summary = self.summary
        done = f"{summary['finished']:,} of {summary['jobs']:,} jobs finished"
        return f"<RunResult of {summary['policy']}: {done}, mean JCT {span(summary['jct_mean_s'])}; print it>"

    def _repr_html_(self) -> str:
        return f"<p><b>Run of {escape(self.summary['policy'])}</b></p>{summary_table(self.summary).html()}"


def written(page: str, path: str | Path | None) -> str:
    """The page; with a path it is also written there, whole or not at all."""
    if path is not None:
        write_whole(Path(path), page.encode())
    return page
