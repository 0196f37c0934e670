"""Gangs whose GPUs come in groups that must share a machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.cluster.topology import grid
from dally.engine.failures import Failures
from dally.engine.simulate import Simulation
from dally.model import Costs, Job, make_allocation
from dally.perf.base import SpeedModel
from dally.policies.placement.best_fit import BestFit
from dally.policies.registry import POLICIES, build


def cluster_with(free: list[int], machines: int, size: int) -> Cluster:
    cluster = Cluster(grid(len(free) // machines, machines, size))
    for machine, left in enumerate(free):
        if left < size:
            taken = Job(machine, f"t{machine}", 0.0, size - left, 1.0)
            cluster.take(taken, make_allocation(0, [(machine, size - left)]))
    return cluster


def grouped(gpus: int, group: int, index: int = 99) -> Job:
    job = Job(index, f"g{index}", 0.0, gpus, 10.0)
    job.group = group
    return job


@pytest.mark.parametrize(
    ("name", "free", "gpus", "group", "expected"),
    [
        ("one machine is enough", [8, 4, 8, 8], 8, 8, (0, [(0, 8)])),
        ("halves do not count", [8, 7, 8, 8], 16, 8, (1, [(2, 8), (3, 8)])),
        ("remainder where it fits best", [8, 4, 0, 0], 12, 4, (1, [(0, 8), (1, 4)])),
        ("the fullest rack that has the groups", [8, 8, 8, 6], 12, 4, (1, [(2, 8), (3, 4)])),
        ("enough GPUs, not enough groups", [7, 7, 7, 7], 16, 8, None),
        ("across racks", [8, 2, 8, 2], 16, 8, (2, [(0, 8), (2, 8)])),
    ],
)
def test_by_hand(
    name: str, free: list[int], gpus: int, group: int, expected: tuple[int, list[tuple[int, int]]] | None
) -> None:
    found = BestFit().place(grouped(gpus, group), 0.0, cluster_with(free, 2, 8))
    assert (None if found is None else (int(found.tier), found.parts())) == expected


@given(st.lists(st.integers(0, 8), min_size=8, max_size=8), st.sampled_from([2, 4, 8]), st.integers(1, 8))
def test_groups_stay_whole_and_a_place_is_found_if_there_is_one(free: list[int], group: int, count: int) -> None:
    found = BestFit().place(grouped(group * count, group), 0.0, cluster_with(free, 4, 8))
    possible = sum(left // group for left in free) >= count
    assert (found is not None) == possible
    if found is not None:
        assert all(gpus % group == 0 and gpus <= free[machine] for machine, gpus in found.parts())
        assert sum(gpus for _, gpus in found.parts()) == group * count


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_runs_them_beside_others(policy: str) -> None:
    jobs = [Job(i, f"j{i}", 3.0 * i, 1 + i % 5, 40.0 + i) for i in range(30)]
    for index in range(0, 30, 6):
        jobs[index] = Job(index, f"j{index}", 3.0 * index, 16, 50.0)
        jobs[index].group = 8
    simulation = Simulation(
        jobs, Cluster.grid(2, 2, 8), build(policy), SpeedModel(), Costs(0.0, 1.0, 0.0), Failures()
    )
    simulation.run()
    assert all(job.finish_s > 0 for job in jobs)
