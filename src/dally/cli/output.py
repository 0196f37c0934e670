"""How commands print tables."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Literal

from dally.report.text_table import TextTable


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

    table = Table(box=SIMPLE, pad_edge=False)
    for place, name in enumerate(columns):
        justify: Literal["left", "right"] = "right" if place >= numbers_from and place not in bars else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=place == 0)
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else 160  # a file or a pipe has no width of its own
    Console(width=width, highlight=False, markup=False).print(table)


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
