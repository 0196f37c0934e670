"""Draws the ranks that `dally` learnt: GPU-hours per finish by age, a line for each size of gang, as an SVG file.

usage: python scripts/ranks_figure.py LEARNED.json OUT.svg

LEARNED.json is what `dally learn` wrote. The same file gives the same bytes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dally.model import Job
from dally.policies.prediction.hazard import HazardTable
from dally.policies.prediction.learned import read_table
from dally.report.figures import drawing
from dally.report.html.charts import LINES, Chart, Series, log_count_axis, log_span_axis

SIZES = (1, 4, 16, 64)
OLDEST_S = 4 * 86400.0


def line(table: HazardTable, size: int, colour: int) -> Series:
    """GPU-hours per finish at the age at which each bin begins; of a size never seen, those of any job."""
    number = table.class_of(Job(0, "", 0.0, size, 0.0))
    bins = [place for place in range(1, int(table.bins)) if table.edges_s[place] <= OLDEST_S]
    return Series(
        f"{size} GPU{'s' * (size > 1)}",
        colour,
        [table.edges_s[place] for place in bins],
        [size * table.rank_s(number, place) / 3600.0 for place in bins],
    )


def main() -> None:
    """Read what was learnt, and draw it."""
    learned, out = sys.argv[1:]
    table = HazardTable()
    table.restore(read_table(Path(learned), table))
    series = [line(table, size, colour) for colour, size in enumerate(SIZES)]
    lowest, highest = min(min(one.ys) for one in series), max(max(one.ys) for one in series)
    chart = Chart(
        "ranks",
        "",
        "",
        LINES,
        log_span_axis("age: work done so far", 30.0, OLDEST_S),
        log_count_axis("rank: expected GPU-hours per finish", lowest, highest, ""),
        series,
    )
    drawing(chart).save(out, format="svg")


if __name__ == "__main__":
    main()
