"""`dally.simulate`, going on from where a run was saved, reading back what a run left; and what they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from dally.api.inputs import ClusterLike, PolicyLike, ScenarioFields, known, scenario_of, settings_of
from dally.api.result_folder import ResultFolder
from dally.metrics.record import Inputs, Record
from dally.report.explanation.job_timeline import TimelineEntry
from dally.report.run_summary import summary_table
from dally.report.time_text import span
from dally.runs.execute import execute
from dally.runs.folder import FolderRecord
from dally.runs.going_on import Keep, saved_scenario
from dally.sweep.batch import bar_of_run
from dally.whole_file import write_whole

if TYPE_CHECKING:
    import polars as pl

    from dally.api.inputs import TraceLike
    from dally.report.explanation.job_timeline import Explainer
    from dally.report.figures import Look


class JobHistory:
    """What happened to a job and why, in order: print it, or take its `table`."""

    def __init__(
        self, job_id: str, entries: Sequence[TimelineEntry], when: Sequence[str], slowdowns: dict[str, float]
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


def simulate(
    trace: TraceLike,
    cluster: ClusterLike,
    policy: PolicyLike = "dally",
    settings: Mapping[str, object] | None = None,
    *,
    out: str | Path | None = None,
    snapshot: str | Path | None = None,
    snapshot_at: float = 0.0,
    progress: bool = False,
    **fields: Unpack[ScenarioFields],
) -> RunResult:
    """The run of a trace on a cluster under a policy: what `dally simulate` does.

    `settings` are the policy's. With `out` the run is also left in that folder. With `snapshot` it is saved in that
    file when the clock passes `snapshot_at` seconds. `fields` are those of a scenario, see below.
    """
    results = ResultFolder(out)
    with known([(policy, settings_of("settings", settings))]) as choice, bar_of_run(progress) as show:
        scenario = scenario_of(results, trace, cluster, choice.policies[0], fields)
        stop = Keep(Path(snapshot), snapshot_at) if snapshot else None
        return RunResult(execute(scenario, show, results.out, stop), results)


def go_on(
    snapshot: str | Path,
    policy: PolicyLike | None = None,
    settings: Mapping[str, object] | None = None,
    *,
    until_s: float | None = None,
    out: str | Path | None = None,
    progress: bool = False,
) -> RunResult:
    """The run that was saved in that file, gone on with: under its own policy, or under another from there on."""
    results = ResultFolder(out)
    saved = saved_scenario(Path(snapshot))
    if until_s is not None:
        saved = replace(saved, until_s=until_s)
    chosen = [] if policy is None else [(policy, settings_of("settings", settings))]
    with known(chosen) as choice, bar_of_run(progress) as show:
        for other in choice.policies:
            saved = replace(saved, policy=other.name, settings=other.settings)
        return RunResult(execute(saved, show, results.out), results)


def read_run(folder: str | Path) -> RunResult:
    """The run that `dally simulate --out`, or a call with `out`, left in the folder."""
    return RunResult(FolderRecord(Path(folder)))
