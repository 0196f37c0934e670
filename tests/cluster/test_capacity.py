"""Free capacity: what is taken is taken at every tier, and comes back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.cluster.topology import grid
from dally.errors import PolicyError
from dally.model import Allocation, Job, make_allocation


def job(gpus: int, index: int = 0) -> Job:
    return Job(index, f"j{index}", 0.0, gpus, 1.0)


@given(st.lists(st.lists(st.tuples(st.integers(0, 7), st.integers(1, 4)), min_size=1, max_size=4), max_size=12))
def test_sums_hold_at_every_tier(gangs: list[list[tuple[int, int]]]) -> None:
    cluster = Cluster(grid(2, 2, 2, 4))
    free = [4] * 8
    held: list[tuple[Job, Allocation]] = []
    for index, parts in enumerate(gangs):
        wanted = dict(parts)
        fits = all(free[machine] >= gpus for machine, gpus in wanted.items())
        one = job(sum(wanted.values()), index)
        allocation = make_allocation(3, list(wanted.items()))
        if fits:
            cluster.take(one, allocation)
            held.append((one, allocation))
            for machine, gpus in wanted.items():
                free[machine] -= gpus
        else:
            with pytest.raises(PolicyError):
                cluster.take(one, allocation)
        if len(held) > 2:
            oldest, where = held.pop(0)
            cluster.give_back(oldest, where)
            for machine, gpus in where.parts():
                free[machine] += gpus
        assert list(cluster.free[0]) == free
        assert list(cluster.free[1]) == [free[i] + free[i + 1] for i in range(0, 8, 2)]
        assert list(cluster.free[2]) == [sum(free[:4]), sum(free[4:])]
        assert cluster.free_gpus == sum(free)
        assert [int(index) for index in cluster.running] == [one.index for one, _ in held]
        for machine in range(8):
            on_it = [one for one, where in held if machine in where.machines]
            assert cluster.jobs_on[machine] == on_it


@pytest.mark.parametrize(
    ("gpus", "parts"),
    [(4, [(0, 3)]), (4, [(0, 5)]), (9, [(0, 9)]), (1, [(9, 1)]), (1, [(-1, 1)]), (4, [(0, 4), (1, 0)])],
)
def test_refuses_what_cannot_be_given(gpus: int, parts: list[tuple[int, int]]) -> None:
    cluster = Cluster.grid(1, 2, 8)
    with pytest.raises(PolicyError):
        cluster.take(job(gpus), make_allocation(1, parts))
    assert cluster.free_gpus == 16
    assert not cluster.running


def test_a_failed_machine_offers_nothing_until_repaired() -> None:
    cluster = Cluster.grid(1, 2, 8)
    cluster.fail(0)
    assert (cluster.free_gpus, cluster.free_on(0), cluster.best_domain(0, 1)) == (8, 0, 1)
    cluster.repair(0)
    assert (cluster.free_gpus, cluster.free_on(0), cluster.best_domain(0, 1)) == (16, 8, 0)
