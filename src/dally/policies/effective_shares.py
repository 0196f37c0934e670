"""Max-min fair fractions of time over several types of GPU: Gavel's linear program, solved exactly.

For given prices of the types, the cheapest way to give a job so much throughput lies on the lower convex hull of
nothing and of (throughput there all the time, price) over the types. So the simplex method needs but one row a type
and one more: what enters its basis is found by one walk along the hulls, however many jobs there are.
"""

from __future__ import annotations

from typing import Final, NamedTuple

LEAST_PIVOT: Final = 1e-10


class ShareColumn(NamedTuple):
    """A way to share out: how far it gets, the GPUs it takes by type, and the fractions of time."""

    part: float
    used: list[float]
    fractions: list[list[float]]


class Basis:
    """Columns mixed so that they get as far as can be with the GPUs there are; idle GPUs are columns too."""

    def __init__(self, gpus: list[float], first: ShareColumn) -> None:
        """`first` must do with the GPUs."""
        size = len(gpus) + 1
        self._columns: list[ShareColumn | None] = [None] * len(gpus) + [first]  # None: idle GPUs
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
        prices = [0.0] * size
        for row in range(size):
            part = _part(self._columns[row])
            if part != 0.0:
                for place in range(size):
                    prices[place] += part * self._inverse[row][place]
        return prices[:-1], prices[-1]

    def enter_slack(self, prices: list[float]) -> bool:
        """Leave GPUs idle whose price is negative; False if there are none."""
        kind = min(range(len(prices)), key=lambda place: prices[place])
        if prices[kind] >= -LEAST_PIVOT:
            return False
        return self._pivot(None, [row[kind] for row in self._inverse])

    def enter(self, column: ShareColumn, prices: list[float], worth: float) -> bool:
        """Take a column in if that gets farther."""
        gain = column.part - worth - sum([price * used for price, used in zip(prices, column.used, strict=True)])
        if gain <= LEAST_PIVOT:
            return False
        whole = [*column.used, 1.0]
        return self._pivot(column, [sum([a * b for a, b in zip(row, whole, strict=True)]) for row in self._inverse])

    def _pivot(self, column: ShareColumn | None, change: list[float]) -> bool:
        """Exchange the column that is used up first; False if none is."""
        leaves = -1
        least = 0.0
        for row, step in enumerate(change):
            if step > LEAST_PIVOT:
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


def _part(column: ShareColumn | None) -> float:
    return 0.0 if column is None else column.part


EPSILON: Final = 1e-9
MOST_PIVOTS: Final = 2000


class Alike(NamedTuple):
    """Jobs that are alike: GPUs of all of them, and how well off one is that is always in a pool; 0: never is."""

    gpus: float
    levels: tuple[float, ...]


class Pools(NamedTuple):
    """GPUs by type, and what part of a gang in each pool is of each type."""

    gpus: list[float]
    parts: list[list[tuple[int, float]]]  # by pool: (type, part)


class _Walk(NamedTuple):
    """The cheapest ways up to a job's highest level: where the way turns, in which pools, and how steep it was."""

    levels: list[float]
    pools: list[int]  # -1: nowhere
    slopes: list[float]


class _Reached(NamedTuple):
    """How far from one list of levels to another, by which fractions, and whose way up has a price."""

    part: float
    fractions: list[list[float]]
    slopes: list[float]


def effective_shares(jobs: list[Alike], pools: Pools) -> list[list[float]]:
    """By jobs alike and pool the fraction of time, so that the worst off is as well off as can be.

    Then the worst off of those that could still have more, and so on.
    """
    tops = [max(row.levels) for row in jobs]
    levels = [0.0] * len(jobs)
    fractions = [[0.0] * len(pools.parts) for _ in jobs]
    rising = [number for number in range(len(jobs)) if tops[number] > 0.0]
    while rising:
        steps = sorted({tops[number] for number in rising})
        below, above = -1, len(steps)
        while above - below > 1:  # the farthest step to which all of them can rise
            middle = (below + above) // 2
            targets = _risen(levels, tops, rising, steps[middle])
            reached = _reach(jobs, pools, levels, targets, fractions)
            if reached.part >= 1.0 - EPSILON:
                below, levels, fractions = middle, targets, reached.fractions
            else:
                above = middle
        rising = [number for number in rising if levels[number] < tops[number]]
        if not rising:
            break
        targets = _risen(levels, tops, rising, steps[above])
        reached = _reach(jobs, pools, levels, targets, fractions)
        levels = [low + reached.part * (high - low) for low, high in zip(levels, targets, strict=True)]
        fractions = reached.fractions
        steep = EPSILON * max([reached.slopes[number] for number in rising])
        free = [number for number in rising if reached.slopes[number] <= steep]
        rising = free if len(free) < len(rising) else []
    return fractions


