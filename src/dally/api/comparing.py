"""`dally.compare`, and what it gives."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from dally.api.inputs import (
    ClusterLike,
    PolicyLike,
    ScenarioFields,
    cluster_text,
    fields_of,
    known,
    several,
    spelled_out,
    trace_file,
)
from dally.api.result_folder import ResultFolder, rows_of_runs, workers_for
from dally.api.simulating import RunResult, written
from dally.cluster.presets import check_network
from dally.errors import InputError, unknown
from dally.metrics.comparison import Contest, Entry, compare_rows, favourite
from dally.metrics.metric_list import BRIEF, JCT_MEAN, REPEATED
from dally.metrics.summary import Row
from dally.report.comparison_tables import absolute, notes, relative, to_csv, write_comparison
from dally.report.text_table import TextTable
from dally.runs.folder import FolderRecord
from dally.runs.scenario import Scenario
from dally.sweep.batch import frame_of, with_folders
from dally.sweep.run import REPLICATIONS, Loads, Prepared, comparison_runs, replicated
from dally.traces.readers.csv_trace import is_frame

if TYPE_CHECKING:
    import polars as pl

    from dally.api.inputs import TraceLike
    from dally.report.figures import Look


class ComparisonResult:
    """Policies side by side: `table` has the means, `figures` every figure of them, `rows` every run."""

    def __init__(self, rows: Sequence[Row], baseline: str, results: ResultFolder) -> None:
        self.baseline = baseline
        self._contests = compare_rows(rows, baseline)
        self._rows = list(rows)
        self._results = results

    @property
    def contests(self) -> list[Contest]:
        """The comparison itself, one per workload and network: entries, their standings, what bounds them."""
        return self._contests

    @property
    def rows(self) -> pl.DataFrame:
        """results.parquet: a row per run."""
        return frame_of(self._rows)

    @property
    def table(self) -> pl.DataFrame:
        """A row per workload, network and policy: the mean of each figure over seeds, as summary.json names it."""
        return frame_of([_means(contest, entry) for contest in self.contests for entry in contest.entries])

    @property
    def figures(self) -> pl.DataFrame:
        """table.csv: a row per workload, network, policy and figure: mean, spread, change against the baseline."""
        import polars as pl

        return pl.read_csv(io.StringIO(to_csv(self.contests)), infer_schema_length=None)

    def run(self, policy: str, **labels: Any) -> RunResult:
        """The first run of a policy, or the one with these labels, such as `seed=2` or `network="slow"`."""
        desired = {"policy": policy, **labels}
        for row in self._rows:
            if row.get("folder") and all(row.get(name) == value for name, value in desired.items()):
                return RunResult(FolderRecord(self._results.folder / row["folder"]), self._results)
        shown = ", ".join(f"{name} {value}" for name, value in desired.items())
        known = ", ".join(dict.fromkeys(str(row["policy"]) for row in self._rows))
        raise InputError(f"{shown}: no such run; the policies are {known}")

    def report(self, path: str | Path | None = None) -> str:
        """The text of report.html about the comparison; with a path it is also written there."""
        from dally.report.html.comparison_page import comparison_page

        return written(comparison_page(self._results.folder, self._rows, self.baseline).to_html(), path)

    def draw(self, folder: str | Path, look: Look | None = None) -> list[Path]:
        """Every chart of the report as files for papers, in a folder; the look says formats, size and font."""
        from dally.report.figures import write_figures
        from dally.report.html.comparison_page import comparison_page

        page = comparison_page(self._results.folder, self._rows, self.baseline)
        return write_figures(page.charts, Path(folder), look)

    def __str__(self) -> str:
        parts = [part for contest in self.contests for part in _parts(contest)]
        shown = [part if isinstance(part, str) else part.aligned() for part in parts]
        return "\n".join([*shown, *notes(self.contests)])

    def __repr__(self) -> str:
        first = favourite(self.contests[0])
        by = self.contests[0].standing(first.label, JCT_MEAN) if first else None
        change = by.change() if by else None
        record = f"; mean JCT of {first.label} {change:+.1%} against {self.baseline}" if first and change else ""
        return f"<ComparisonResult: {len(self._rows)} runs{record}; print it>"

    def _repr_html_(self) -> str:
        parts = [part for contest in self.contests for part in _parts(contest)]
        shown = [f"<p><b>{escape(part)}</b></p>" if isinstance(part, str) else part.html() for part in parts]
        how = [line.replace("* best", "Bold: best", 1) for line in notes(self.contests)]
        return "".join([*shown, *(f"<p>{escape(line)}</p>" for line in how)])


def _parts(contest: Contest) -> list[str | TextTable]:
    """The title and the tables of one workload on one network."""
    parts: list[str | TextTable] = [contest.title(), absolute(contest, BRIEF, short=True)]
    if contest.baseline and len(contest.entries) > 1:
        parts.append(relative(contest, BRIEF, short=True))
    return parts


def _means(contest: Contest, entry: Entry) -> Row:
    means = {metric.key: entry.mean(metric) for metric in REPEATED if metric.key in entry.standings}
    return {
        "workload": contest.workload,
        "network": contest.network,
        "policy": entry.label,
        "seeds": len(entry.rows),
        "unfinished": sum(entry.unfinished.values()),
        **means,
    }


def compare(
    traces: TraceLike | Sequence[TraceLike] | Mapping[str, TraceLike],
    cluster: ClusterLike,
    policies: PolicyLike | Sequence[PolicyLike] = "all",
    *,
    networks: Sequence[str] | None = None,
    seeds: Sequence[int] | None = None,
    replications: int = REPLICATIONS,
    baseline: str = "",
    out: str | Path | None = None,
    workers: int = 1,
    progress: bool = False,
    **fields: Unpack[ScenarioFields],
) -> ComparisonResult:
    """Many policies on the same jobs, side by side: what `dally compare` does.

    Several traces are a list, or a dict that names them. A policy's settings follow its name, as in
    `las:lease_s=1800`. The baseline is the first policy unless it is named. Each run is made `replications` times
    with restarts a microsecond longer or shorter: as many times the CPU, and it shows what is noise. With more than
    one worker, runs are processes (0: one per core), except for policies that are your own classes or objects,
    which run in this process. With `out` finished runs are stored in that folder, and the same call goes on from
    there.
    """
    results = ResultFolder(out)
    stated = fields_of(fields)
    on = several("network", networks, stated, "")
    under = several("seed", seeds, stated, 1)
    for name in filter(None, on):
        check_network(name)
    listed = [policies] if isinstance(policies, str) or not isinstance(policies, Sequence) else policies
    with known(spelled_out(listed)) as choice:
        labels = [one.label() for one in choice.policies]
        if baseline and baseline not in labels:
            raise unknown("baseline", baseline, labels)
        base = Scenario("", cluster_text(results, cluster), "", **stated)
        named = _named(traces)
        runs = comparison_runs(_loads(results, named, base, under, False), on, choice.policies, base)
        frames = _loads(results, named, base, under, True)
        runs += comparison_runs(frames, on, choice.policies, replace(base, trace_format="csv"))
        runs = replicated(with_folders(runs, results.folder / "runs"), replications, "replications")
        rows = rows_of_runs(runs, results.folder, workers_for(workers, choice.everywhere), progress)
    against = baseline or labels[0]
    write_comparison(results.folder, compare_rows(rows, against), against)
    return ComparisonResult(rows, against, results)


def _named(traces: TraceLike | Sequence[TraceLike] | Mapping[str, TraceLike]) -> dict[str, TraceLike]:
    """Traces by the name of the workload: the caller's, else that of the file; numbered if another has it."""
    if isinstance(traces, Mapping):
        return dict(traces)
    named: dict[str, TraceLike] = {}
    for trace in traces if isinstance(traces, (list, tuple)) else [traces]:
        stem = "trace" if is_frame(trace) else Path(str(trace)).name.split(".")[0]
        name, number = stem, 1
        while name in named:
            number += 1
            name = f"{stem}-{number}"
        named[name] = trace
    if not named:
        raise InputError("traces: none given")
    return named


def _loads(
    results: ResultFolder, named: Mapping[str, TraceLike], base: Scenario, seeds: Sequence[int], frames: bool
) -> Loads:
    """The workloads that are frames, or those that are files."""
    result: Loads = {}
    for place, (name, trace) in enumerate(named.items()):
        if is_frame(trace) == frames:
            path = trace_file(results, trace, f"trace-{place}" if place else "trace", base.strict)
            result[name] = dict.fromkeys(seeds, Prepared(Path(path), base.cluster))
    return result
