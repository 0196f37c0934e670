"""Charts as files, drawn by Vega: of a report for papers, of a trace's statistics, of the results page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dally.errors import InputError, unknown
from dally.metrics.comparison import Contest
from dally.metrics.metric_list import JCT_MEAN
from dally.report.html.charts import DOTS, HEAT, STACK, STEPS, UNITS, Axis, Chart
from dally.whole_file import write_whole

if TYPE_CHECKING:
    import altair as alt


PALETTE = (
    "#0b62c4", "#d9590b", "#198754", "#8a4fd3", "#c2255c", "#0c8599", "#a67c00", "#9aa4b1", "#5c3a21", "#e08bb4",
    "#5b7f1e", "#334155",
)  # fmt: skip
WIDTH, HEIGHT, ROW, HEAT_ROW = 420, 240, 26, 16  # points
PPI = 220
BAR_CHART, PNG_SCALE = (300, 180), 2.0  # of a trace's statistics, in pixels
GREY, OTHERS = 7, "others"
POINTS_PER_MM = 72 / 25.4
FORMATS = ("pdf", "svg", "png")
SMALLEST_MM, LARGEST_MM = 20.0, 1000.0


@dataclass(frozen=True)
class Look:
    """How figures are to look: their files, their size over all, their font, with a title or without."""

    formats: tuple[str, ...] = FORMATS
    size_mm: tuple[float, float] | None = None  # None: as large as the chart needs
    font: str = ""  # "": Vega's own
    font_pt: float = 0.0  # 0: Vega's own
    title: bool = True


PLAIN = Look()


def look_of(formats: str, size: str, font: str, font_pt: float, title: bool) -> Look:
    """The look that options ask for: formats as pdf,svg, the size as 84x55 in millimetres."""
    names = tuple(dict.fromkeys(name.strip().lower() for name in formats.split(",") if name.strip()))
    for name in names:
        if name not in FORMATS:
            raise unknown("format", name, FORMATS)
    if not names:
        raise InputError(f"--format {formats}: name some of {', '.join(FORMATS)}")
    if not (font_pt == 0.0 or 3.0 <= font_pt <= 72.0):
        raise InputError(f"--font-size {font_pt:g}: must be 3 to 72 points")
    return Look(names, _size(size), font.strip(), font_pt, title)


def _size(text: str) -> tuple[float, float] | None:
    if not text:
        return None
    parts = text.lower().split("x")
    try:
        wide, tall = (float(part) for part in parts)
    except ValueError:
        raise InputError(f"--size {text}: must be WIDTHxHEIGHT in millimetres, such as 84x55") from None
    if not all(SMALLEST_MM <= side <= LARGEST_MM for side in (wide, tall)):
        raise InputError(f"--size {text}: sides must be {SMALLEST_MM:g} to {LARGEST_MM:g} mm")
    return wide, tall


def write_figures(charts: Sequence[Chart], folder: Path, look: Look | None = None) -> list[Path]:
    """Write every chart as NAME.pdf, NAME.svg and NAME.png; the names come from the charts."""
    look = look or PLAIN
    written = []
    names: dict[str, int] = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for chart in charts:
            names[chart.name] = names.get(chart.name, 0) + 1
            often = names[chart.name]
            stem = _file_name(chart.name) + (f"-{often}" if often > 1 else "")
            spec = drawing(chart, look).to_json()
            for ending in look.formats:
                path = folder / f"{stem}.{ending}"
                write_whole(path, _rendered(spec, ending))
                written.append(path)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error}") from None
    return written


def _rendered(spec: str, ending: str) -> bytes:
    """The bytes of a file; a unit of Vega is a point in all of them."""
    import vl_convert

    if ending == "png":
        return bytes(vl_convert.vegalite_to_png(spec, ppi=PPI))
    if ending == "pdf":
        return bytes(vl_convert.vegalite_to_pdf(spec))
    text = str(vl_convert.vegalite_to_svg(spec))
    return re.sub(
        r'(<svg [^>]*?) width="([\d.]+)" height="([\d.]+)"', r'\1 width="\2pt" height="\3pt"', text, count=1
    ).encode()


def _file_name(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)


def drawing(chart: Chart, look: Look = PLAIN) -> Any:
    """The chart as Vega draws it: series by colour, axes with the page's titles and ticks."""
    import altair as alt

    layers = {DOTS: _dots, STACK: _stack, HEAT: _heat}.get(chart.kind, _lines)(chart, look)
    rows = len(chart.y.ticks)
    tall = HEIGHT if chart.y.scale != "category" else rows * (HEAT_ROW if chart.kind == HEAT else ROW)
    whole = alt.layer(*layers).properties(width=WIDTH, height=tall)
    if look.size_mm:
        wide, high = (side * POINTS_PER_MM for side in look.size_mm)
        whole = whole.properties(width=wide, height=high, autosize={"type": "fit", "contains": "padding"})
    if look.title:
        whole = whole.properties(title=chart.title)
    letters = {"labelFontSize": look.font_pt, "titleFontSize": look.font_pt} if look.font_pt else {}
    whole = whole.configure(font=look.font) if look.font else whole
    whole = (
        whole.configure_line(strokeWidth=1.3 if look.size_mm else 2.0)
        .configure_view(stroke=None)
        .configure_legend(**letters)
    )
    whole = whole.configure_axis(titleFontWeight="normal", gridColor="#e8ebef", **letters)
    if look.font_pt:
        whole = whole.configure_title(fontSize=look.font_pt + 1).configure_text(fontSize=look.font_pt)
    return whole


