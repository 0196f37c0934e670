"""Best fit, by hand: cluster, what is taken, the demand, and where it must go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.cluster.topology import Machine, Topology, default_tiers, grid
from dally.model import Job, make_allocation
from dally.policies.placement.best_fit import BestFit


def place(free: list[int], racks: list[int], gpus: int) -> tuple[int, list[tuple[int, int]]] | None:
    """Place a gang on machines of 8 of which `free` are free; `racks` = machines per rack."""
    names = [f"r{rack}" for rack, count in enumerate(racks) for _ in range(count)]
    cluster = Cluster(Topology(default_tiers(3), [Machine((name,), f"m{i}", 8) for i, name in enumerate(names)]))
    for machine, left in enumerate(free):
        if left < 8:
            taken = Job(machine, f"t{machine}", 0.0, 8 - left, 1.0)
            cluster.take(taken, make_allocation(0, [(machine, 8 - left)]))
    found = BestFit().place(Job(99, "j", 0.0, gpus, 1.0), 0.0, cluster)
    return None if found is None else (int(found.tier), found.parts())


@pytest.mark.parametrize(
    ("name", "free", "racks", "gpus", "expected"),
    [
        ("the fullest machine that fits", [8, 3, 5, 4], [2, 2], 4, (0, [(3, 4)])),
        ("lowest index on a tie", [8, 4, 4, 8], [2, 2], 4, (0, [(1, 4)])),
        ("a machine wins over any rack", [2, 2, 2, 8], [2, 2], 8, (0, [(3, 8)])),
        ("the fullest rack that fits", [8, 8, 8, 4], [2, 2], 12, (1, [(2, 8), (3, 4)])),
        (
            "whole machines, remainder on best fit",
            [8, 8, 4, 3, 8, 8, 8, 8],
            [4, 4],
            18,
            (1, [(0, 8), (1, 8), (3, 2)]),
        ),
        ("remainder next to its equals", [8, 8, 8, 8], [4], 20, (1, [(0, 8), (1, 8), (2, 4)])),
        ("fewest racks across the network", [8, 0, 8, 8, 6, 0], [2, 2, 2], 20, (2, [(2, 8), (3, 8), (4, 4)])),
        (
            "remainder in the rack it fits best",
            [8, 8, 4, 0, 8, 0],
            [2, 2, 2],
            19,
            (2, [(0, 8), (1, 8), (2, 3)]),
        ),
        ("everything", [1, 2, 3, 4], [2, 2], 10, (2, [(3, 4), (2, 3), (1, 2), (0, 1)])),
        ("too much", [1, 2, 3, 4], [2, 2], 11, None),
    ],
)
def test_by_hand(
    name: str, free: list[int], racks: list[int], gpus: int, expected: tuple[int, list[tuple[int, int]]] | None
) -> None:
    assert place(free, racks, gpus) == expected


def test_machines_of_different_size() -> None:
    # 4, 4 and 8 GPUs: 8 go to the large machine; 12 need it and one small one.
    machines = [Machine(("a",), "s0", 4), Machine(("a",), "s1", 4), Machine(("a",), "big", 8)]
    cluster = Cluster(Topology(default_tiers(3), machines))
    assert BestFit().place(Job(0, "j", 0.0, 8, 1.0), 0.0, cluster).parts() == [(2, 8)]  # type: ignore[union-attr]
    assert BestFit().place(Job(0, "j", 0.0, 12, 1.0), 0.0, cluster).parts() == [(2, 8), (0, 4)]  # type: ignore[union-attr]


@given(st.lists(st.integers(0, 4), min_size=16, max_size=16), st.integers(1, 64))
def test_four_tiers_closest_first_and_never_too_much(free: list[int], gpus: int) -> None:
    cluster = Cluster(grid(2, 2, 4, 4))
    for machine, left in enumerate(free):
        if left < 4:
            cluster.take(Job(machine, f"t{machine}", 0.0, 4 - left, 1.0), make_allocation(0, [(machine, 4 - left)]))
    found = BestFit().place(Job(99, "j", 0.0, gpus, 1.0), 0.0, cluster)
    groups = [[[m] for m in free], [free[i : i + 4] for i in range(0, 16, 4)], [free[:8], free[8:]], [free]]
    tiers = [tier for tier, domains in enumerate(groups) if any(sum(domain) >= gpus for domain in domains)]
    if not tiers:
        assert found is None
        return
    assert found is not None
    assert found.tier == tiers[0]
    assert sum(count for _, count in found.parts()) == gpus
    assert all(0 < count <= free[machine] for machine, count in found.parts())
    span = {machine // {0: 1, 1: 4, 2: 8, 3: 16}[int(found.tier)] for machine, _ in found.parts()}
    assert len(span) == 1
    if found.tier == 1:
        # As few machines as possible, and the rack with the fewest free GPUs that fits.
        rack = next(iter(span))
        assert sum(groups[1][rack]) == min(sum(domain) for domain in groups[1] if sum(domain) >= gpus)
        need, count = gpus, 0
        for left in sorted(groups[1][rack], reverse=True):
            if need > 0:
                need -= left
                count += 1
        assert len(found.parts()) == count
