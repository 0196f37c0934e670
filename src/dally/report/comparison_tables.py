"""A comparison, also by queue, as tables (terminal, Markdown, CSV, LaTeX) and as plain values."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dally.errors import at
from dally.input_file import read_text, shown
from dally.metrics.comparison import NOISE, Contest, Entry, Standing
from dally.metrics.metric_list import (
    BETWEEN_USERS,
    BRIEF,
    COMM,
    FULL,
    JCT_MEAN,
    MEANING,
    REPEATED,
    SPAN,
    Metric,
    Spread,
    spread,
)
from dally.metrics.summary import BY_QUEUE, by_queue
from dally.parsed_text import parse_json
from dally.report.run_summary import FIGURES
from dally.report.text_table import TextCell, TextTable, latex_text, plain_table
from dally.report.time_text import brief
from dally.whole_file import write_whole

HOUR_S = 3600.0
NOTHING = "-"
BOUND = "at least"
ALONE = "alone, at the closest"  # in its place for communication, which has none
BOUNDED = "bound"  # the divisor of figures that have a lower bound
UNFINISHED = " †"  # behind the label of who left jobs unfinished
AS_GOOD = f"or as good within noise ({NOISE:.0%})".replace("%", " %")  # where nothing was replicated
AS_GOOD_MEASURED = "or as good within noise (that of replications)"
ALONE_NOTE = (
    "in brackets: communication of the jobs alone at their closest placement, which an even split may stay below"
)
UNFINISHED_NOTE = "† left jobs unfinished: its means are over fewer jobs, so it is never best and has no ÷ bound"
COLUMNS = (
    "workload", "network", "policy", "metric", "mean", "spread", "low", "high", "noise", "replications",
    "against_baseline", "against_baseline_spread", "bound", "times_bound", "best", "unfinished",
)  # fmt: skip


def absolute(
    contest: Contest, metrics: Sequence[Metric], in_hours: bool = False, bounded: bool = True, short: bool = False
) -> TextTable:
    """Means and spread over seeds. Of figures with a bound, how many times it; the bounds last."""
    entries = contest.entries
    columns = [[TextCell(shown_label(entry)) for entry in entries] + [TextCell(BOUND)]]
    headings = [""]
    unit_name, unit_s = ("h", HOUR_S) if in_hours else unit_of(contest)  # one for all, so that columns compare
    for metric in metrics:
        unit = unit_s if metric.unit == SPAN else 1.0
        title = metric.short_title() if short else metric.title
        headings.append(f"{title}, {unit_name}" if metric.unit == SPAN else title)
        bound = contest.bounds.get(metric.key)
        column = [_absolute(entry.standings.get(metric.key), unit) for entry in entries]
        columns.append([*column, TextCell(_bound_text(bound, metric, unit))])
        if metric.bound and bounded:
            headings.append(f"÷ {metric.divisor}")
            times = [_times(entry.standings.get(metric.key)) for entry in entries]
            columns.append([*times, TextCell("")])
    lines = [list(line) for line in zip(*columns, strict=True)]
    return TextTable(headings, lines if bounded else lines[:-1], last_apart=bounded)


def _bound_text(bound: Spread | None, metric: Metric, unit: float) -> str:
    """In brackets where it is no bound, and without its range: the column would need to be wider for it."""
    if bound is None:
        return ""
    if metric.divisor == BOUNDED:
        return bound.shown(unit)
    return f"({Spread(bound.mean, bound.mean, bound.mean).shown(unit)})"


def relative(contest: Contest, metrics: Sequence[Metric], short: bool = False) -> TextTable:
    """Change from the baseline in percent, seed by seed."""
    titles = [metric.short_title() if short else metric.title for metric in metrics]
    lines = [
        [
            TextCell(shown_label(entry)),
            *(TextCell(_percent(entry.standings.get(metric.key))) for metric in metrics),
        ]
        for entry in contest.entries
    ]
    return TextTable([f"against {contest.baseline}", *titles], lines)


def shown_label(entry: Entry) -> str:
    """The entry's label, marked if it left jobs unfinished."""
    return entry.label + UNFINISHED * bool(entry.unfinished)


def notes(contests: Iterable[Contest]) -> list[str]:
    """How to read the marks that the tables have."""
    contests = list(contests)
    marked = any(entry.unfinished for contest in contests for entry in contest.entries)
    best = f"* best of its column, {as_good(contests)}; ± {MEANING}; {BOUND}: what no scheduler can beat"
    alone = [ALONE_NOTE] if any(COMM.key in contest.bounds for contest in contests) else []
    return [best, *alone, *([UNFINISHED_NOTE] if marked else [])]


