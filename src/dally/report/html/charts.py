"""What a chart shows, apart from how it is drawn: the page draws it as SVG, `--figures` by way of Vega."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from dally.report.html.axes import Axis

LINES, STEPS, DOTS, STACK, HEAT = "lines", "steps", "dots", "stack", "heat"


@dataclass(frozen=True)
class Series:
    """One colour of a chart. Points (x, y); `lows` and `highs` make dots ranges: along x, or a y with numbers."""

    name: str
    colour: int  # number in the page's palette
    xs: list[float]
    ys: list[float]
    lows: list[float] = field(default_factory=list)
    highs: list[float] = field(default_factory=list)
    look: str = ""  # of dots: small, or joined by a line


@dataclass(frozen=True)
class Total:
    """What the bars of a row add up to, and the least and the most of it over runs."""

    row: float
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Chart:
    """A chart: `stack` adds up the xs of each y; `heat` has rows of `cells` between `edges`, read by `z`.

    What goes beyond an axis is cut off there, and said.
    """

    name: str  # of its file
    title: str
    note: str
    kind: str
    x: Axis
    y: Axis
    series: list[Series] = field(default_factory=list)
    edges: list[float] = field(default_factory=list)
    cells: list[list[float]] = field(default_factory=list)
    z: Axis | None = None
    totals: list[Total] = field(default_factory=list)  # of a stack: written behind its bars, with a whisker
    accents: dict[str, int] = field(default_factory=dict)  # the colour of labels that stand out

    def to_page(self) -> dict[str, Any]:
        """As the page's script reads it: plain values, numbers cut to what can be seen."""
        record = asdict(self)
        for axis, source in (("x", self.x), ("y", self.y), ("z", self.z)):
            if source is not None:
                record[axis] = {**record[axis], "title": source.full_title()}
        shown = {key: _cut(value) for key, value in record.items() if value not in ([], {}, None)}
        if self.x.epoch_s is not None:
            shown["x"] |= {"epoch_s": self.x.epoch_s, "zone": self.x.unit}  # whole: digits cut off would be days
        return shown


def _cut(value: Any) -> Any:
    """Floats with 5 significant digits, integers where they are whole."""
    if isinstance(value, float):
        short = float(f"{value:.5g}")
        return int(short) if short.is_integer() else short
    if isinstance(value, dict):
        return {key: _cut(item) for key, item in value.items() if item not in ([], None)}
    if isinstance(value, (list, tuple)):
        return [_cut(item) for item in value]
    return value
