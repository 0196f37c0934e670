"""What was last told of something at a moment: rows by key, found by bisection."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, Final

import polars as pl

NONE: Final = -1


class Latest:
    """Rows of a table by the value of one column, each value's in the order of time."""

    def __init__(self, rows: pl.DataFrame, key: str, *values: str) -> None:
        """`rows` have `time_s`, which ascends; `values` are kept as lists in the order of `last`'s numbers."""
        ordered = rows.sort(key, maintain_order=True)
        self._times = array("d", ordered["time_s"].to_list())
        self.values: dict[str, list[Any]] = {name: ordered[name].to_list() for name in values}
        self._bounds: dict[Any, tuple[int, int]] = {}
        first = 0
        for name, count in ordered.group_by(key, maintain_order=True).len().iter_rows():
            self._bounds[name] = (first, first + count)
            first += count

    def __iter__(self) -> Iterator[Any]:
        """Everything of which anything was ever told."""
        return iter(self._bounds)

    def __len__(self) -> int:
        return len(self._bounds)

    def last(self, key: Any, at_s: float) -> int:
        """The number of the last row of that key up to a moment; NONE: there is none."""
        bounds = self._bounds.get(key)
        if bounds is None:
            return NONE
        found = bisect_right(self._times, at_s, *bounds) - 1
        return found if found >= bounds[0] else NONE
