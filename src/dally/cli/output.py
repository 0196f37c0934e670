"""How commands print tables."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Literal


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], numbers_from: int = 99, bars: Sequence[int] = ()
) -> None:
    """Print a table; columns from `numbers_from` on are aligned right, but for `bars`."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE if any(columns) else None, show_header=any(columns), pad_edge=False)
    for place, name in enumerate(columns):
        justify: Literal["left", "right"] = "right" if place >= numbers_from and place not in bars else "left"
        table.add_column(name, justify=justify, overflow="fold", no_wrap=place == 0)
    for row in rows:
        table.add_row(*row)
    width = None if sys.stdout.isatty() else 160  # a file or a pipe has no width of its own
    Console(width=width, highlight=False, markup=False).print(table)
