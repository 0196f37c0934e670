"""Slots and fragmentation of hand-worked clusters, and what must hold of any."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.cluster.slots import fragmentation, gang_sizes, slot_table, slots
from dally.cluster.topology import Machine, Topology, grid
from dally.model import Job, make_allocation


def with_free(cluster: Cluster, free: list[int]) -> Cluster:
    """The cluster, with one job on each machine that leaves so many of its GPUs free."""
    for machine, left in enumerate(free):
        taken = int(cluster.free_on(machine)) - left
        if taken > 0:
            one = Job(machine, f"j{machine}", 0.0, taken, 1.0)
            cluster.take(one, make_allocation(0, [(machine, taken)]))
    return cluster


# Two racks of two machines of 8; free 8 + 3 in the one, 5 + 0 in the other.
BY_HAND = [8, 3, 5, 0]


@pytest.mark.parametrize(
    ("gpus", "machine", "rack", "network"),
    [
        (1, 16, 16, 16),
        (2, 4 + 1 + 2, 5 + 2, 8),
        (4, 2 + 0 + 1, 2 + 1, 4),
        (5, 1 + 0 + 1, 2 + 1, 3),
        (8, 1, 1, 2),
        (11, 0, 1, 1),
        (16, 0, 0, 1),
        (32, 0, 0, 0),
    ],
)
def test_slots_by_hand(gpus: int, machine: int, rack: int, network: int) -> None:
    assert slots(with_free(Cluster.grid(2, 2, 8), BY_HAND), gpus) == [machine, rack, network]


def test_the_table_is_the_slots_of_each_size_in_turn() -> None:
    cluster = with_free(Cluster.grid(2, 2, 8), BY_HAND)
    assert list(slot_table(cluster, [2, 8])) == [7, 7, 8, 1, 1, 2]


@pytest.mark.parametrize(
    ("free", "share"),
    [([8, 8, 8, 8], 0.0), (BY_HAND, 8 / 16), ([7, 7, 7, 7], 1.0), ([8, 4, 0, 0], 4 / 12), ([0, 0, 0, 0], 0.0)],
)
def test_fragmentation_by_hand(free: list[int], share: float) -> None:
    assert fragmentation(with_free(Cluster.grid(2, 2, 8), free)) == share


def test_small_machines_cannot_serve_a_gang_of_the_largest() -> None:
    machines = [Machine((), "big", 8), Machine((), "small", 2)]
    assert fragmentation(Cluster(Topology(["machine", "network"], machines))) == 0.2


def test_a_machine_that_is_down_has_no_slots() -> None:
    cluster = Cluster.grid(1, 2, 8)
    cluster.fail(0)
    assert slots(cluster, 4) == [2, 2, 2]
    assert fragmentation(cluster) == 0.0
    cluster.fail(1)
    assert slots(cluster, 1) == [0, 0, 0]
    assert fragmentation(cluster) == 0.0


@pytest.mark.parametrize(
    ("cluster", "sizes"),
    [
        ((1, 1, 1), [1]),
        ((1, 1, 6), [1, 2, 4]),
        ((1, 2, 8), [1, 2, 4, 8, 16]),
        ((4, 16, 8), [1, 2, 4, 8, 16, 32, 64]),
    ],
)
def test_sizes_are_powers_of_two(cluster: tuple[int, int, int], sizes: list[int]) -> None:
    assert gang_sizes(Cluster.grid(*cluster)) == sizes


@given(st.lists(st.integers(0, 4), min_size=8, max_size=8), st.integers(1, 40))
def test_farther_tiers_have_no_fewer_slots_and_none_more_than_the_free_gpus(free: list[int], gpus: int) -> None:
    cluster = with_free(Cluster(grid(2, 2, 2, 4)), free)
    counts = slots(cluster, gpus)
    assert len(counts) == 4
    assert counts == sorted(counts)
    assert counts[-1] == sum(free) // gpus
    assert all(count * gpus <= sum(free) for count in counts)
    assert 0.0 <= fragmentation(cluster) <= 1.0
