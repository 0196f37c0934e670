"""EASY backfilling: its tree, and its promise."""

from __future__ import annotations

import pickle
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.model import Action, Costs
from dally.policies.backfill import EasyBackfill, LengthTree
from dally.policies.placement.best_fit import BestFit
from dally.policies.placement.closest_tier import ClosestTier
from dally.policies.queue import Queue
from dally.policies.registry import build
from dally.testing.strategies import Case, cases
from tests.examples import many


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


@pytest.mark.parametrize("closest", [False, True])
@settings(max_examples=many(200))
@given(case=cases(constraints_too=False))
def test_the_head_starts_no_later_than_promised(closest: bool, case: Case) -> None:
    """Without failures a reservation, once given to a job at the head, can only move forward.

    It is for the whole cluster, or for a domain of the head's closest tier: jobs that outlast it leave that alone.
    """
    promises: dict[int, float] = {}

    class Watched(EasyBackfill):
        def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
            yield from super().schedule(now, queue, cluster)
            head = queue.best()
            if head is not None:
                tier = int(cluster.topology.closest_tier(head.gpus, head.group) if closest else cluster.root)
                room = [int(free) for free in cluster.free[tier]]
                for job in sorted(cluster.running.values(), key=lambda job: job.expected_finish_s()):
                    assert job.allocation is not None
                    for machine, gpus in zip(job.allocation.machines, job.allocation.gpus, strict=True):
                        room[int(cluster.topology.domain_of(tier, machine))] += int(gpus)
                    if max(room) >= head.gpus:
                        end_s = job.expected_finish_s()
                        assert end_s <= promises.setdefault(int(head.index), end_s) + 1e-6
                        break

    calm = Case(case.machines, case.jobs, costs=case.costs)
    simulation = calm.run(Watched(ClosestTier(BestFit()) if closest else BestFit()))
    for index, promise in promises.items():
        assert simulation.jobs[index].start_s <= promise + 1e-6
    for job in simulation.jobs:
        assert job.finish_s >= 0.0  # nobody waits for ever


def test_a_gang_held_at_its_closest_tier_does_not_starve() -> None:
    # Two machines of 4. Jobs of 2 GPUs and 40 s come every 5 s, twice what there is room for; those of 0 to 50 go
    # before the gang of 4 that comes at 52. The last of them hold machine 0 until 120 and 125, machine 1 until 130.
    # So at 95 machine 0 is reserved for 125: others start on machine 1, at 120 nobody does on machine 0.
    jobs = sorted([*((5.0 * place, 2, 40.0) for place in range(80)), (52.0, 4, 5.0)])
    case = Case([(("r",), 4), (("r",), 4)], jobs, costs=Costs(0.0, 0.0, 0.0))
    simulation = case.run(build("easy-backfill", {"tier": "closest"}))
    gang = next(job for job in simulation.jobs if job.gpus == 4)
    assert gang.start_s == 125.0
    assert sum(95.0 <= job.start_s < 125.0 for job in simulation.jobs) == 1


def test_a_job_that_may_take_what_the_constrained_head_needs_waits() -> None:
    # Two machines of 4. The head wants 6 GPUs and a CPU on each machine: at 10 both are free, with 2 GPUs to spare.
    # The third job would take 1 GPU of machine 1 for longer, and with it the head may lack more than that 1, so it
    # waits; it fits beside the head. It was once weighed again without end.
    jobs = [(0.0, 4, 10.0), (1.0, 6, 5.0), (2.0, 1, 100.0)]
    needs_a_cpu = {1: {"cpus_per_node": 1.0}}
    case = Case([(("r",), 4), (("r",), 4)], jobs, costs=Costs(0.0, 0.0, 0.0), constraints=needs_a_cpu)
    assert [job.start_s for job in case.run(build("easy-backfill")).jobs] == [0.0, 10.0, 10.0]
