"""The report of a sweep: what each varied parameter does to the figures, how much it matters, the best settings."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from dally.errors import InputError
from dally.metrics.comparison import (
    Contest,
    Entry,
    by_label,
    choose_baseline,
    contest_of,
    favourite,
    groups_of,
    lost_to_network,
    with_figures,
)
from dally.metrics.metric_list import JCT_MEAN, ON_PAGE, SPAN, Metric
from dally.metrics.spread import MEANING
from dally.metrics.summary import Row
from dally.metrics.sweeping import SEED, importances, mean_by, settings_of
from dally.report.comparison_tables import UNFINISHED_NOTE, as_good
from dally.report.html.headline import Headline, comparison_headline
from dally.report.html.page import Page, marked
from dally.report.html.page_tables import best_first, column_of, sweep_table, text
from dally.report.html.sweep_charts import effect_chart, heat_chart, importance_chart, label, pairs, short
from dally.report.time_text import percent

MOST_ROWS = 2000


def sweep_page(folder: Path, rows: Sequence[dict[str, Any]], desired: str = "") -> Page:
    """The page about all runs of a sweep; seeds are replications of a setting."""
    done = [{**row, "lost_to_network": lost_to_network(row)} for row in with_figures(rows)]
    if not done:
        raise InputError(f"{folder / 'results.parquet'}: no run in it has figures")
    names = settings_of(done)
    contest = settings_contest(done, names)
    page = Page("Sweep", _facts(done, names, contest))
    page.headline(sweep_headline(done, names, contest))
    policies = list(dict.fromkeys(str(row["policy"]) for row in done))
    if len(policies) > 1:
        _compare_policies(page, done, names, desired)
    metrics = [metric for metric in ON_PAGE if len({row.get(metric.key) for row in done} - {None}) > 1]
    if names and metrics:
        add_effects(page, done, names, metrics, contest)
    page.section("runs", "Settings")
    shown = best_first(contest)[:MOST_ROWS]
    if len(contest.entries) > MOST_ROWS:
        page.note(f"The {MOST_ROWS:,} settings with the lowest mean JCT, of {len(contest.entries):,}.")
    page.add(sweep_table(shown, names or ["policy"], metrics or ON_PAGE[:1]))
    page.note(_how_to_read(contest))
    if len(done) < len(rows):
        page.note(f"{len(rows) - len(done):,} of {len(rows):,} runs failed or finished no job and are not counted.")
    return page


def settings_contest(rows: Sequence[Row], names: Sequence[str]) -> Contest:
    """Every setting as an entry, its runs those of its seeds; the entries in the order of the rows."""
    result = by_label(rows, *names) if names else {("",): list(rows)}
    return contest_of({str(place): here for place, here in enumerate(result.values())}, "")


def _facts(rows: Sequence[Row], names: Sequence[str], contest: Contest) -> str:
    seeds = len({row[SEED] for row in rows})
    varied = ", ".join(short(name) for name in names) or "nothing but seeds"
    many = f"{len(contest.entries):,} settings × {seeds} seeds" if seeds > 1 else f"{len(rows):,} runs"
    return f"{many} · varied: {varied}"


def _how_to_read(contest: Contest) -> str:
    repeated = any(len(entry.replications) > 1 for entry in contest.entries)
    spreads = f" Figures are means over seeds; ± is {MEANING}." if repeated else ""
    left = f" {UNFINISHED_NOTE}." if any(entry.unfinished for entry in contest.entries) else ""
    return f"★ best in its column, {as_good([contest])}.{spreads}{left} Click a heading to sort."


def sweep_headline(rows: Sequence[Row], names: Sequence[str], contest: Contest) -> Headline:
    """The best setting, how much the choice matters, and which parameter matters most."""
    ranked = best_first(contest)
    best, worst = ranked[0], max(ranked, key=_mean_s)
    chosen = ", ".join(f"`{short(name)}` = {label(best.rows[0][name])}" for name in names)
    lead = f"Lowest mean JCT: {_with_spread(best)} with {chosen or str(best.rows[0]['policy'])}"
    if len(ranked) > 1:
        lead += f"; the worst of {len(ranked):,} settings takes {_mean_s(worst) / _mean_s(best):.1f} times that"
    return Headline(lead + ".", [*_what_matters(rows, names)])


def _with_spread(entry: Entry) -> str:
    """Its mean completion time, ± in the same unit."""
    spread = entry.standings[JCT_MEAN.key].spread
    column = column_of(JCT_MEAN, [entry])
    half = column.text(spread.half())
    return f"{column.text(spread.mean)}{f' ± {half}' if half.strip('0.') else ''} {column.unit}"


def _mean_s(entry: Entry) -> float:
    return entry.mean(JCT_MEAN) or 1e-9


def _what_matters(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """The parameter that explains most of the mean completion time, and what its values give."""
    result = {name: share for name, share in importances(rows, names, JCT_MEAN.key).items() if name in names}
    if not result:
        return []
    name = next(iter(result))
    means = mean_by(rows, name, JCT_MEAN.key)
    low = min(means, key=lambda value: means[value])
    high = max(means, key=lambda value: means[value])
    others = [f"`{short(other)}` {percent(share)}" for other, share in list(result.items())[1:4] if share >= 0.005]
    rest = f" (then {', '.join(others)})" if others else ""
    return [
        f"`{short(name)}` matters most: it explains {percent(result[name])} of how mean JCT varies{rest}.",
        f"On average over the rest, {label(low)} gives {text(means[low], SPAN)} and {label(high)} "
        f"{text(means[high], SPAN)}" + (f" ({means[high] / means[low]:.2f}×)." if means[low] else "."),
    ]


def _compare_policies(page: Page, rows: Sequence[Row], names: Sequence[str], desired: str) -> None:
    """The best policy against the baseline; runs that differ in nothing but the policy are pairs."""
    groups = groups_of(rows, "policy")
    pair_by = [SEED, *(name for name in names if name != "policy")]
    contest = contest_of(groups, choose_baseline([*groups], desired), pair_by)
    subject = favourite(contest)
    if subject is not None:
        headline = comparison_headline(contest, subject)
        page.add(f'<p class="why">Means over all runs: {marked(" ".join([headline.lead, *headline.why]))}</p>')


def add_effects(
    page: Page, rows: Sequence[Row], names: Sequence[str], metrics: Sequence[Metric], contest: Contest
) -> None:
    """One set of charts per figure, of which the page shows one at a time."""
    page.section("effects", "What the parameters do")
    options = "".join(f'<option value="{metric.key}">{escape(metric.title)}</option>' for metric in metrics)
    page.add(
        '<div class="bar-of-controls"><label class="pick">figure '
        f'<select class="choose" id="metric">{options}</select></label></div>'
    )
    for metric in metrics:
        settings = [
            {**{name: entry.rows[0][name] for name in names}, metric.key: entry.mean(metric)}
            for entry in contest.entries
        ]
        page.add(f'<div data-part-of="metric" data-part="{metric.key}">')
        charts = [effect_chart(rows, settings, name, metric) for name in names]
        heats = [heat_chart(rows, first, second, metric) for first, second in pairs(rows, names)[:3]]
        page.add_charts([*importance_chart(rows, names, metric), *charts, *heats])
        page.add("</div>")
