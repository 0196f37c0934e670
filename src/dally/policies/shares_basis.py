"""The basis of a small linear program: as many columns as there are types of GPU, and one."""

from __future__ import annotations

from typing import Final, NamedTuple

EPSILON: Final = 1e-10


class Column(NamedTuple):
    """A way to share out: how far it gets, the GPUs it takes by type, and the fractions of time."""

    part: float
    used: list[float]
    fractions: list[list[float]]


class Basis:
    """Columns mixed so that they get as far as can be with the GPUs there are; idle GPUs are columns too."""

    def __init__(self, gpus: list[float], first: Column) -> None:
        """`first` must do with the GPUs."""
        size = len(gpus) + 1
        self._columns: list[Column | None] = [None] * len(gpus) + [first]  # None: idle GPUs
        self._inverse = [[1.0 if row == place else 0.0 for place in range(size)] for row in range(size)]
        for kind, used in enumerate(first.used):
            self._inverse[kind][size - 1] = -used
        self._amounts = [max(0.0, have - used) for have, used in zip(gpus, first.used, strict=True)] + [1.0]

    def value(self) -> float:
        """How far the mix gets."""
        return sum([amount * _part(column) for amount, column in zip(self._amounts, self._columns, strict=True)])

    def prices(self) -> tuple[list[float], float]:
        """What a GPU of each type is worth now, and what a whole column is."""
        size = len(self._amounts)
        found = [0.0] * size
        for row in range(size):
            part = _part(self._columns[row])
            if part != 0.0:
                for place in range(size):
                    found[place] += part * self._inverse[row][place]
        return found[:-1], found[-1]

    def enter_slack(self, prices: list[float]) -> bool:
        """Leave GPUs idle whose price is negative; False if there are none."""
        kind = min(range(len(prices)), key=lambda place: prices[place])
        if prices[kind] >= -EPSILON:
            return False
        return self._pivot(None, [row[kind] for row in self._inverse])

    def enter(self, column: Column, prices: list[float], worth: float) -> bool:
        """Take a column in if that gets farther."""
        gain = column.part - worth - sum([price * used for price, used in zip(prices, column.used, strict=True)])
        if gain <= EPSILON:
            return False
        whole = [*column.used, 1.0]
        return self._pivot(column, [sum([a * b for a, b in zip(row, whole, strict=True)]) for row in self._inverse])

    def _pivot(self, column: Column | None, change: list[float]) -> bool:
        """Exchange the column that is used up first; False if none is."""
        leaves = -1
        least = 0.0
        for row, step in enumerate(change):
            if step > EPSILON:
                ratio = self._amounts[row] / step
                if leaves < 0 or ratio < least:
                    leaves, least = row, ratio
        if leaves < 0:
            return False
        pivot = change[leaves]
        top = [value / pivot for value in self._inverse[leaves]]
        for row, step in enumerate(change):
            if row != leaves and step != 0.0:
                self._inverse[row] = [a - step * b for a, b in zip(self._inverse[row], top, strict=True)]
                self._amounts[row] = max(0.0, self._amounts[row] - step * least)
        self._inverse[leaves] = top
        self._amounts[leaves] = least
        self._columns[leaves] = column
        return True

    def mixed(self) -> list[list[float]]:
        """The fractions of time that the mix comes to."""
        used = [(amount, column) for amount, column in zip(self._amounts, self._columns, strict=True) if column]
        rows = len(used[0][1].fractions)
        return [
            [sum(amount * column.fractions[row][pool] for amount, column in used) for pool in range(pools)]
            for row, pools in ((row, len(used[0][1].fractions[0])) for row in range(rows))
        ]


def _part(column: Column | None) -> float:
    return 0.0 if column is None else column.part