def _axis(channel: Any, axis: Axis, field: str) -> Any:
    """A channel of Vega-Lite for a number, with the ticks and the title of the axis."""
    import altair as alt

    if axis.scale == "category":
        return channel(f"{field}:N", title=axis.full_title(), sort=[label for _, label in axis.ticks])
    labels = {f"{value:.10g}": label for value, label in axis.ticks}
    parts = "datum.value == " + " : datum.value == ".join(f"{value} ? {label!r}" for value, label in labels.items())
    scale = alt.Scale(type="log" if axis.scale == "log" else "linear", domain=[axis.low, axis.high], nice=False)
    ticks = alt.Axis(values=[value for value, _ in axis.ticks], labelExpr=f"{parts} : ''")
    return channel(f"{field}:Q", title=axis.full_title(), scale=scale, axis=ticks)


def _rows(chart: Chart) -> list[dict[str, Any]]:
    """A row per point; places on a category axis by their label."""
    result = []
    grey = _merged(chart)
    for one in sorted(chart.series, key=lambda one: one.name not in grey):  # what is drawn last is on top
        for place, (x, y) in enumerate(zip(one.xs, one.ys, strict=True)):
            row: dict[str, Any] = {
                "series": one.name,
                "shown": OTHERS if one.name in grey else one.name,
                "x": _value(chart.x, x),
                "y": _value(chart.y, y),
                "order": place,
            }
            if one.lows:
                row |= {"low": one.lows[place], "high": one.highs[place]}
            result.append(row)
    return result


def _value(axis: Axis, value: float) -> Any:
    return axis.ticks[int(value)][1] if axis.scale == "category" else max(value, axis.low)


def _merged(chart: Chart) -> set[str]:
    """The series that share the grey: one line of the legend stands for all of them."""
    grey = {one.name for one in chart.series if one.colour == GREY}
    return grey if len(grey) > 1 else set()


def _colour(chart: Chart, look: Look) -> Any:
    import altair as alt

    grey = _merged(chart)
    shown = {one.name: PALETTE[one.colour % len(PALETTE)] for one in chart.series if one.name not in grey}
    if grey:
        shown[OTHERS] = PALETTE[GREY]
    legend = None
    if len(shown) > 1:
        letter = 0.55 * (look.font_pt or 10.0)
        room = look.size_mm[0] * POINTS_PER_MM if look.size_mm else WIDTH
        columns = max(1, min(4, int(room / (max(map(len, shown)) * letter + 28))))
        legend = alt.Legend(title=None, orient="top", columns=columns, labelLimit=320, symbolOpacity=1)
    scale = alt.Scale(domain=[*shown], range=[*shown.values()])
    return alt.Color("shown:N", scale=scale, legend=legend, sort=[*shown])


def _chart_of(rows: list[dict[str, Any]]) -> Any:
    import altair as alt

    return alt.Chart({"values": rows})


def _base(chart: Chart, look: Look) -> Any:
    import altair as alt

    return _chart_of(_rows(chart)).encode(
        x=_axis(alt.X, chart.x, "x"), y=_axis(alt.Y, chart.y, "y"), color=_colour(chart, look), detail="series:N"
    )


def _lines(chart: Chart, look: Look) -> list[Any]:
    return [
        _base(chart, look)
        .mark_line(clip=True, interpolate="step-after" if chart.kind == STEPS else "linear")
        .encode(order="order:Q")
    ]


def _dots(chart: Chart, look: Look) -> list[Any]:
    import altair as alt

    small = [one.name for one in chart.series if one.look == "small"]
    size = alt.when(alt.FieldOneOfPredicate("series", small)).then(alt.value(16)).otherwise(alt.value(55))
    layers = [_base(chart, look).mark_circle(opacity=0.9).encode(size=size)]
    if any(one.lows for one in chart.series):
        ranged = _base(chart, look).transform_filter("isValid(datum.low)").mark_rule(strokeWidth=5, opacity=0.35)
        along = {"x": _axis(alt.X, chart.x, "low"), "x2": "high:Q"}
        if chart.y.scale != "category":
            along = {"y": _axis(alt.Y, chart.y, "low"), "y2": "high:Q"}
        layers.insert(0, ranged.encode(**along))
    return layers


