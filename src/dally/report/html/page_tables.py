"""The tables of a page, as HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from statistics import median
from typing import Any, NamedTuple

from dally.metrics.comparison import ROUNDING, Contest, Entry, Standing, within_noise
from dally.metrics.metric_list import JCT_MEAN, ON_PAGE, RATIO, SHARE, SPAN, Metric, Spread
from dally.report.comparison_tables import BOUNDED
from dally.report.text_table import TextTable
from dally.report.time_text import brief
from dally.report.whatif_text import VerdictCell

NO_FIGURE = '<td data-value="">–</td>'
UNITS = (("d", 86400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0))


class Column(NamedTuple):
    """A column of figures: its metric, and the one unit that all its times are told in."""

    metric: Metric
    unit: str = ""
    size: float = 1.0

    def title(self) -> str:
        """What stands above it."""
        return f"{self.metric.short_title()}, {self.unit}" if self.unit else self.metric.short_title()

    def text(self, value: float) -> str:
        """A figure as people read it, of any size with as many digits as tell it apart."""
        if not self.unit:
            return text(value, self.metric.unit)
        value /= self.size
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def column_of(metric: Metric, entries: Sequence[Entry]) -> Column:
    """The column of a figure, times in the unit that suits most of them."""
    if metric.unit != SPAN:
        return Column(metric)
    result = median(entry.mean(metric) or 0.0 for entry in entries)
    unit, size = next((pair for pair in UNITS if result >= 1.5 * pair[1]), UNITS[-1])
    return Column(metric, unit, size)


def best_first(contest: Contest) -> list[Entry]:
    """The entries by mean completion time; those that left jobs unfinished last."""
    return sorted(contest.entries, key=lambda entry: (bool(entry.unfinished), entry.mean(JCT_MEAN) or 0.0))


def text(value: float, unit: str) -> str:
    """A figure that stands by itself as people read it."""
    if unit == SPAN:
        return brief(value, in_table=True)
    if unit == SHARE:
        return f"{value * 100:.1f} %"
    return f"{value:,.2f}" if unit == RATIO else f"{value:,.0f}"


def heading(title: str, left: bool = False) -> str:
    """A heading to sort by."""
    kind = ' class="left"' if left else ""
    return f'<th scope="col"{kind}><button type="button">{escape(title)}</button></th>'


def comparison_table(contest: Contest, links: dict[str, str], subject: str = "") -> str:
    """Policies by figures: means, spread over seeds, change against the baseline, times the bound, best marked."""
    kinds = {subject: ' class="subject"', contest.baseline: ' class="baseline"'}
    columns = [
        column_of(metric, contest.entries)
        for metric in ON_PAGE
        if any(entry.mean(metric) for entry in contest.entries)
    ]
    rows = []
    for entry in best_first(contest):
        cells = "".join(_cell(contest, entry, column) for column in columns)
        name = f"{_linked(entry.label, links)}{_tags(entry, contest)}"
        rows.append(
            f'<tr{kinds.get(entry.label, "")}><td data-value="{escape(entry.label)}">{name}</td>{cells}</tr>'
        )
    head = heading("policy", left=True) + "".join(heading(column.title()) for column in columns)
    return _table(head, rows, _bound_row(contest, columns))


def _linked(label: str, links: dict[str, str]) -> str:
    return f'<a href="{escape(links[label])}">{escape(label)}</a>' if label in links else escape(label)


def _tags(entry: Entry, contest: Contest) -> str:
    """What is to be known of the entry beside its name."""
    left = sum(entry.unfinished.values())
    parts = ["baseline"] * (entry.label == contest.baseline) + [f"{left:,} jobs unfinished †"] * (left > 0)
    return "".join(f'<span class="tag">{token}</span>' for token in parts)


def _cell(contest: Contest, entry: Entry, column: Column) -> str:
    metric = column.metric
    result = entry.standings.get(metric.key)
    if result is None:
        return NO_FIGURE
    lines = _half(result, column)
    base = contest.standing(contest.baseline, metric)
    if entry.label != contest.baseline and base and result.ratio:
        lines.append(_change(result, base, metric))
    if result.times_bound:
        lines.append(f"{result.times_bound.mean:.2f}× {metric.divisor}")
    return _value_cell(result, column, _under(lines))


def _half(result: Standing, column: Column) -> list[str]:
    """± half the range, if there is one."""
    half = result.spread.half()
    return [f"±&thinsp;{column.text(half)}"] if half > ROUNDING * abs(result.spread.mean) else []


def _under(lines: Sequence[str]) -> str:
    return "".join(f'<span class="sub">{line}</span>' for line in lines)


def _change(result: Standing, base: Standing, metric: Metric) -> str:
    """A change in percent, in the colour of better or worse if it is more than noise."""
    by = result.change() or 0.0
    text = f"{'+' if by > 0 else '−'}{abs(by) * 100:,.0f} %" if abs(by) < 10 else f"×{by + 1:,.0f}"
    if abs(by) < 0.005:
        return "0 %"
    if within_noise(result, base) or metric.lower_is_better is None:
        return text
    better = (by < 0) == metric.lower_is_better
    return f'<span class="{"better" if better else "worse"}">{text}</span>'


def _bound_row(contest: Contest, columns: Sequence[Column]) -> str:
    result = [contest.bounds.get(column.metric.key) for column in columns]
    if not any(result):
        return ""
    texts = [_bound_text(bound, column) for bound, column in zip(result, columns, strict=True)]
    return f'<tr class="bound"><td>lower bound</td>{"".join(f"<td>{text}</td>" for text in texts)}</tr>'


def _bound_text(bound: Spread | None, column: Column) -> str:
    """The bound; named where it is none: what the jobs lose alone at their closest placement."""
    if bound is None:
        return ""
    text = column.text(bound.mean)
    return text if column.metric.divisor == BOUNDED else f"{text} {column.metric.divisor}"


def _table(head: str, rows: Sequence[str], foot: str = "") -> str:
    below = f"<tfoot>{foot}</tfoot>" if foot else ""
    return (
        f'<div class="tablebox" tabindex="0"><table class="sortable"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody>{below}</table></div>"
    )


def sweep_table(entries: Sequence[Entry], names: Sequence[str], metrics: Sequence[Metric]) -> str:
    """One row per setting: what was varied, and its figures over seeds, best marked."""
    columns = [column_of(metric, entries) for metric in metrics]
    some_left = any(entry.unfinished for entry in entries)
    lines = []
    for entry in entries:
        varied = "".join(
            f'<td class="left" data-value="{escape(_text(entry.rows[0][name]))}">'
            f"{escape(_text(entry.rows[0][name]))}</td>"
            for name in names
        )
        if some_left:
            left = sum(entry.unfinished.values())
            varied += f'<td data-value="{left}">{f"{left:,} †" if left else ""}</td>'
        lines.append(f"<tr>{varied}{''.join(_plain_cell(entry, column) for column in columns)}</tr>")
    head = "".join(heading(name.removeprefix("set."), left=True) for name in names)
    head += heading("jobs unfinished") if some_left else ""
    return _table(head + "".join(heading(column.title()) for column in columns), lines)


def _plain_cell(entry: Entry, column: Column) -> str:
    result = entry.standings.get(column.metric.key)
    return _value_cell(result, column, _under(_half(result, column))) if result else NO_FIGURE


def _value_cell(result: Standing, column: Column, under: str = "") -> str:
    star = '<span class="star" title="best in this column">★</span> ' if result.best else ""
    kind = ' class="best"' if result.best else ""
    mean = result.spread.mean
    return f'<td{kind} data-value="{mean!r}">{star}{column.text(mean)}{under}</td>'


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


def text_table(table: TextTable) -> str:
    """A table of texts, as it is."""
    return cells_table(table.headings, [[VerdictCell(text) for text in line] for line in table.texts()])


def cells_table(heads: Sequence[str], lines: Sequence[Sequence[VerdictCell]], sortable: bool = False) -> str:
    """A table of cells, to sort by its headings or not."""
    plain = [
        heading(text, left=place == 0) if sortable else f'<th scope="col"{_left(place)}>{escape(text)}</th>'
        for place, text in enumerate(heads)
    ]
    rows = "".join(f"<tr>{''.join(map(_shown, line, range(len(line))))}</tr>" for line in lines)
    kind = ' class="sortable"' if sortable else ""
    head = f"<thead><tr>{''.join(plain)}</tr></thead>"
    return f'<div class="tablebox" tabindex="0"><table{kind}>{head}<tbody>{rows}</tbody></table></div>'


def _shown(cell: VerdictCell, place: int) -> str:
    shown = f'<span class="{cell.look}">{escape(cell.text)}</span>' if cell.look else escape(cell.text)
    value = "" if cell.value is None else f' data-value="{cell.value!r}"'
    return f"<td{_left(place)}{value}>{shown}</td>"


def _left(place: int) -> str:
    return ' class="left"' if place == 0 else ""