def as_good(contests: Iterable[Contest]) -> str:
    """Who else counts as best: by replications where all contests have some, else by a fixed share."""
    return AS_GOOD_MEASURED if all(contest.replications() > 1 for contest in contests) else AS_GOOD


def full_of(contest: Contest) -> tuple[Metric, ...]:
    """The metrics of a page's table: fairness between users, too, where jobs have users."""
    return FULL + tuple(
        metric for metric in BETWEEN_USERS if any(entry.mean(metric) is not None for entry in contest.entries)
    )


def to_markdown(contests: Sequence[Contest]) -> str:
    """table.md: two tables per contest."""
    how = f"Means over seeds, ± {MEANING}; the best in each column, {as_good(contests)}, is bold."
    texts = ["# Comparison\n", f"{how}\n", *(f"{line}.\n" for line in notes(contests)[1:])]
    for contest in contests:
        metrics = full_of(contest)
        texts += [f"## {contest.title()}\n", absolute(contest, metrics).markdown()]
        if contest.baseline:
            texts.append(relative(contest, metrics).markdown())
        texts += [f"{part}\n" if isinstance(part, str) else part.markdown() for part in by_queue_tables(contest)]
    return "\n".join(texts)


def to_latex(contests: Sequence[Contest]) -> str:
    """table.tex: a table per contest, for \\input into a paper that loads booktabs."""
    texts = ["% Needs \\usepackage{booktabs}."]
    for contest in contests:
        how = f"Means over seeds, ± {MEANING}; bold: best of its column, {as_good([contest])}"
        caption = ". ".join([contest.title(), how, *notes([contest])[1:]]) + "."
        texts += [
            r"\begin{table}",
            rf"\caption{{{latex_text(caption)}}}",
            absolute(contest, BRIEF, short=True).latex() + r"\end{table}",
        ]
    return "\n".join(texts) + "\n"


def to_csv(contests: Iterable[Contest]) -> str:
    """table.csv: a line per workload, network, policy and figure, in the units of summary.json."""
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    for values in (values for contest in contests for values in _values(contest)):
        for metric in REPEATED:
            result = values[metric.key]
            if result:
                left = sum(values["unfinished"].values())
                best = str(result["best"]).lower()
                writer.writerow({**values, "metric": metric.key, **result, "best": best, "unfinished": left})
    return buffer.getvalue()


def to_values(contests: Iterable[Contest], baseline: str) -> dict[str, Any]:
    """comparison.json: one result per workload, network and policy, for scripts."""
    results = [values for contest in contests for values in _values(contest)]
    return {"baseline": baseline, "spread": MEANING, "noise": NOISE, "results": results}


def _values(contest: Contest) -> Iterator[dict[str, Any]]:
    for entry in contest.entries:
        yield {
            "workload": contest.workload,
            "network": contest.network,
            "policy": entry.label,
            "seeds": [row["seed"] for row in entry.rows],
            "replications": contest.replications(),
            "jobs": entry.rows[0]["jobs"],
            "finished": min(row["finished"] for row in entry.replications),
            "unfinished": {str(seed): left for seed, left in entry.unfinished.items()},
            **{
                metric.key: _standing_values(entry.standings.get(metric.key), metric, contest)
                for metric in REPEATED
            },
            **by_queue_values(entry),
        }


def _standing_values(result: Standing | None, metric: Metric, contest: Contest) -> dict[str, Any] | None:
    if result is None:
        return None
    values: dict[str, Any] = {
        "mean": result.spread.mean,
        "spread": result.spread.half(),
        "low": result.spread.low,
        "high": result.spread.high,
        "noise": result.noise(),
        "values": list(result.values.values()),
        "ranges": [[one.low, one.high] for one in result.ranges.values()],
        "best": result.best,
        "against_baseline": result.change(),
        "against_baseline_spread": result.ratio.half() if result.ratio else None,
    }
    if metric.bound:
        bound = contest.bounds.get(metric.key)
        values |= {
            "bound": bound.mean if bound else None,
            "times_bound": result.times_bound.mean if result.times_bound else None,
        }
    return values


