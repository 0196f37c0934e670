"""Tables of a comparison: one for each workload on each network, the best in every column marked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dally.metrics.row import Row
from dally.sweep.figures import HOUR_S, Figure, Spread, by_label, of_seeds, ratios, spread, unit_of

Groups = dict[str, list[Row]]  # by policy, or by whatever the lines are
NOTHING = "-"


class Cell(NamedTuple):
    """A text, and whether it is the best of its column."""

    text: str
    best: bool = False


class Table(NamedTuple):
    """Headings and lines; the first column says what a line is about."""

    headings: list[str]
    lines: list[list[Cell]]

    def marked(self) -> list[list[str]]:
        """The lines with a star at the best; the others keep its place free, so that digits stay aligned."""
        return [
            [line[0].text, *(cell.text + ("*" if cell.best else " ") for cell in line[1:])] for line in self.lines
        ]

    def markdown(self) -> str:
        """The table in Markdown, the best in bold."""
        rows = [self.headings, ["---", *["---:"] * (len(self.headings) - 1)]]
        for first, *rest in self.lines:
            name = f"`{first.text}`" if first.text in self.names() else first.text
            rows.append([name, *(f"**{cell.text}**" if cell.best else cell.text for cell in rest)])
        return "".join(f"| {' | '.join(row)} |\n" for row in rows)

    def names(self) -> list[str]:
        """What stands in the first column, bounds aside."""
        return [line[0].text for line in self.lines if line[0].text != BOUND]


BOUND = "at least"


def groups_of(rows: Iterable[Row], *labels: str) -> Groups:
    """Rows by these labels joined to one text."""
    return {" ".join(str(part) for part in key): found for key, found in by_label(rows, *labels).items()}


def absolute(groups: Groups, figures: Sequence[Figure], in_hours: bool = False, bounded: bool = True) -> Table:
    """Means and spread over seeds. Of figures with a bound, how many times it; the bounds last."""
    columns = [[*groups]]
    headings = [""]
    best: list[set[int]] = [set()]
    bounds = [BOUND]
    everyone = [row for rows in groups.values() for row in rows]
    usual = unit_of(spread(row["jct_mean_s"] for row in rows) for rows in groups.values())
    unit_name, unit_s = ("h", HOUR_S) if in_hours else usual  # one for all, so that columns compare
    for figure in figures:
        found = [spread(row.get(figure.field) for row in rows) for rows in groups.values()]
        unit = unit_s if figure.in_seconds else 1.0
        headings.append(f"{figure.heading}, {unit_name}" if figure.in_seconds else figure.heading)
        columns.append([one.shown(unit) if one else NOTHING for one in found])
        best.append(_best(groups, found, columns[-1]))
        bound = of_seeds(everyone, figure.bound) if figure.bound else None
        bounds.append(bound.shown(unit) if bound else "")
        if figure.bound and bounded:
            times = [ratios(rows, figure.field, rows, figure.bound) for rows in groups.values()]
            headings.append("÷ bound")
            columns.append([f"{one.mean:,.2f}" if one else NOTHING for one in times])
            best.append(set())
            bounds.append("")
    lines = [
        [Cell(column[place], place in stars) for column, stars in zip(columns, best, strict=True)]
        for place in range(len(groups))
    ]
    return Table(headings, [*lines, [Cell(text) for text in bounds]] if bounded else lines)


def relative(groups: Groups, figures: Sequence[Figure], baseline: str) -> Table:
    """Change from the baseline in percent, seed by seed."""
    columns = [[*groups]]
    for figure in figures:
        found = [ratios(rows, figure.field, groups[baseline], figure.field) for rows in groups.values()]
        columns.append([_percent(one) if one else NOTHING for one in found])
    headings = [f"against {baseline}", *(figure.heading for figure in figures)]
    return Table(headings, [[Cell(column[place]) for column in columns] for place in range(len(groups))])


def _percent(times: Spread) -> str:
    half = (times.high - times.low) / 2
    return f"{100 * (times.mean - 1):+.1f}%" + (f" ±{100 * half:.1f}" if half > 0 else "")


def _best(groups: Groups, found: Sequence[Spread | None], shown: list[str]) -> set[int]:
    """Places of the lowest, as it is shown. Who left jobs unfinished is out; if all are equal, so are all."""
    finished = [sum(row["finished"] for row in rows) / len(rows) for rows in groups.values()]
    known = [
        (one.mean, place) for place, one in enumerate(found) if one is not None and finished[place] == max(finished)
    ]
    if len({shown[place] for _, place in known}) < 2:
        return set()
    lowest = shown[min(known)[1]]
    return {place for _, place in known if shown[place] == lowest}
