"""Priced migration: what running gangs lose by not being where they would be fastest, and moves that pay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mypy_extensions import i64

from dally.cluster.capacity import Cluster
from dally.model import Action, Job
from dally.pickles import picklable
from dally.policies.dally.context import BLANK, Context
from dally.policies.dally.movable import Move
from dally.policies.dally.pricing import Prices

CLOSE: Final = 1e-6  # a sum kept up to date is farther off by far less


class Losses:
    """Running gangs on several machines, those of them that are slow, and GPUs lost to slowness.

    Kept up to date as speeds change: a pass must not look at all running jobs.
    """

    __slots__ = ("_changes", "_least_excess", "_lost", "_sum", "slow", "spread")

    def __init__(self, least_excess: float) -> None:
        self._least_excess: float = least_excess
        self.spread: dict[int, Job] = {}
        self.slow: dict[int, Job] = {}  # those whose slowdown over the best is above `least_excess`
        self._lost: dict[int, float] = {}  # GPUs that each loses, where that is not 0
        self._sum: float = 0.0  # of these, but for rounding
        self._changes: i64 = 0  # of the sum since it was last added up

    def note(self, job: Job, prices: Prices) -> None:
        """The job runs, from now on at this speed."""
        allocation = job.allocation
        if allocation is None or len(allocation.machines) < 2:
            return
        index = int(job.index)
        self.spread[index] = job
        excess = prices.excess(job) if job.rate > 0.0 else 1.0
        self._lose(index, (excess - 1.0) * float(job.gpus))
        if excess > self._least_excess:
            self.slow[index] = job
        else:
            self.slow.pop(index, None)

    def look_again(self, prices: Prices) -> None:
        """The best that gangs can hope for is another one now."""
        for job in list(self.spread.values()):
            self.note(job, prices)

    def remove(self, job: Job) -> None:
        """The job runs no more."""
        index = int(job.index)
        if index in self.spread:
            del self.spread[index]
            self.slow.pop(index, None)
            self._lose(index, 0.0)

    def _lose(self, index: int, lost: float) -> None:
        before = self._lost.get(index, 0.0)
        if lost == before:
            return
        if lost == 0.0:
            del self._lost[index]
        else:
            self._lost[index] = lost
        self._sum += lost - before
        self._changes += 1
        if self._changes > len(self._lost):  # so that rounding never builds up
            self._sum = self._added_up()
            self._changes = 0

    def _added_up(self) -> float:
        total = 0.0
        for lost in self._lost.values():
            total += lost
        return total

    def slower_than(self, most: float, running: i64) -> bool:
        """Whether the jobs that run on so many GPUs are more than `most` times slower than they could be."""
        if running <= 0:
            return most < 1.0
        slowdown = 1.0 + self._sum / float(running)
        if -CLOSE < slowdown - most < CLOSE:  # a decision must not hang on how the sum came about
            slowdown = 1.0 + self._added_up() / float(running)
        return slowdown > most


picklable(Losses, 1.0)


def by_loss(spread: dict[int, Job], now: float, context: Context) -> list[Job]:
    """Gangs at work that run slower than they could, those first that lose most GPU-seconds by it."""
    limits = context.limits
    rows: list[tuple[float, int]] = []
    for index, job in spread.items():
        if (
            job.non_preemptible
            or job.non_migratable
            or job.since_s > now
            or job.placed_s >= now
            or job.rate <= 0.0
            or not context.retries.is_due(job, now)
        ):
            continue
        excess = context.prices.excess(job)
        if excess > limits.least_excess:
            rows.append((-(excess - 1.0) * context.ranks.left_s(job) * float(job.gpus), index))
    rows.sort()
    return [spread[row[1]] for row in rows[: limits.most_moves]]


def better_place(job: Job, now: float, cluster: Cluster, context: Context) -> Move | None:
    """The closest place that saves the gang enough to pay for its restart, its own GPUs counted as free."""
    limits = context.limits
    prices = context.prices
    held = job.allocation
    assert held is not None
    left_s = context.ranks.left_s(job) * prices.best(job)
    cost_s = prices.stop_s(job, now)
    least_s = max(limits.saving * cost_s, limits.least_saving_s)
    excess = prices.excess(job)
    better: Move | None = None
    cluster.focus(job)
    trial = context.reserved.trial(cluster)
    trial.release(held)
    for tier in range(cluster.root + 1):
        place = prices.cheapest(job, cluster, tier, limits.move_domains)
        if place is None:
            continue
        saved_s = left_s * (excess - place.price)
        if saved_s > least_s:
            better = Move(job, place.allocation, cost_s, saved_s)
            break
    trial.undo()
    return better


class Migration:
    """Moves running gangs to faster places, as far as churn allows."""

    __slots__ = ("_context", "losses")

    def __init__(self, context: Context) -> None:
        self._context: Context = context
        self.losses: Losses = Losses(context.limits.least_excess)

    def moves(self, now: float, cluster: Cluster) -> Iterator[Action]:
        """Those that pay for themselves."""
        context = self._context
        for job in by_loss(self.losses.slow, now, context):
            if context.prices.spent() or not context.churn.allows():
                break
            if not context.churn.may_move(job, now):
                continue
            move = better_place(job, now, cluster, context)
            if move is None:
                context.retries.failed(job, now)
            else:
                yield context.migrate(move, None, now)


picklable(Migration, Context(*BLANK))
