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
from dally.metrics.metric_list import JCT_MEAN, MEANING, ON_PAGE, SHARE, SPAN, Metric, spread
from dally.metrics.summary import Row
from dally.metrics.sweeping import NOISE, SEED, TOGETHER, importances, is_number, mean_by, settings_of
from dally.report.comparison_tables import UNFINISHED_NOTE, as_good
from dally.report.html.charts import (
    DOTS,
    HEAT,
    STACK,
    WIDE,
    Axis,
    Chart,
    Series,
    Total,
    category_axis,
    count_axis,
    fitted_span_axis,
    log_count_axis,
    share_axis,
)
from dally.report.html.headline import Headline, comparison_headline
from dally.report.html.page import Page, marked
from dally.report.html.page_tables import best_first, column_of, sweep_table, text
from dally.report.time_text import percent

GREY = 7
MOST_VALUES = 40  # of a parameter, to have a row each


def short(name: str) -> str:
    """A varied parameter without its prefix."""
    return name.removeprefix("set.")


def label(value: Any) -> str:
    """A value of a parameter."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def unit_of(name: str) -> str:
    """The unit of a parameter, from the end of its name."""
    units = {"_s": "seconds", "_gbps": "GB/s", "_bytes": "bytes", "policy": "name"}
    return next((unit for ending, unit in units.items() if name.endswith(ending)), "value")


def metric_axis(metric: Metric, low: float, high: float) -> Axis:
    """An axis for a figure that holds these two and little more."""
    if metric.unit == SPAN:
        return fitted_span_axis(metric.title, low, high)
    if metric.unit == SHARE:
        return share_axis(metric.title, min(high, 1.0), low=low)
    return count_axis(metric.title, high, low=low if low > high / 2 else 0.0)


def importance_chart(rows: Sequence[Row], names: Sequence[str], metric: Metric) -> list[Chart]:
    """How much of the figure's variance each parameter explains; nothing if there is none."""
    result = importances(rows, names, metric.key)
    if not result or len(names) < 2:
        return []
    shares = {name: share for name, share in result.items() if name in names or share >= 0.005}
    places = {name: float(place) for place, name in enumerate(shares)}
    chosen = [name for name in shares if name in names]
    rest = [name for name in shares if name not in names]
    series = [Series("one parameter", 0, [shares[name] for name in chosen], [places[name] for name in chosen])]
    if rest:
        series.append(Series("all else", GREY, [shares[name] for name in rest], [places[name] for name in rest]))
    return [
        Chart(
            f"importance-{metric.key}", f"What matters for {metric.title}",
            "Share of the variance over all runs that a parameter explains by itself; "
            f"“{TOGETHER}”: what only their combination does; “{NOISE}”: what differs with the seed alone.",
            STACK, share_axis("explained", max(shares.values()), unit="% of the variance"),
            category_axis("parameter", "name", [short(name) for name in shares]), series,
            totals=[Total(places[name], share, share, share) for name, share in shares.items()],
        )
    ]  # fmt: skip


def effect_chart(rows: Sequence[Row], settings: Sequence[Row], name: str, metric: Metric) -> Chart:
    """A figure over one parameter: each setting a dot, and the mean over the others with its range over seeds."""
    means = mean_by(rows, name, metric.key)
    lows, highs = _ranges(rows, name, metric.key, list(means))
    shown = [row for row in settings if row.get(metric.key) is not None and row[name] is not None]
    values = [float(row[metric.key]) for row in shown]
    y = metric_axis(metric, min(*values, *lows, *means.values()), max(*values, *highs, *means.values()))
    ranged = " Lines: its least and its most over seeds." if lows else ""
    note = f"Small: every setting, the mean of its seeds. Large: the mean over all settings.{ranged}"
    title = f"{metric.title} by {short(name)}"
    numbers = [float(value) for value in means if is_number(value)]
    if len(numbers) == len(means) and len(numbers) > 1:
        series = [
            Series("settings", GREY, [float(row[name]) for row in shown], values, look="small"),
            Series("mean", 0, numbers, list(means.values()), lows, highs, look="joined"),
        ]
        return Chart(f"effect-{short(name)}-{metric.key}", title, note, DOTS, number_axis(name, numbers), y, series)
    order = {value: float(place) for place, value in enumerate(means)}
    series = [
        Series("settings", GREY, values, [order[row[name]] for row in shown], look="small"),
        Series("mean", 0, list(means.values()), list(order.values()), lows, highs),
    ]
    labels = category_axis(short(name), unit_of(name), [label(value) for value in means])
    return Chart(f"effect-{short(name)}-{metric.key}", title, note, DOTS, y, labels, series)


def number_axis(name: str, numbers: Sequence[float]) -> Axis:
    """The axis of a parameter, logarithmic if its values are far apart."""
    low, high = min(numbers), max(numbers)
    if low > 0 and high / low >= WIDE:
        return log_count_axis(short(name), low, high, unit_of(name))
    return count_axis(short(name), high, unit_of(name), low)


def _ranges(rows: Sequence[Row], name: str, key: str, values: Sequence[Any]) -> tuple[list[float], list[float]]:
    """The least and the most over seeds of the mean over all settings, for each value; nothing of one seed."""
    seeds = sorted({row[SEED] for row in rows}, key=str)
    if len(seeds) < 2:
        return [], []
    by_seed = [mean_by([row for row in rows if row[SEED] == seed], name, key) for seed in seeds]
    result = [spread(means.get(value) for means in by_seed) for value in values]
    return [one.low for one in result if one], [one.high for one in result if one]


def pairs(rows: Sequence[Row], names: Sequence[str]) -> list[tuple[str, str]]:
    """Pairs of parameters that a table of their values can show."""
    few = [name for name in names if 2 <= len({row[name] for row in rows}) <= MOST_VALUES]
    return [(first, second) for place, first in enumerate(few) for second in few[place + 1 :]]


def heat_chart(rows: Sequence[Row], first: str, second: str, metric: Metric) -> Chart:
    """The mean of a figure by two parameters."""
    across, down = list(mean_by(rows, first, metric.key)), list(mean_by(rows, second, metric.key))
    cells = []
    for low in down:
        here = mean_by([row for row in rows if row[second] == low], first, metric.key)
        cells.append([here.get(high, float("nan")) for high in across])
    known = [value for row in cells for value in row if value == value]
    lowest = min(known)
    z = metric_axis(metric, lowest, max(known))
    z = Axis(z.title, "from low to high", "linear", lowest, max(max(known), lowest + 1e-9), z.ticks, z.reads)
    return Chart(
        f"pair-{short(first)}-{short(second)}-{metric.key}",
        f"{metric.title} by {short(first)} and {short(second)}",
        "Mean over seeds and the other parameters.", HEAT,
        category_axis(short(first), unit_of(first), [label(value) for value in across]),
        category_axis(short(second), unit_of(second), [label(value) for value in down]),
        edges=[place - 0.5 for place in range(len(across) + 1)],
        cells=[[value if value == value else -1.0 for value in row] for row in cells], z=z,
    )  # fmt: skip


MOST_ROWS = 2000


def sweep_page(folder: Path, rows: Sequence[dict[str, Any]], desired: str = "") -> Page:
    """The page about all runs of a sweep; seeds are replications of a setting."""
    done = [{**row, "lost_to_network": lost_to_network(row)} for row in with_figures(rows)]
    if not done:
        raise InputError(f"{folder / 'results.parquet'}: no run in it has figures")
    names = settings_of(done)
    result = by_label(done, *names) if names else {("",): list(done)}
    contest = contest_of({str(place): here for place, here in enumerate(result.values())}, "")
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
