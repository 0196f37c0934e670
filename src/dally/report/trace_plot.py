"""A trace as a picture: sizes, GPU-hours, durations and arrivals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dally.errors import InputError
from dally.whole_file import write_whole

if TYPE_CHECKING:
    import altair as alt

WIDTH: Final = 300  # pixels
HEIGHT: Final = 180
PNG_SCALE: Final = 2.0


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
        width=WIDTH, height=HEIGHT
    )
