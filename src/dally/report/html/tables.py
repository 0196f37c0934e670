"""The tables of a page, as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from dally.metrics.comparison import METRICS, NOISE, Entry, Metric, best_labels, change
from dally.report.time_text import brief


def told(value: float, unit: str) -> str:
    """A figure as people read it."""
    if unit == "span":
        return brief(value, in_table=True)
    if unit == "share":
        return f"{value * 100:.1f} %"
    return f"{value:,.0f}"


def heading(title: str, left: bool = False) -> str:
    """A heading to sort by."""
    kind = ' class="left"' if left else ""
    return f'<th scope="col"{kind}><button type="button">{escape(title)}</button></th>'


def comparison_table(found: Sequence[Entry], baseline: str, links: dict[str, str]) -> str:
    """Policies by figures: means, spread over seeds, change against the baseline, times the bound, best marked."""
    base = next(entry for entry in found if entry.label == baseline)
    metrics = [metric for metric in METRICS if all(metric.key in entry.means for entry in found)]
    metrics = [metric for metric in metrics if any(entry.means[metric.key] for entry in found)]
    best = {metric.key: best_labels(found, metric) for metric in metrics}
    rows = []
    for entry in found:
        name = escape(entry.label)
        name = f'<a href="{escape(links[entry.label])}">{name}</a>' if entry.label in links else name
        tag = '<span class="tag">baseline</span>' if entry is base else ""
        cells = "".join(_cell(entry, base, metric, entry.label in best[metric.key]) for metric in metrics)
        rows.append(f'<tr><td data-value="{escape(entry.label)}">{name}{tag}</td>{cells}</tr>')
    head = heading("policy", left=True) + "".join(heading(metric.title) for metric in metrics)
    return _table(head, rows, _bound_row(base, metrics))


def _cell(entry: Entry, base: Entry, metric: Metric, is_best: bool) -> str:
    value = entry.means[metric.key]
    spread = entry.spreads[metric.key]
    lines = [f"±&thinsp;{told(spread, metric.unit)}"] if entry.runs > 1 and spread > 0 else []
    by = change(value, base.means[metric.key])
    if entry is not base and by is not None:
        lines.append(_change(by, metric))
    over = entry.over_bound(metric)
    if over is not None:
        lines.append(f"{over:.2f}× bound")
    under = "".join(f'<span class="sub">{line}</span>' for line in lines)
    star = '<span class="star" title="best in this column">★</span> ' if is_best else ""
    kind = ' class="best"' if is_best else ""
    return f'<td{kind} data-value="{value!r}">{star}{told(value, metric.unit)}{under}</td>'


def _change(by: float, metric: Metric) -> str:
    """A change in percent, in the colour of better or worse if it is more than noise."""
    sign = "+" if by > 0 else "−"
    text = f"{sign}{abs(by) * 100:,.0f} %" if abs(by) < 10 else f"×{by + 1:,.0f}"
    if abs(by) < 0.005:
        return "0 %"
    if abs(by) < NOISE or metric.lower_is_better is None:
        return text
    better = (by < 0) == metric.lower_is_better
    return f'<span class="{"better" if better else "worse"}">{text}</span>'


def _bound_row(base: Entry, metrics: Sequence[Metric]) -> str:
    cells = "".join(
        f"<td>{told(base.means[metric.bound], metric.unit) if base.means.get(metric.bound) else ''}</td>"
        for metric in metrics
    )
    return (
        f'<tr class="bound"><td>lower bound</td>{cells}</tr>'
        if any(base.means.get(m.bound) for m in metrics)
        else ""
    )


def _table(head: str, rows: Sequence[str], foot: str = "") -> str:
    below = f"<tfoot>{foot}</tfoot>" if foot else ""
    return (
        f'<div class="tablebox"><table class="sortable"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody>{below}</table></div>"
    )


def sweep_table(rows: Sequence[dict[str, Any]], names: Sequence[str], metrics: Sequence[Metric]) -> str:
    """One row per run: what was varied, and its figures, best marked."""
    best = {
        metric.key: (min if metric.lower_is_better else max)(
            (row[metric.key] for row in rows if row.get(metric.key) is not None), default=None
        )
        for metric in metrics
        if metric.lower_is_better is not None
    }
    lines = []
    for row in rows:
        varied = "".join(
            f'<td class="left" data-value="{escape(_text(row[name]))}">{escape(_text(row[name]))}</td>'
            for name in names
        )
        lines.append(
            f"<tr>{varied}{''.join(_plain_cell(row, metric, best.get(metric.key)) for metric in metrics)}</tr>"
        )
    head = "".join(heading(name.removeprefix("set."), left=True) for name in names)
    return _table(head + "".join(heading(metric.title) for metric in metrics), lines)


def _plain_cell(row: dict[str, Any], metric: Metric, best: float | None) -> str:
    value = row.get(metric.key)
    if value is None:
        return '<td data-value="">–</td>'
    star = '<span class="star" title="best in this column">★</span> ' if value == best else ""
    kind = ' class="best"' if value == best else ""
    return f'<td{kind} data-value="{float(value)!r}">{star}{told(value, metric.unit)}</td>'


def _text(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def cards(figures: Sequence[tuple[str, str, str]]) -> str:
    """(name, value, more) as cards."""
    return (
        '<div class="figures">'
        + "".join(
            f'<div class="card"><div class="name">{escape(name)}</div><div class="value">{escape(value)}</div>'
            f'<div class="more">{escape(more)}</div></div>'
            for name, value, more in figures
        )
        + "</div>"
    )