def _risen(levels: list[float], tops: list[float], rising: list[int], to: float) -> list[float]:
    risen = list(levels)
    for number in rising:
        risen[number] = max(levels[number], min(tops[number], to))
    return risen


def _reach(
    jobs: list[Alike], pools: Pools, low: list[float], high: list[float], fractions: list[list[float]]
) -> _Reached:
    """The farthest point between two lists of levels that the GPUs suffice for; `fractions` reach the first."""
    basis = Basis(pools.gpus, ShareColumn(0.0, _used(jobs, pools, fractions), fractions))
    slopes: list[float] = []
    for _ in range(MOST_PIVOTS):
        prices, worth = basis.prices()
        if basis.enter_slack(prices):
            continue
        walks = [_walk(row.levels, _pool_prices(pools, prices)) for row in jobs]
        part, slopes = _farthest(jobs, walks, low, high)
        points = [
            _at(walk, start + part * (end - start), len(pools.parts))
            for walk, start, end in zip(walks, low, high, strict=True)
        ]
        column = ShareColumn(part, _used(jobs, pools, points), points)
        if not basis.enter(column, prices, worth):
            break
    return _Reached(basis.value(), basis.mixed(), slopes)


def _pool_prices(pools: Pools, prices: list[float]) -> list[float]:
    return [sum([prices[kind] * part for kind, part in parts]) for parts in pools.parts]


def _used(jobs: list[Alike], pools: Pools, fractions: list[list[float]]) -> list[float]:
    """GPUs by type."""
    used = [0.0] * len(pools.gpus)
    for row, times in zip(jobs, fractions, strict=True):
        for pool, time in enumerate(times):
            if time > 0.0:
                for kind, part in pools.parts[pool]:
                    used[kind] += row.gpus * time * part
    return used


def _walk(levels: tuple[float, ...], prices: list[float]) -> _Walk:
    """The lower convex hull of levels and prices, from nothing up."""
    walk = _Walk([0.0], [-1], [])
    level = 0.0
    price = 0.0
    while True:
        best = -1
        least = 0.0
        for pool, end in enumerate(levels):
            if end > level:
                slope = max(0.0, prices[pool] - price) / (end - level)
                if best < 0 or slope < least or (slope == least and end > levels[best]):
                    best, least = pool, slope
        if best < 0:
            return walk
        level, price = levels[best], max(price, prices[best])
        walk.levels.append(level)
        walk.pools.append(best)
        walk.slopes.append(least)


def _farthest(
    jobs: list[Alike], walks: list[_Walk], low: list[float], high: list[float]
) -> tuple[float, list[float]]:
    """How far it pays to go if the whole way is worth 1, and by jobs the price of the next step from there."""
    bends: list[tuple[float, float]] = []
    for number, walk in enumerate(walks):
        way = high[number] - low[number]
        if way <= 0.0:
            continue
        before = 0.0
        for place, slope in enumerate(walk.slopes):
            start, end = walk.levels[place], walk.levels[place + 1]
            if end > low[number] and start < high[number]:
                price = jobs[number].gpus * slope * way
                bends.append((max(0.0, (start - low[number]) / way), price - before))
                before = price
    bends.sort()
    part, price = 1.0, 0.0
    for at, more in bends:
        price += more
        if price >= 1.0:
            part = at
            break
    return part, [
        _slope_at(walk, start + part * (end - start)) for walk, start, end in zip(walks, low, high, strict=True)
    ]


def _slope_at(walk: _Walk, level: float) -> float:
    for place, slope in enumerate(walk.slopes):
        if level < walk.levels[place + 1] * (1.0 - EPSILON):
            return slope
    return walk.slopes[-1] if walk.slopes else 0.0


def _at(walk: _Walk, level: float, pools: int) -> list[float]:
    """The cheapest fractions for a level."""
    times = [0.0] * pools
    for place in range(len(walk.slopes)):
        start, end = walk.levels[place], walk.levels[place + 1]
        if level <= end or place == len(walk.slopes) - 1:
            part = min(1.0, max(0.0, (level - start) / (end - start)))
            times[walk.pools[place + 1]] = part
            if place > 0:
                times[walk.pools[place]] = 1.0 - part
            return times
    return times
