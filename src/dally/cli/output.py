"""How commands print: tables, and names and comments of others as text, whatever they hold."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from dally.report.text_table import TextTable

OF_THE_ONE_BEFORE: Final = ("÷ bound", "÷ alone", "new", "change", "")  # headings


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], numbers_from: int = 99, bars: Sequence[int] = ()
) -> None:
    """Print a table; columns from `numbers_from` on are aligned right, but for `bars`."""
    if not any(columns):
        _print_plain(rows)
        return
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    width = None if sys.stdout.isatty() else 160  # a file or a pipe has no width of its own
    console = Console(width=width, highlight=False, markup=False)
    every = [list(range(len(columns)))]
    for places in every if bars or width else in_width(columns, rows, numbers_from, console.width):
        table = Table(box=SIMPLE, pad_edge=False)
        for place in places:
            justify: Literal["left", "right"] = "right" if place >= numbers_from and place not in bars else "left"
            table.add_column(columns[place], justify=justify, overflow="fold", no_wrap=place == 0)
        for row in rows:
            table.add_row(*(row[place] for place in places))
        console.print(table)


def in_width(
    columns: Sequence[str], rows: Sequence[Sequence[str]], numbers_from: int, width: int
) -> list[list[int]]:
    """The columns of the table, or of the several below each other that fit: figures are not cut, words seldom.

    Each of several begins with the columns that are not figures; what tells of a column stays beside it.
    """
    text = numbers_from >= len(columns)  # which may go on in the next line, but not within a word
    first = [0] if text else list(range(numbers_from))
    sizes = [
        max(
            len(part) for cell in (name, *(row[place] for row in rows)) for part in _parts(cell, text and place > 0)
        )
        for place, name in enumerate(columns)
    ]
    together: list[list[int]] = []
    for place in range(len(first), len(columns)):
        if columns[place] in OF_THE_ONE_BEFORE and together:
            together[-1].append(place)
        else:
            together.append([place])
    result = [first]
    for places in together:
        if len(result[-1]) > len(first) and _wide(sizes, [*result[-1], *places]) > width:
            result.append(first)
        result[-1] = [*result[-1], *places]
    return result


def _parts(cell: str, parts: bool) -> list[str]:
    return cell.split() or [""] if parts else [cell]


def _wide(sizes: Sequence[int], places: Sequence[int]) -> int:
    """Characters that a table of these columns takes: blanks around it, three between columns."""
    return sum(sizes[place] + 3 for place in places) - 1


def print_parts(parts: Iterable[str | TextTable]) -> None:
    """Print lines and tables one below the other."""
    for part in parts:
        if isinstance(part, str):
            print(part)
        else:
            print_table(part.headings, part.texts(), part.numbers_from)


def _print_plain(rows: Sequence[Sequence[str]]) -> None:
    """Print rows without a heading in columns. Without rich: importing it takes as long as many a run."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]) - 1)] if rows else []
    for row in rows:
        print("  ".join([*(text.ljust(width) for text, width in zip(row, widths, strict=False)), row[-1]]).rstrip())


def plain(text: str) -> str:
    """The text with every character that terminals may obey, or that changes the direction, replaced by �."""
    return text if text.isprintable() else "".join(one if one.isprintable() else "�" for one in text)


def clock_time(seconds: float) -> str:
    """An instant in seconds since 1970 as this machine's clock shows it, with the date unless that is today."""
    then = time.localtime(seconds)
    today = time.strftime("%Y-%m-%d") == time.strftime("%Y-%m-%d", then)
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", then)
