"""The report of a comparison: per workload and network who wins, by how much, why, and at whose cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

import polars as pl

from dally.errors import InputError
from dally.metrics.comparison import Contest, Entry, choose_baseline, compare_rows, contest_of, favourite
from dally.metrics.metric_list import JCT_MEAN, MEANING
from dally.metrics.over_time import time_edges
from dally.metrics.summary import Row
from dally.report.comparison_tables import UNFINISHED_NOTE, as_good, recorded_baseline
from dally.report.html.comparison_charts import BASELINE, GREY, SUBJECT, Contender, comparison_charts
from dally.report.html.headline import comparison_headline, leaders_sentence, run_headline
from dally.report.html.page import Page
from dally.report.html.page_tables import best_first, comparison_table
from dally.report.html.run_charts import timer_charts
from dally.report.html.run_page import add_histories
from dally.runs.folder import FolderRecord, checked_parquet

HISTORIES = 5


def comparison_page(folder: Path, rows: Sequence[Row], desired: str = "") -> Page:
    """The page about all runs of a comparison."""
    done = [row for row in rows if row.get(JCT_MEAN.key) is not None]
    if not done:
        raise InputError(f"{folder / 'results.parquet'}: no run in it has figures")
    labels = list(dict.fromkeys(str(row["policy"]) for row in done))
    usual = recorded_baseline(folder)
    contests = compare_rows(done, choose_baseline(labels, desired or usual * (usual in labels)))
    page = Page("Comparison of policies", _facts(contests, labels, len({row["seed"] for row in done})))
    several = len(contests) > 1
    if several:
        options = "".join(
            f'<option value="{place}">{escape(contest.name())}</option>' for place, contest in enumerate(contests)
        )
        page.add(
            '<div class="bar-of-controls"><label class="pick">workload and network '
            f'<select class="choose" id="cell">{options}</select></label></div>'
        )
    for place, contest in enumerate(contests):
        page.part = str(place) if several else ""
        page.add(f'<div data-part-of="cell" data-part="{place}">')
        add_contest(page, folder, with_baseline(contest), f"-{place}" if place else "", contest.name() * several)
        page.add("</div>")
    failed = len(rows) - len(done)
    if failed:
        page.note(f"{failed} of {len(rows)} runs failed and are not counted.")
    return page


def _facts(contests: Sequence[Contest], labels: Sequence[str], seeds: int) -> str:
    """What was compared, in a line."""
    names = [contest.name() for contest in contests]
    where = " · ".join(names) if len(names) < 4 else f"{len(names)} workloads and networks"
    return f"{len(labels)} policies · {where}" + (f" · {seeds} seeds" if seeds > 1 else "")


def with_baseline(contest: Contest) -> Contest:
    """The contest, with a baseline of its own if it lacks the one of the others."""
    if contest.baseline:
        return contest
    groups = {entry.label: entry.replications for entry in contest.entries}
    return contest_of(groups, choose_baseline([*groups]), workload=contest.workload, network=contest.network)


def add_contest(page: Page, folder: Path, contest: Contest, suffix: str, name: str) -> None:
    """One workload on one network; `name` if there are several."""
    subject = favourite(contest)
    contenders = [_contender(folder, contest, entry, subject) for entry in best_first(contest)]
    if subject is not None:
        record = comparison_headline(contest, subject, {one.label: one.jobs for one in contenders})
        page.headline(replace(record, why=[*filter(None, [leaders_sentence(contest)]), *record.why]))
    else:
        bound = contest.bounds.get(JCT_MEAN.key)
        page.headline(run_headline(contest.baseline, contenders[0].jobs, bound.mean if bound else 0.0))
    page.section(f"table{suffix}", f"Figures {name}".strip())
    links = _links(folder, contest)
    page.add(comparison_table(contest, links, subject.label if subject else ""))
    page.note(_how_to_read(contest))
    page.section(f"charts{suffix}", f"Charts {name}".strip())
    page.note(_colours(contest, subject))
    page.add_charts([*comparison_charts(contenders), *_timers(contenders, subject)])
    shown = next(one for one in contenders if one.label == (subject.label if subject else contest.baseline))
    title = f"Jobs that lost most time under {shown.label}"
    add_histories(page, shown.runs[0], HISTORIES, f"slowest{suffix}", title, links.get(shown.label))


def _how_to_read(contest: Contest) -> str:
    """What the marks of the table mean."""
    sentences = [
        f"★ best in its column, {as_good([contest])}.",
        f"Changes are against `{contest.baseline}`, seed by seed.",
    ]
    if any(len(entry.replications) > 1 for entry in contest.entries):
        sentences.append(f"± is {MEANING}.")
    if any(entry.unfinished for entry in contest.entries):
        sentences.append(f"{UNFINISHED_NOTE}.")
    sentences.append("The lower bounds are what no scheduler can beat. Click a heading to sort.")
    return " ".join(sentences)


def _colours(contest: Contest, subject: Entry | None) -> str:
    """Whom the colours of the charts stand for."""
    if subject is None:
        return f"Orange: `{contest.baseline}`."
    others = "; grey: the others" if len(contest.entries) > 2 else ""
    return (
        f"Blue: `{subject.label}`; orange: the baseline, `{contest.baseline}`{others}. "
        "Point at a name in a legend to find it in its chart, click it to hide it."
    )


def _contender(folder: Path, contest: Contest, entry: Entry, subject: Entry | None) -> Contender:
    """The entry with its runs, in the colour of what it is to the page."""
    colour = BASELINE if entry.label == contest.baseline else SUBJECT if entry is subject else GREY
    runs = [FolderRecord(folder / row["folder"]) for row in entry.rows]
    result = entry.standings.get(JCT_MEAN.key)
    return Contender(entry.label, colour, runs, result.spread if result else None)


def _timers(contenders: Sequence[Contender], subject: Entry | None) -> list[Any]:
    """The timers of the headline's policy, if it has any."""
    for one in contenders:
        if subject is not None and one.label == subject.label and not one.runs[0].events.is_empty():
            run = one.runs[0]
            end_s = float(run.all_events["time_s"].max() or 0.0)  # type: ignore[arg-type]
            return timer_charts(run, time_edges(float(run.events["time_s"][0]), end_s, 240))
    return []


def _links(folder: Path, contest: Contest) -> dict[str, str]:
    """Where each policy's own report lies, of those that have one."""
    result = {entry.label: f"{entry.rows[0]['folder']}/report.html" for entry in contest.entries}
    return {label: path for label, path in result.items() if (folder / path).exists()}


def read_results(path: Path) -> pl.DataFrame:
    """results.parquet, or an InputError."""
    return checked_parquet(path, ("policy", "seed", "jct_mean_s"))
