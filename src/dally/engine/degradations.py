"""When machines and links become slower, by how much, and when they are sound again: from a list, or drawn.

Components are numbered: machines first, then links. A factor says how many times as long a machine computes, or a
link transfers; 1: it is sound.
"""

from __future__ import annotations

from math import exp, log, log1p
from typing import Final

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.engine.draws import uniform
from dally.heap import IndexedHeap
from dally.model import DEGRADE, INFINITY, Event
from dally.perf.base import Speed, SpeedModel
from dally.pickles import picklable

_STREAM: Final = 8_000_001  # of draws: no other draws with it
# Greyhound's range of fail-slows, from half a minute to ten hours (arXiv 2410.12588), around their mean.
_LEAST: Final = 0.5 / 84.56
_MOST: Final = 600.0 / 84.56


def degraded(speed: SpeedModel, cluster: Cluster, component: i64, factor: float) -> list[Speed]:
    """The component has that factor from now on: the new speeds."""
    machines: i64 = len(cluster.down)
    if component < machines:
        return speed.slowed(component, factor, list(cluster.jobs_on[component]))
    return speed.narrowed(component - machines, 1.0 / factor)


class SpeedChange:
    """From a moment on a component has that factor."""

    __slots__ = ("at_s", "factor")

    def __init__(self, at_s: float, factor: float) -> None:
        self.at_s: float = at_s
        self.factor: float = factor


picklable(SpeedChange, 0.0, 1.0)


@mypyc_attr(allow_interpreted_subclasses=True)
class Degradations:
    """None. Subclasses say what comes next of each component."""

    def components(self) -> i64:
        """How many components there are."""
        return 0

    def change(self, component: i64, count: i64, now: float) -> SpeedChange | None:
        """Its change of that number, from 0; None: there are no more. `now`: when the one before came."""
        return None


class ListedDegradations(Degradations):
    """Episodes (component, factor, from_s, until_s); where some overlap, the worst counts."""

    def __init__(self, components: i64, episodes: list[tuple[int, float, float, float]]) -> None:
        self._components: i64 = components
        self._changes: dict[int, list[SpeedChange]] = {}
        rows: dict[int, list[tuple[float, float, float]]] = {}
        for component, factor, from_s, until_s in episodes:
            rows.setdefault(component, []).append((from_s, until_s, factor))
        for component, spans in rows.items():
            self._changes[component] = _changes(spans)

    def components(self) -> i64:
        return self._components

    def change(self, component: i64, count: i64, now: float) -> SpeedChange | None:
        changes = self._changes.get(int(component), [])
        return changes[count] if count < len(changes) else None


picklable(ListedDegradations, 0, [])


def _changes(spans: list[tuple[float, float, float]]) -> list[SpeedChange]:
    """When the worst factor of the spans changes."""
    moments = sorted({moment for from_s, until_s, _ in spans for moment in (from_s, until_s)})
    result: list[SpeedChange] = []
    before = 1.0
    for moment in moments:
        if moment == INFINITY:
            break
        factor = max([span for from_s, until_s, span in spans if from_s <= moment < until_s], default=1.0)
        if factor != before:
            result.append(SpeedChange(moment, factor))
            before = factor
    return result


class RandomDegradations(Degradations):
    """A share of machines, and one of links, is slow at any moment.

    An episode's factor less 1 is the stated one times 0.5 to 1.5; its length is spread over three decades, as
    measured, around the mean. Draws depend on seed, component and count alone: every policy meets the same.
    """

    def __init__(
        self, machines: i64, links: i64, machine_share: float, machine_factor: float, link_share: float,
        link_factor: float, mean_s: float, seed: i64,
    ) -> None:  # fmt: skip
        self._machines: i64 = machines
        self._links: i64 = links
        self._machine_share: float = machine_share
        self._machine_factor: float = machine_factor
        self._link_share: float = link_share
        self._link_factor: float = link_factor
        self._mean_s: float = mean_s
        self._seed: i64 = seed

    def components(self) -> i64:
        return self._machines + self._links

    def change(self, component: i64, count: i64, now: float) -> SpeedChange | None:
        share = self._machine_share if component < self._machines else self._link_share
        if share <= 0.0:
            return None
        draw = uniform(self._seed, _STREAM + component, count)
        if count % 2 == 1:  # changes alternate: this one ends an episode
            length_s = self._mean_s * exp(log(_LEAST) + draw * (log(_MOST) - log(_LEAST)))
            return SpeedChange(now + length_s, 1.0)
        begins_slow = count == 0 and uniform(self._seed, _STREAM - 1, component) < share
        sound_s = 0.0 if begins_slow else -self._mean_s * (1.0 - share) / share * log1p(-draw)
        return SpeedChange(now + sound_s, self._factor(component, count))

    def _factor(self, component: i64, count: i64) -> float:
        mean = self._machine_factor if component < self._machines else self._link_factor
        return 1.0 + (mean - 1.0) * (0.5 + uniform(self._seed + 1, _STREAM + component, count))


picklable(RandomDegradations, 0, 0, 0.0, 1.0, 0.0, 1.0, 1.0, 0)


class ComingDegradations:
    """What comes next of each component."""

    __slots__ = ("_counts", "_degradations", "_next")

    def __init__(self, degradations: Degradations, now: float) -> None:
        self._degradations: Degradations = degradations
        self._next: IndexedHeap = IndexedHeap()  # by component; the tie is the factor
        self._counts: dict[int, int] = {}
        for component in range(degradations.components()):
            self._expect(component, now)

    def _expect(self, component: i64, now: float) -> None:
        count = self._counts.get(int(component), 0)
        change = self._degradations.change(component, count, now)
        self._counts[int(component)] = count + 1
        if change is not None and change.at_s < INFINITY:
            self._next.put(component, change.at_s if change.at_s > now else now, change.factor)

    def next_s(self) -> float:
        """When the next component changes."""
        return self._next.key(self._next.first()) if len(self._next) > 0 else INFINITY

    def collect(self, now: float, events: list[Event]) -> None:
        """Add what changes by `now` to the events."""
        while len(self._next) > 0 and self._next.key(self._next.first()) <= now:
            component = self._next.pop()
            events.append(Event(DEGRADE, None, component, "", self._next.tie(component)))
            self._expect(component, now)


picklable(ComingDegradations, Degradations(), 0.0)
