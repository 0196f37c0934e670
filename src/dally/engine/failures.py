"""When machines fail and come back: from a list, or at a rate."""

from __future__ import annotations

from math import log1p

from mypy_extensions import i64, mypyc_attr

from dally.engine.draws import uniform
from dally.heap import IndexedHeap
from dally.model import FAIL, INFINITY, REPAIR, Event
from dally.pickles import picklable


@mypyc_attr(allow_interpreted_subclasses=True)
class Failures:
    """No failures. Subclasses say when a machine next goes down and comes up."""

    def next_fail_s(self, machine: i64, now: float) -> float:
        """When a machine that is up at `now` fails next."""
        return INFINITY

    def next_repair_s(self, machine: i64, now: float) -> float:
        """When a machine that failed at `now` is back."""
        return INFINITY


class ListedFailures(Failures):
    """Outages (machine, fail_s, repair_s) as an operator's log gives them."""

    def __init__(self, outages: list[tuple[int, float, float]]) -> None:
        self._outages: dict[int, list[tuple[float, float]]] = {}
        for machine, fail_s, repair_s in outages:
            self._outages.setdefault(machine, []).append((fail_s, repair_s))
        for rows in self._outages.values():
            rows.sort()

    def next_fail_s(self, machine: i64, now: float) -> float:
        for fail_s, repair_s in self._outages.get(int(machine), []):
            if repair_s > now:
                return max(fail_s, now)  # it may be down already when the clock starts
        return INFINITY

    def next_repair_s(self, machine: i64, now: float) -> float:
        """Overlapping outages are one: the machine is back when the last of them ends."""
        back = now
        for fail_s, repair_s in self._outages.get(int(machine), []):
            if fail_s <= back and repair_s > back:
                back = repair_s
        return back


picklable(ListedFailures, [])


class RandomFailures(Failures):
    """Each machine fails after exponentially distributed times, and is back after `repair_s`.

    Draws depend on seed, machine and count alone, so failures fall the same under every policy.
    """

    def __init__(self, per_machine_day: float, repair_s: float, seed: i64) -> None:
        self._mean_s: float = 86400.0 / per_machine_day
        self._repair_s: float = repair_s
        self._seed: i64 = seed
        self._counts: dict[int, int] = {}

    def next_fail_s(self, machine: i64, now: float) -> float:
        count = self._counts.get(int(machine), 0)
        self._counts[int(machine)] = count + 1
        return now - self._mean_s * log1p(-uniform(self._seed, machine, count))

    def next_repair_s(self, machine: i64, now: float) -> float:
        return now + self._repair_s


picklable(RandomFailures, 1.0, 0.0, 0)


class Outages:
    """What comes next of each machine: it fails, or it is repaired."""

    __slots__ = ("_failures", "_next")

    def __init__(self, failures: Failures, machines: i64, now: float) -> None:
        self._failures: Failures = failures
        self._next: IndexedHeap = IndexedHeap()  # by machine; the tie is FAIL or REPAIR
        for machine in range(machines):
            fail_s = failures.next_fail_s(machine, now)
            if fail_s < INFINITY:
                self._next.put(machine, fail_s, float(FAIL))

    def next_s(self) -> float:
        """When the next machine fails or is repaired."""
        return self._next.key(self._next.first()) if len(self._next) > 0 else INFINITY

    def collect(self, now: float, events: list[Event]) -> None:
        """Add what happens by `now` to the events."""
        coming = self._next
        while len(coming) > 0 and coming.key(coming.first()) <= now:
            machine = coming.first()
            if int(coming.tie(machine)) == FAIL:
                events.append(Event(FAIL, None, machine))
                coming.put(machine, self._failures.next_repair_s(machine, now), float(REPAIR))
            else:
                events.append(Event(REPAIR, None, machine))
                coming.put(machine, self._failures.next_fail_s(machine, now), float(FAIL))


picklable(Outages, Failures(), 0, 0.0)
