"""EASY backfilling: its tree, and its promise."""

from __future__ import annotations

import pickle
from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.model import Action
from dally.policies.backfill import EasyBackfill, LengthTree
from dally.policies.placement.best_fit import BestFit
from dally.policies.queue import Queue
from dally.testing.strategies import Case, cases


@given(st.lists(st.tuples(st.integers(0, 40), st.floats(0, 100)), max_size=40), st.floats(0, 120))
def test_first_slot_at_most(steps: list[tuple[int, float]], limit: float) -> None:
    tree = LengthTree()
    lengths: dict[int, float] = {}
    for slot, length in steps:
        tree.set(slot, length)
        lengths[slot] = length
    expected = min((slot for slot, length in lengths.items() if length <= limit), default=-1)
    assert tree.first_at_most(limit) == expected
    assert pickle.loads(pickle.dumps(tree)).first_at_most(limit) == expected


@settings(max_examples=200)
@given(cases())
def test_the_head_starts_no_later_than_promised(case: Case) -> None:
    # Without failures a reservation, once given to a job at the head, can only move forward.
    promises: dict[int, float] = {}

    class Watched(EasyBackfill):
        def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
            yield from super().schedule(now, queue, cluster)
            head = queue.best()
            if head is not None:
                ends = sorted((job.expected_finish_s(), int(job.gpus)) for job in cluster.running.values())
                free = int(cluster.free_gpus)
                for end, gpus in ends:
                    free += gpus
                    if free >= head.gpus:
                        promise = promises.setdefault(int(head.index), end)
                        assert end <= promise + 1e-6
                        break

    calm = Case(case.machines, case.jobs, costs=case.costs)
    simulation = calm.run(Watched(BestFit()))
    for index, promise in promises.items():
        assert simulation.jobs[index].start_s <= promise + 1e-6
    for job in simulation.jobs:
        assert job.finish_s >= 0.0