def unit_of(contest: Contest) -> tuple[str, float]:
    """The unit in which such completion times read well, and its seconds."""
    most_s = max((entry.mean(JCT_MEAN) or 0.0 for entry in contest.entries), default=0.0)
    for name, size_s in (("h", HOUR_S), ("min", 60.0)):
        if most_s >= 2 * size_s:
            return name, size_s
    return "s", 1.0


def _absolute(result: Standing | None, unit: float) -> TextCell:
    return TextCell(result.spread.shown(unit), result.best) if result else TextCell(NOTHING)


def _times(result: Standing | None) -> TextCell:
    return TextCell(f"{result.times_bound.mean:,.2f}" if result and result.times_bound else NOTHING)


def _percent(result: Standing | None) -> str:
    ratio: Spread | None = result.ratio if result else None
    if ratio is None:
        return NOTHING
    return f"{100 * (ratio.mean - 1):+.1f}%" + (f" ±{100 * ratio.half():.1f}" if ratio.half() >= 0.0005 else "")


VALUES = "comparison.json"


def write_comparison(folder: Path, contests: Sequence[Contest], baseline: str) -> None:
    """Write table.md, table.csv, table.tex and comparison.json."""
    texts = {
        "table.md": to_markdown(contests),
        "table.csv": to_csv(contests),
        "table.tex": to_latex(contests),
        VALUES: json.dumps(to_values(contests, baseline), indent=2) + "\n",
    }
    for name, text in texts.items():
        write_whole(folder / name, text.encode())


def recorded_baseline(folder: Path) -> str:
    """The baseline with which the folder's comparison was made; "" if it does not say."""
    path = folder / VALUES
    if not path.exists():
        return ""
    result = parse_json(path, read_text(path)).get("baseline")
    if not isinstance(result, str):
        raise at(path, None, "baseline", f"{shown(result)}: must be a name; `dally compare` writes it again")
    return result


MOST_QUEUES = 6  # that a table of policies has columns for


def compared_queues(contest: Contest) -> list[str]:
    """The queues that the runs have, those with most GPU-hours first."""
    hours: dict[str, float] = {}
    for row in contest.rows():
        for queue in queues_of(row):
            hours[queue] = hours.get(queue, 0.0) + (row[by_queue("gpu_h", queue)] or 0.0)
    return sorted(hours, key=lambda queue: (-hours[queue], queue)) if len(hours) > 1 else []


def queues_of(row: Mapping[str, Any]) -> list[str]:
    """The queues of which a run's row has figures."""
    begin = by_queue("gpu_h", "")[:-1]
    return [name[len(begin) : -1] for name in row if name.startswith(begin)]


def by_queue_tables(contest: Contest) -> Iterator[str | TextTable]:
    """A table of policies by queues for waits and for completion times; the Jain index behind."""
    queues = compared_queues(contest)
    if not queues:
        return
    shown = queues[:MOST_QUEUES]
    left = f"; those of {len(queues) - len(shown)} more queues: --json" if len(queues) > len(shown) else ""
    for figure, title in FIGURES.items():
        rows = []
        for entry in contest.entries:
            cells = [_shown(_spread(entry, by_queue(figure, queue))) for queue in shown]
            even = _spread(entry, "jain")
            rows.append([entry.label, *cells, f"{even.mean:.3f}" if even else "-"])
        yield f"{title[0].upper()}{title[1:]} by queue{left}"
        yield plain_table(["", *shown, "Jain index"], rows)


def by_queue_values(entry: Entry) -> dict[str, Any]:
    """The same for scripts: empty where there are no queues."""
    queues = queues_of(entry.rows[0])
    if not queues:
        return {}
    result = {
        queue: {figure: _spread_values(_spread(entry, by_queue(figure, queue))) for figure in BY_QUEUE}
        for queue in queues
    }
    return {
        "queues": result,
        "jain": _spread_values(_spread(entry, "jain")),
        "rho_max": _spread_values(_spread(entry, "rho_max")),
    }


def _spread(entry: Entry, column: str) -> Spread | None:
    return spread(row.get(column) for row in entry.replications)


def _spread_values(result: Spread | None) -> dict[str, float] | None:
    return (
        {"mean": result.mean, "spread": result.half(), "low": result.low, "high": result.high} if result else None
    )


def _shown(result: Spread | None) -> str:
    if result is None:
        return "-"
    half_s = result.half()
    sure = half_s < 0.05 or half_s < 0.0005 * result.mean
    return brief(result.mean, in_table=True) + ("" if sure else f" ±{brief(half_s, in_table=True)}")
