"""The report of a sweep: what each varied parameter does to the figures, and the best runs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from dally.errors import InputError
from dally.metrics.comparison import choose_baseline, contest_of, favourite, groups_of, lost_to_network
from dally.metrics.metric_list import ON_PAGE, SHARE, SPAN, Metric
from dally.metrics.sweeping import is_number, mean_by, varied_columns
from dally.report.comparison_tables import AS_GOOD
from dally.report.html.axes import Axis, category_axis, count_axis, log_count_axis, share_axis, span_axis
from dally.report.html.charts import DOTS, HEAT, Chart, Series
from dally.report.html.headline import Headline, comparison_headline
from dally.report.html.page import Page, marked
from dally.report.html.page_tables import sweep_table, told

MOST_ROWS = 2000
MOST_VALUES = 40  # of a parameter, to have a row each


def sweep_page(folder: Path, rows: Sequence[dict[str, Any]], wanted: str = "") -> Page:
    """The page about all runs of a sweep."""
    done = [{**row, "lost_to_network": lost_to_network(row)} for row in rows if row.get("jct_mean_s") is not None]
    if not done:
        raise InputError(f"{folder / 'results.parquet'}: no run in it has figures")
    names = varied_columns(done)
    page = Page("Sweep", f"{len(done):,} runs · varied: {', '.join(short(name) for name in names) or 'nothing'}")
    page.headline(sweep_headline(done, names))
    policies = list(dict.fromkeys(str(row["policy"]) for row in done))
    if len(policies) > 1:
        _compare_policies(page, done, names, wanted)
    metrics = [metric for metric in ON_PAGE if len({row.get(metric.key) for row in done} - {None}) > 1]
    if names and metrics:
        add_effects(page, done, names, metrics)
    page.section("runs", "Runs")
    if len(done) > MOST_ROWS:
        page.note(f"The {MOST_ROWS:,} runs with the lowest mean JCT, of {len(done):,}.")
    best_first = sorted(done, key=_rank)[:MOST_ROWS]
    page.add(sweep_table(best_first, names or ["policy"], metrics or ON_PAGE[:1]))
    page.note(f"★ best in its column, {AS_GOOD}. Click a heading to sort.")
    if len(done) < len(rows):
        page.note(f"{len(rows) - len(done):,} of {len(rows):,} runs failed and are not counted.")
    return page


def _rank(row: dict[str, Any]) -> tuple[bool, float]:
    """Lowest mean JCT first; runs that left jobs unfinished last, for theirs is over fewer jobs."""
    return row["finished"] < row["jobs"], float(row["jct_mean_s"])


def short(name: str) -> str:
    """A varied parameter without its prefix."""
    return name.removeprefix("set.")


def sweep_headline(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> Headline:
    """The best run, how much the choice matters, and which parameter matters most."""
    best, worst = min(rows, key=_rank), max(rows, key=lambda row: float(row["jct_mean_s"]))
    chosen = ", ".join(f"{short(name)} = {_word(best[name])}" for name in names) or str(best["policy"])
    lead = f"Lowest mean JCT: {told(best['jct_mean_s'], SPAN)} with {chosen}"
    times = float(worst["jct_mean_s"]) / float(best["jct_mean_s"])
    lead += f"; the worst of {len(rows):,} runs takes {times:.1f} times that."
    ranges = []
    for name in names:
        means = mean_by(rows, name, "jct_mean_s")
        if len(means) > 1:
            ranges.append((max(means.values()) / min(means.values()), name))
    why = []
    if ranges:
        times, name = max(ranges)
        means = mean_by(rows, name, "jct_mean_s")
        low = min(means, key=lambda value: means[value])
        high = max(means, key=lambda value: means[value])
        why.append(
            f"{short(name)} matters most: on average over the rest, {_word(low)} gives {told(means[low], SPAN)} "
            f"and {_word(high)} {told(means[high], SPAN)} ({times:.2f}×)."
        )
    return Headline(lead, why)


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _compare_policies(page: Page, rows: Sequence[dict[str, Any]], names: Sequence[str], wanted: str) -> None:
    """The best policy against the baseline; runs that differ in nothing but the policy are pairs."""
    groups = groups_of(rows, "policy")
    pair_by = ["seed", *(name for name in names if name not in ("policy", "seed"))]
    contest = contest_of(groups, choose_baseline([*groups], wanted), pair_by)
    subject = favourite(contest)
    if subject is not None:
        headline = comparison_headline(contest, subject)
        page.add(f'<p class="why">Means over all runs: {marked(" ".join([headline.lead, *headline.why]))}</p>')


def add_effects(
    page: Page, rows: Sequence[dict[str, Any]], names: Sequence[str], metrics: Sequence[Metric]
) -> None:
    """One set of charts per figure, of which the page shows one at a time."""
    page.section("effects", "What the parameters do")
    options = "".join(f'<option value="{metric.key}">{escape(metric.title)}</option>' for metric in metrics)
    page.add(
        '<div class="bar-of-controls"><label class="pick">figure '
        f'<select class="choose" id="metric">{options}</select></label></div>'
    )
    for metric in metrics:
        page.add(f'<div data-part-of="metric" data-part="{metric.key}">')
        charts = [effect_chart(rows, name, metric) for name in names]
        heats = [heat_chart(rows, first, second, metric) for first, second in _pairs(rows, names)[:3]]
        page.add_charts([*charts, *heats])
        page.add("</div>")


def unit_of(name: str) -> str:
    """The unit of a parameter, from the end of its name."""
    units = {"_s": "seconds", "_gbps": "GB/s", "_bytes": "bytes", "policy": "name"}
    return next((unit for ending, unit in units.items() if name.endswith(ending)), "value")


def metric_axis(metric: Metric, high: float) -> Axis:
    """An axis for a figure."""
    if metric.unit == SPAN:
        return span_axis(metric.title, high)
    if metric.unit == SHARE:
        return share_axis(metric.title, min(high, 1.0))
    return count_axis(metric.title, high)


def effect_chart(rows: Sequence[dict[str, Any]], name: str, metric: Metric) -> Chart:
    """A figure over one parameter: each run a dot, and the mean over the others."""
    means = mean_by(rows, name, metric.key)
    values = [float(row[metric.key]) for row in rows]
    y = metric_axis(metric, max(values))
    note = "Small: every run. Large: their mean."
    numbers = [float(value) for value in means if is_number(value)]
    if len(numbers) == len(means) and len(numbers) > 1:
        low, high = min(numbers), max(numbers)
        x = (
            log_count_axis(short(name), low, high, unit_of(name))
            if low > 0 and high / low >= 20
            else count_axis(short(name), high, unit_of(name), low)
        )
        places = [float(row[name]) for row in rows]
        series = [
            Series("runs", 7, places, values, look="small"),
            Series("mean", 0, numbers, list(means.values()), look="joined"),
        ]
        return Chart(
            f"effect-{short(name)}-{metric.key}", f"{metric.title} by {short(name)}", note, DOTS, x, y, series
        )
    labels = [_word(value) for value in means]
    order = {value: float(place) for place, value in enumerate(means)}
    series = [
        Series("runs", 7, values, [order[row[name]] for row in rows], look="small"),
        Series("mean", 0, list(means.values()), list(order.values())),
    ]
    return Chart(
        f"effect-{short(name)}-{metric.key}", f"{metric.title} by {short(name)}", note, DOTS, y,
        category_axis(short(name), unit_of(name), labels), series,
    )  # fmt: skip


def _pairs(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of parameters that a table of their values can show."""
    few = [name for name in names if 2 <= len({row[name] for row in rows}) <= MOST_VALUES and short(name) != "seed"]
    return [(first, second) for place, first in enumerate(few) for second in few[place + 1 :]]


def heat_chart(rows: Sequence[dict[str, Any]], first: str, second: str, metric: Metric) -> Chart:
    """The mean of a figure by two parameters."""
    across, down = list(mean_by(rows, first, metric.key)), list(mean_by(rows, second, metric.key))
    cells = []
    for low in down:
        here = mean_by([row for row in rows if row[second] == low], first, metric.key)
        cells.append([here.get(high, float("nan")) for high in across])
    known = [value for row in cells for value in row if value == value]
    lowest = min(known)
    z = metric_axis(metric, max(known))
    z = Axis(z.title, "from low to high", "linear", lowest, max(max(known), lowest + 1e-9), z.ticks, z.reads)
    return Chart(
        f"pair-{short(first)}-{short(second)}-{metric.key}",
        f"{metric.title} by {short(first)} and {short(second)}",
        "Mean over the rest.", HEAT,
        category_axis(short(first), unit_of(first), [_word(value) for value in across]),
        category_axis(short(second), unit_of(second), [_word(value) for value in down]),
        edges=[place - 0.5 for place in range(len(across) + 1)],
        cells=[[value if value == value else -1.0 for value in row] for row in cells], z=z,
    )  # fmt: skip
