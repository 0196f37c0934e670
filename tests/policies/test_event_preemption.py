"""The frugal preemption pass against the obvious one: walk all jobs in order, keep each that fits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings

from dally.cluster.capacity import Cluster
from dally.model import Action, Preempt, Start
from dally.policies import events
from dally.policies.base import Policy
from dally.policies.events import PolicyEvent
from dally.policies.ordering.base import Order
from dally.policies.ordering.remaining import RemainingOrder, ShortestRemaining, SmallestRemaining
from dally.policies.placement.best_fit import BestFit
from dally.policies.prediction.named import make_predictor
from dally.policies.queue import Queue
from dally.policies.registry import build
from dally.testing.invariants import record_of
from dally.testing.strategies import Case, cases
from tests.examples import many


class Obvious(Policy):
    def __init__(self, order: Order) -> None:
        self.order = order
        self.predictor = order.predictor

    def on(self, event: PolicyEvent) -> None:
        job, now = event.job, event.now
        if job is None:
            self.wakeup_s = self.order.wakeup_s()
        elif event.kind == events.STARTED:
            self.order.started(job, now)
        elif event.kind == events.RERATED:
            self.order.rerated(job, now)
        elif event.kind == events.STOPPED:
            self.order.stopped(job, now)
        elif event.kind == events.FINISHED:
            self.order.finished(job, now)

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        self.order.changed(now, cluster)
        # Running jobs come before waiting ones of the same key.
        everyone = [(self.order.key(job, now), 0, int(job.index), job) for job in cluster.running.values()]
        everyone += [(queue.key(job), 1, int(job.index), job) for job in queue]
        room = cluster.topology.total_gpus() - sum(
            int(cluster.topology.gpus[0][m]) for m in range(len(cluster.down)) if cluster.down[m]
        )
        chosen, losers = [], []
        for _, waits, _, job in sorted(everyone, key=lambda row: row[:3]):
            if job.gpus <= room:
                room -= int(job.gpus)
                if waits:
                    chosen.append(job)
            elif not waits:
                losers.append(job)
        for job in losers:
            yield Preempt(job)
        for job in chosen:
            allocation = BestFit().place(job, now, cluster)
            assert allocation is not None
            yield Start(job, allocation)


ORDERS: dict[str, type[RemainingOrder]] = {"srtf": ShortestRemaining, "srsf": SmallestRemaining}


@pytest.mark.parametrize(
    ("name", "predictor"),
    [("srtf", "oracle"), ("srsf", "oracle"), ("srtf", "history"), ("srsf", "history"), ("srtf", "none")],
)
@settings(max_examples=many(160))
@given(case=cases(constraints_too=False))
def test_same_run_as_the_obvious_pass(case: Case, name: str, predictor: str) -> None:
    """Also where predictions are wrong and the keys of running jobs rise."""
    frugal = record_of(case.run(build(name, {"predictor": predictor})))
    obvious = record_of(case.run(Obvious(ORDERS[name](make_predictor(predictor)))))
    assert frugal.jobs == obvious.jobs
