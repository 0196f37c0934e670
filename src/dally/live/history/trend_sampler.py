"""How the cluster fares, minute by minute: sampled after cycles and kept in the store for a month."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import isinf
from typing import TYPE_CHECKING, Final

import structlog

from dally.live.backends.base import DOWN
from dally.live.store.database import Store, StoreError
from dally.live.store.trend_rows import MINUTE_S, newest_minute, prune_points, read_points, write_point
from dally.metrics.trends import (
    SIZE_CLASSES,
    SLOT_SIZES,
    Point,
    Trends,
    fragmented_share,
    size_class,
    slots_at,
    trends_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from dally.cluster.topology import Topology
    from dally.live.cycle import CycleResult
    from dally.live.daemon import Daemon
    from dally.live.status import ClusterStatus

KEEP_MINUTES: Final = 30 * 24 * 60
PRUNE_EVERY: Final = 60  # minutes

log = structlog.get_logger("dally")


class TrendSampler:
    """Watches cycles: one sample a minute of the wall clock, with what happened since the one before."""

    def __init__(self, store: Store, daemon: Daemon, topology: Callable[[], Topology]) -> None:
        self._store = store
        self._daemon = daemon
        self._topology = topology
        self._minute = newest_minute(store)  # of the latest sample, before a restart too
        self._pruned = -PRUNE_EVERY
        self._preemptions = 0
        self._cycles_s: list[float] = []  # CPU time
        self._latest: tuple[ClusterStatus | None, Point] = (None, Point({}))
        daemon.watchers.append(self.on_cycle)

    def on_cycle(self, result: CycleResult, cpu_s: float) -> None:
        """After each cycle. A sample that cannot be written is worth a line in the log and no more."""
        self._preemptions += sum(row["kind"] == "preempt" for row in result.log)
        if cpu_s > 0.0:  # 0: there was no cycle
            self._cycles_s.append(cpu_s)
        minute = int(self._daemon.status.wall_s // MINUTE_S)
        if minute == self._minute:
            return
        point = self.now()
        self._minute = minute
        try:
            write_point(self._store, minute, result.now, point)
            self._preemptions = 0
            self._cycles_s = []
            if minute - self._pruned >= PRUNE_EVERY:
                self._pruned = minute
                prune_points(self._store, minute - KEEP_MINUTES)
        except StoreError as error:
            log.warning("trends_not_kept", why=str(error))

    def now(self) -> Point:
        """How things stand, and what happened since the latest sample."""
        status, point = self._latest
        if status is not self._daemon.status:  # many browsers ask for the same
            status = self._daemon.status
            point = point_of(status, self._topology())
            self._latest = (status, point)
        cycles_s = self._cycles_s or [0.0]
        happened = {
            "preemptions": float(self._preemptions),
            "cycle_ms": 1000.0 * sum(cycles_s) / len(cycles_s),
            "longest_cycle_ms": 1000.0 * max(cycles_s),
        }
        return replace(point, values=point.values | happened)

    def trends(self, from_s: float, to_s: float, most: int) -> Trends:
        """What was sampled between two moments of the engine's clock, as at most so many points."""
        at_s, minutes, width, points = read_points(self._store, from_s, to_s, most)
        wall_s = [minute * MINUTE_S for minute in minutes]
        return trends_of(at_s, wall_s, width * MINUTE_S, points, self._topology().tiers)


def point_of(status: ClusterStatus, topology: Topology) -> Point:
    """How things stand on a status."""
    placed = [line for line in status.jobs if line.tier]
    values = {
        "gpus_up": float(sum(node.gpus for node in status.nodes if node.state != DOWN)),
        "gpus_used": float(sum(sum(line.placement.values()) for line in placed)),
        "gpus_useful": sum(sum(line.placement.values()) / line.slowdown for line in placed if line.slowdown),
        "fragmentation": 100.0 * fragmented_share(status.free[0], int(topology.largest[0])) if status.free else 0.0,
    }
    for gpus in SLOT_SIZES:
        tier = int(topology.closest_tier(gpus))
        if tier >= 0 and status.free:
            values[f"slots_{gpus}"] = float(slots_at(status.free, tier, gpus))
    jobs: Counter[str] = Counter()
    demand: Counter[str] = Counter()
    for line in status.jobs:
        if line.place is not None:
            jobs[size_class(line.spec.gpus)] += 1
            demand[size_class(line.spec.gpus)] += line.spec.gpus
    for name in SIZE_CLASSES:
        values[f"waiting_jobs_{name}"] = float(jobs[name])
        values[f"waiting_gpus_{name}"] = float(demand[name])
    return Point(values, _timers(status))


def _timers(status: ClusterStatus) -> dict[int, tuple[float | None, ...]]:
    """The tuner's where there is one, else what demands were last offered."""
    timers = dict(status.timers_s)
    if not timers:
        timers = {offer.gpus: offer.timers_s for offer in status.offers if not offer.job_id}
    return {gpus: tuple(None if isinf(one_s) else one_s for one_s in timers_s) for gpus, timers_s in timers.items()}
