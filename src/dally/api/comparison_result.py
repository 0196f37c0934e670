"""What a comparison gives to who called it from Python."""

from __future__ import annotations

import io
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dally.api.result_folder import ResultFolder
from dally.api.run_result import RunResult, written
from dally.errors import InputError
from dally.metrics.comparison import Contest, Entry, compare_rows, favourite
from dally.metrics.metric_list import BRIEF, JCT_MEAN, REPEATED
from dally.metrics.summary import Row
from dally.report.comparison_tables import absolute, notes, relative, to_csv
from dally.report.text_table import TextTable
from dally.runs.folder import FolderRecord
from dally.sweep.store import frame_of

if TYPE_CHECKING:
    import polars as pl

    from dally.report.figures import Look


class ComparisonResult:
    """Policies side by side: `table` has the means, `figures` all there is to say of them, `rows` every run."""

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
