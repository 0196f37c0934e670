"""The charts of a report as SVG and PNG files, for papers: drawn by Vega, in print colours."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dally.errors import InputError
from dally.report.html.axes import UNITS, Axis
from dally.report.html.charts import DOTS, HEAT, STACK, STEPS, Chart

PALETTE = (
    "#0b62c4", "#d9590b", "#198754", "#8a4fd3", "#c2255c", "#0c8599", "#a67c00", "#9aa4b1", "#5c3a21", "#e08bb4",
    "#5b7f1e", "#334155",
)  # fmt: skip
WIDTH, HEIGHT, ROW, HEAT_ROW = 420, 240, 26, 16
PPI = 220


def write_figures(charts: Sequence[Chart], folder: Path) -> list[Path]:
    """Write every chart as NAME.svg and NAME.png; the names come from the charts."""
    written = []
    names: dict[str, int] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for chart in charts:
            names[chart.name] = names.get(chart.name, 0) + 1
            often = names[chart.name]
            stem = _file_name(chart.name) + (f"-{often}" if often > 1 else "")
            drawn = drawing(chart)
            for ending in ("svg", "png"):
                path = folder / f"{stem}.{ending}"
                temporary = folder / f".{stem}.{os.getpid()}.{ending}"
                try:
                    drawn.save(str(temporary), format=ending, ppi=PPI)
                    os.replace(temporary, path)
                finally:
                    temporary.unlink(missing_ok=True)
                written.append(path)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error}") from None
    return written


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)


def drawing(chart: Chart) -> Any:
    """The chart as Vega draws it: series by colour, axes with the page's titles and ticks."""
    import altair as alt

    layers = {DOTS: _dots, STACK: _stack, HEAT: _heat}.get(chart.kind, _lines)(chart)
    rows = len(chart.y.ticks)
    tall = HEIGHT if chart.y.scale != "category" else rows * (HEAT_ROW if chart.kind == HEAT else ROW)
    whole = alt.layer(*layers).properties(width=WIDTH, height=tall, title=chart.title)
    return whole.configure_view(stroke=None).configure_axis(titleFontWeight="normal", gridColor="#e8ebef")


def _axis(channel: Any, axis: Axis, field: str) -> Any:
    """A channel of Vega-Lite for a number, with the ticks and the title of the axis."""
    import altair as alt

    if axis.scale == "category":
        return channel(f"{field}:N", title=axis.full_title(), sort=[label for _, label in axis.ticks])
    labels = {f"{value:.10g}": label for value, label in axis.ticks}
    words = "datum.value == " + " : datum.value == ".join(f"{value} ? {label!r}" for value, label in labels.items())
    scale = alt.Scale(type="log" if axis.scale == "log" else "linear", domain=[axis.low, axis.high], nice=False)
    ticks = alt.Axis(values=[value for value, _ in axis.ticks], labelExpr=f"{words} : ''")
    return channel(f"{field}:Q", title=axis.full_title(), scale=scale, axis=ticks)


def _rows(chart: Chart) -> list[dict[str, Any]]:
    """A row per point; places on a category axis by their label."""
    found = []
    for one in chart.series:
        for place, (x, y) in enumerate(zip(one.xs, one.ys, strict=True)):
            row: dict[str, Any] = {
                "series": one.name,
                "x": _value(chart.x, x),
                "y": _value(chart.y, y),
                "order": place,
            }
            if one.lows:
                row |= {"low": one.lows[place], "high": one.highs[place]}
            found.append(row)
    return found


def _value(axis: Axis, value: float) -> Any:
    return axis.ticks[int(value)][1] if axis.scale == "category" else max(value, axis.low)


def _colour(chart: Chart) -> Any:
    import altair as alt

    names = [one.name for one in chart.series]
    colours = [PALETTE[one.colour % len(PALETTE)] for one in chart.series]
    legend = (
        alt.Legend(title=None, orient="top", columns=4, labelLimit=320, symbolOpacity=1) if len(names) > 1 else None
    )
    return alt.Color("series:N", scale=alt.Scale(domain=names, range=colours), legend=legend, sort=names)


def _chart_of(rows: list[dict[str, Any]]) -> Any:
    import altair as alt

    return alt.Chart({"values": rows})