def _stack(chart: Chart, look: Look) -> list[Any]:
    import altair as alt

    order = {one.name: place for place, one in enumerate(chart.series)}
    rows = [{**row, "order": order[row["series"]]} for row in _rows(chart)]
    base = _chart_of(rows).encode(y=_axis(alt.Y, chart.y, "y"), color=_colour(chart, look), order="order:Q")
    x = _axis(alt.X, chart.x, "x")
    x.stack = "zero"
    return [base.mark_bar(height=alt.RelativeBandSize(0.6), clip=True).encode(x=x), *_totals(chart)]


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
    parts = _chart_of(cut).mark_text(align="right", dx=-4, color="#111")
    return [whiskers, parts.encode(x=alt.value("width"), y=y, text="label:N")]


def _read(axis: Axis, value: float) -> str:
    """A value in the unit of its axis."""
    size = dict(UNITS).get(axis.unit) if axis.reads == "span" else None
    return f"{value / size:,.1f} {axis.unit}" if size else f"{value:,.3g}"


def _heat(chart: Chart, look: Look) -> list[Any]:
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


def draw_trace(figures: dict[str, Any], path: Path, title: str) -> None:
    """Write the picture as .svg or .png, by its name; `figures` are those of `statistics`."""
    import vl_convert

    kind = path.suffix.lower()
    if kind not in (".svg", ".png"):
        raise InputError(f"--plot {path}: must end in .svg or .png")
    spec = trace_chart(figures, title).to_dict()
    if kind == ".svg":
        drawn = vl_convert.vegalite_to_svg(spec).encode()
    else:
        drawn = vl_convert.vegalite_to_png(spec, scale=PNG_SCALE)
    write_whole(path, drawn)


def trace_chart(figures: dict[str, Any], title: str) -> alt.VConcatChart:
    """Four bar charts."""
    import altair as alt

    sizes = [(size["gpus"], size["jobs_share"] * 100) for size in figures["sizes"]]
    work = [(size["gpus"], (size["gpu_hours_share"] or 0.0) * 100) for size in figures["sizes"]]
    durations = [(row["duration"], row["jobs_share"] * 100) for row in figures["durations"]]
    hours = [(f"{hour:02d}", count) for hour, count in enumerate(figures["arrivals_by_hour"])]
    upper = alt.hconcat(_bars(sizes, "GPUs", "% of jobs"), _bars(work, "GPUs", "% of GPU-hours"))
    lower = alt.hconcat(_bars(durations, "runs", "% of jobs"), _bars(hours, "hour of the day", "jobs submitted"))
    text = f"{title}: {figures['rows']:,} jobs"
    return alt.vconcat(upper, lower).properties(title=text)


def _bars(rows: list[tuple[str, float]], across: str, up: str) -> alt.Chart:
    import altair as alt

    data = alt.InlineData(values=[{"x": label, "y": value} for label, value in rows])
    chart: alt.Chart = alt.Chart(data).mark_bar()
    return chart.encode(x=alt.X("x:N", title=across, sort=None), y=alt.Y("y:Q", title=up)).properties(
        width=BAR_CHART[0], height=BAR_CHART[1]
    )


BEST, WORST = 1.0, 30.0  # times the bound; beyond, one is as dark as the other


def results_figure(contests: Sequence[Contest]) -> str:
    """An SVG: a heat map of how many times the lower bound each policy takes, with the figures in it."""
    import altair as alt
    import vl_convert

    rows: list[dict[str, Any]] = [
        {
            "cell": contest.name(),
            "policy": entry.label,
            "times": result.times_bound.mean,
            "shown": f"{result.times_bound.mean:.{0 if result.times_bound.mean >= 100 else 1}f}",
        }
        for contest in contests
        for entry in contest.entries
        if (result := entry.standings.get(JCT_MEAN.key)) and result.times_bound
    ]
    policies = list(dict.fromkeys(row["policy"] for row in rows))
    columns = list(dict.fromkeys(row["cell"] for row in rows))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("cell:N", sort=columns, title="workload, network", axis=alt.Axis(labelAngle=-60, orient="top")),
        y=alt.Y("policy:N", sort=policies, title="policy (name)"),
    )
    scale = alt.Scale(type="log", domain=[BEST, WORST], scheme="yelloworangered", clamp=True)
    squares = base.mark_rect().encode(
        color=alt.Color("times:Q", scale=scale, title="mean JCT ÷ lower bound (times)")
    )
    figures = base.mark_text(fontSize=8).encode(
        text="shown:N", color=alt.condition(alt.datum.times > 10.0, alt.value("white"), alt.value("#222"))
    )
    chart = (squares + figures).properties(width=26 * len(columns), height=16 * len(policies))
    return str(vl_convert.vegalite_to_svg(chart.to_json()))
