"""The report of a comparison: per workload and network who wins, by how much, why, and at whose cost."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import polars as pl

from dally.errors import InputError
from dally.metrics.comparison import METRICS, Entry, choose_baseline, entries, label_of
from dally.metrics.over_time import time_edges
from dally.report.html.comparison_charts import Contender, comparison_charts
from dally.report.html.headline import comparison_headline, run_headline
from dally.report.html.page import Page
from dally.report.html.run_charts import timer_charts
from dally.report.html.run_page import add_stories
from dally.report.html.tables import comparison_table
from dally.runs.folder import FolderRecord

STORIES = 5
GREY = 7
CELL = ("workload", "network")


def comparison_page(folder: Path, rows: Sequence[dict[str, Any]], wanted: str = "") -> Page:
    """The page about all runs of a comparison."""
    done = [row for row in rows if row.get("jct_mean_s") is not None]
    if not done:
        raise InputError(f"{folder / 'results.parquet'}: no run in it has figures")
    cells: dict[str, list[dict[str, Any]]] = {}
    for row in done:
        cells.setdefault(cell_name(row), []).append(row)
    labels = list(dict.fromkeys(label_of(row) for row in done))
    seeds = len({row["seed"] for row in done})
    where = " · ".join(cells) if len(cells) < 4 else f"{len(cells)} workloads and networks"
    facts = f"{len(labels)} policies · {where}"
    page = Page("Comparison of policies", facts + (f" · {seeds} seeds" if seeds > 1 else ""))
    baseline = choose_baseline(labels, wanted)
    if len(cells) > 1:
        options = "".join(f'<option value="{place}">{escape(name)}</option>' for place, name in enumerate(cells))
        page.add(
            '<div class="bar-of-controls"><label class="pick">workload and network '
            f'<select class="choose" id="cell">{options}</select></label></div>'
        )
    for place, (name, members) in enumerate(cells.items()):
        page.part = str(place) if len(cells) > 1 else ""
        page.add(f'<div data-part-of="cell" data-part="{place}">')
        add_cell(page, folder, members, baseline, f"-{place}" if place else "", name if len(cells) > 1 else "")
        page.add("</div>")
    failed = len(rows) - len(done)
    if failed:
        page.note(f"{failed} of {len(rows)} runs failed and are not counted.")
    return page


def cell_name(row: dict[str, Any]) -> str:
    """The workload and the network of a run."""
    return ", ".join(str(row[name]) for name in CELL if row.get(name))


def add_cell(page: Page, folder: Path, rows: Sequence[dict[str, Any]], wanted: str, suffix: str, cell: str) -> None:
    """One workload on one network."""
    found = entries(rows)
    labels = [entry.label for entry in found]
    baseline = wanted if wanted in labels else choose_baseline(labels)
    contenders = [
        Contender(
            label,
            colour_of(place),
            [FolderRecord(folder / row["folder"]) for row in rows if label_of(row) == label],
        )
        for place, label in enumerate(labels)
    ]
    subject = subject_of(found, baseline)
    if subject is not None:
        base = next(entry for entry in found if entry.label == baseline)
        page.headline(comparison_headline(subject, base, {one.label: one.jobs for one in contenders}))
    else:
        page.headline(run_headline(baseline, contenders[0].jobs, found[0].means.get("jct_bound_s", 0.0)))
    page.section(f"table{suffix}", f"Figures {cell}".strip())
    page.add(comparison_table(found, baseline, _links(folder, contenders, rows)))
    page.note(
        f"★ best in its column. Changes are against `{baseline}`; less than 3 % is noise. "
        + ("± is the standard deviation over seeds. " if any(entry.runs > 1 for entry in found) else "")
        + "The lower bounds are what no scheduler can beat. Click a heading to sort."
    )
    page.section(f"charts{suffix}", f"Charts {cell}".strip())
    page.add_charts([*comparison_charts(contenders), *_timers(contenders, subject)])
    shown = next(one for one in contenders if one.label == (subject.label if subject else baseline))
    add_stories(page, shown.runs[0], STORIES, f"slowest{suffix}", f"Jobs that lost most time under {shown.label}")


def colour_of(place: int) -> int:
    """The colour of the policy at that place: not the palette's grey, which stands for waiting."""
    return place if place < GREY else place + 1


def subject_of(found: Sequence[Entry], baseline: str) -> Entry | None:
    """Whom the headline is about: the lowest mean completion time apart from the baseline."""
    others = [entry for entry in found if entry.label != baseline]
    return min(others, key=lambda entry: entry.means[METRICS[0].key], default=None)


def _timers(contenders: Sequence[Contender], subject: Entry | None) -> list[Any]:
    """The timers of the headline's policy, if it has any."""
    for one in contenders:
        if subject is not None and one.label == subject.label and not one.runs[0].events.is_empty():
            run = one.runs[0]
            end_s = float(run.all_events["time_s"].max() or 0.0)  # type: ignore[arg-type]
            return timer_charts(run, time_edges(float(run.events["time_s"][0]), end_s, 240))
    return []


def _links(folder: Path, contenders: Sequence[Contender], rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Where each policy's own report lies, of those that have one."""
    first = {label_of(row): f"{row['folder']}/report.html" for row in reversed(rows)}
    return {one.label: first[one.label] for one in contenders if (folder / first[one.label]).exists()}


def read_results(path: Path) -> pl.DataFrame:
    """results.parquet, or an InputError."""
    try:
        found = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from None
    for name in ("policy", "seed", "jct_mean_s"):
        if name not in found.columns:
            raise InputError(f"{path}: has no column {name!r}; is it from `dally compare` or `dally sweep`?")
    return found