def _base(chart: Chart) -> Any:
    import altair as alt

    return _chart_of(_rows(chart)).encode(
        x=_axis(alt.X, chart.x, "x"), y=_axis(alt.Y, chart.y, "y"), color=_colour(chart)
    )


def _lines(chart: Chart) -> list[Any]:
    return [
        _base(chart)
        .mark_line(clip=True, interpolate="step-after" if chart.kind == STEPS else "linear")
        .encode(order="order:Q")
    ]


def _dots(chart: Chart) -> list[Any]:
    import altair as alt

    small = [one.name for one in chart.series if one.look == "small"]
    size = alt.when(alt.FieldOneOfPredicate("series", small)).then(alt.value(16)).otherwise(alt.value(55))
    layers = [_base(chart).mark_circle(opacity=0.9).encode(size=size)]
    if any(one.lows for one in chart.series):
        ranged = _base(chart).transform_filter("isValid(datum.low)").mark_rule(strokeWidth=5, opacity=0.35)
        along = {"x": _axis(alt.X, chart.x, "low"), "x2": "high:Q"}
        if chart.y.scale != "category":
            along = {"y": _axis(alt.Y, chart.y, "low"), "y2": "high:Q"}
        layers.insert(0, ranged.encode(**along))
    return layers


def _stack(chart: Chart) -> list[Any]:
    import altair as alt

    order = {one.name: place for place, one in enumerate(chart.series)}
    rows = [{**row, "order": order[row["series"]]} for row in _rows(chart)]
    base = _chart_of(rows).encode(y=_axis(alt.Y, chart.y, "y"), color=_colour(chart), order="order:Q")
    x = _axis(alt.X, chart.x, "x")
    x.stack = "zero"
    return [base.mark_bar(height=15, clip=True).encode(x=x), *_totals(chart)]


def _totals(chart: Chart) -> list[Any]:
    """The range of each bar over runs as a whisker, and the sums of those that the axis does not hold."""
    import altair as alt

    rows = [
        {
            "y": chart.y.ticks[int(one.row)][1],
            "low": one.low,
            "high": one.high,
            "label": f"{_read(chart.x, one.value)} »",
        }
        for one in chart.totals
    ]
    held = [row for row, one in zip(rows, chart.totals, strict=True) if one.value <= chart.x.high]
    cut = [row for row in rows if row not in held]
    y = _axis(alt.Y, chart.y, "y")
    whiskers = (
        _chart_of(held)
        .transform_filter("datum.high > datum.low")
        .mark_errorbar(ticks=alt.MarkConfig(size=8), color="#222", clip=True)
        .encode(x=_axis(alt.X, chart.x, "low"), x2="high:Q", y=y)
    )
    words = _chart_of(cut).mark_text(align="right", dx=-4, color="white", fontSize=10)
    return [whiskers, words.encode(x=alt.value(WIDTH), y=y, text="label:N")]


def _read(axis: Axis, value: float) -> str:
    """A value in the unit of its axis."""
    size = dict(UNITS).get(axis.unit) if axis.reads == "span" else None
    return f"{value / size:,.1f} {axis.unit}" if size else f"{value:,.3g}"


def _heat(chart: Chart) -> list[Any]:
    import altair as alt

    assert chart.z is not None
    rows: list[dict[str, Any]] = [
        {"x": chart.edges[place], "x2": chart.edges[place + 1], "y": chart.y.ticks[row][1], "z": value}
        for row, cells in enumerate(chart.cells)
        for place, value in enumerate(cells)
        if value >= 0
    ]
    z = alt.Color(
        "z:Q", title=chart.z.full_title(),
        scale=alt.Scale(scheme="blues", domain=[chart.z.low, chart.z.high]),
        legend=alt.Legend(format="%" if chart.z.reads == "share" else "~s"),
    )  # fmt: skip
    base = _chart_of(rows).encode(y=_axis(alt.Y, chart.y, "y"), color=z)
    if chart.x.scale == "category":
        named = [{**row, "x": chart.x.ticks[int(row["x"] + 0.5)][1]} for row in rows]
        base = _chart_of(named).encode(y=_axis(alt.Y, chart.y, "y"), color=z)
        return [base.mark_rect().encode(x=_axis(alt.X, chart.x, "x"))]
    return [base.mark_rect().encode(x=_axis(alt.X, chart.x, "x"), x2="x2:Q")]
