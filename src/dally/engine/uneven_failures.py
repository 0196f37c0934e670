"""Failures that are not spread evenly: a few machines cause many of them, and a rack may go down as one."""

from __future__ import annotations

from math import log1p
from typing import Final

from mypy_extensions import i64

from dally.engine.draws import uniform
from dally.engine.failures import Failures, RandomFailures
from dally.model import INFINITY
from dally.pickles import picklable

_LEMONS: Final = 9_000_001  # streams of draws
_RACKS: Final = 9_100_001
DAY_S: Final = 86400.0


def drawn_lemons(machines: i64, count: i64, seed: i64) -> list[int]:
    """The machines that are lemons."""
    ranked = [(uniform(seed, _LEMONS, machine), int(machine)) for machine in range(machines)]
    return sorted(machine for _, machine in sorted(ranked)[:count])


class LemonFailures(Failures):
    """Machines fail at `per_machine_day` on average; lemons cause `share` of all failures."""

    def __init__(
        self, machines: i64, lemons: list[int], share: float, per_machine_day: float, repair_s: float, seed: i64
    ) -> None:
        whole = per_machine_day * float(machines)
        others = float(machines - len(lemons))
        self._is_lemon: dict[int, bool] = dict.fromkeys(lemons, True)
        self._lemons: RandomFailures = RandomFailures(share * whole / float(len(lemons)), repair_s, seed)
        self._others: RandomFailures | None = None
        if share < 1.0 and others > 0.0:
            self._others = RandomFailures((1.0 - share) * whole / others, repair_s, seed)

    def next_fail_s(self, machine: i64, now: float) -> float:
        if int(machine) in self._is_lemon:
            return self._lemons.next_fail_s(machine, now)
        return INFINITY if self._others is None else self._others.next_fail_s(machine, now)

    def next_repair_s(self, machine: i64, now: float) -> float:
        return self._lemons.next_repair_s(machine, now)


picklable(LemonFailures, 2, [0], 0.5, 1.0, 1.0, 0)


class RackFailures(Failures):
    """Other failures, and outages of whole racks at a rate of their own."""

    def __init__(
        self, failures: Failures, racks: list[int], per_rack_day: float, repair_s: float, seed: i64
    ) -> None:
        """`racks`: that of each machine."""
        self._failures: Failures = failures
        self._racks: list[int] = racks
        self._mean_s: float = DAY_S / per_rack_day
        self._repair_s: float = repair_s
        self._seed: i64 = seed
        self._times: dict[int, list[float]] = {}  # of outages so far, by rack
        self._own: dict[int, float] = {}  # when a machine fails by itself

    def next_fail_s(self, machine: i64, now: float) -> float:
        own_s = self._own.get(int(machine), -1.0)
        if own_s < now:  # its own failure came, or was never asked for
            own_s = self._failures.next_fail_s(machine, now)
            self._own[int(machine)] = own_s
        return min(own_s, self._rack_s(self._racks[machine], now))

    def next_repair_s(self, machine: i64, now: float) -> float:
        if self._own.get(int(machine), INFINITY) <= now:
            return self._failures.next_repair_s(machine, now)
        return now + self._repair_s

    def _rack_s(self, rack: int, now: float) -> float:
        """The rack's first outage after that moment."""
        times = self._times.setdefault(rack, [])
        while len(times) == 0 or times[-1] <= now:
            before = times[-1] if len(times) > 0 else now
            times.append(before - self._mean_s * log1p(-uniform(self._seed, _RACKS + rack, len(times))))
        for moment in times:
            if moment > now:
                return moment
        return INFINITY


picklable(RackFailures, Failures(), [], 1.0, 1.0, 0)
