"""The tree: numbering, sizes, uneven shapes, any depth."""

from __future__ import annotations

import pytest

from dally.cluster.outline import draw
from dally.cluster.topology import Machine, Topology, default_tiers, grid
from dally.model import make_allocation


def test_grid_numbers_machines_rack_by_rack() -> None:
    topology = grid(2, 3, 8)
    assert topology.tiers == ["machine", "rack", "network"]
    assert [len(names) for names in topology.names] == [6, 2, 1]
    assert list(topology.parents[0]) == [0, 0, 0, 1, 1, 1]
    assert topology.names[0][3] == "rack1-m0"
    assert topology.total_gpus() == 48


@pytest.mark.parametrize(
    ("counts", "tiers", "domains"),
    [
        ((5, 4), ["machine", "network"], [5, 1]),
        ((2, 3, 4, 8), ["machine", "rack", "pod", "network"], [24, 6, 2, 1]),
        ((2, 1, 2, 2, 4), ["machine", "rack", "tier2", "tier3", "network"], [8, 4, 2, 2, 1]),
    ],
)
def test_grids_of_other_depths(counts: tuple[int, ...], tiers: list[str], domains: list[int]) -> None:
    topology = grid(*counts)
    assert topology.tiers == tiers
    assert [len(names) for names in topology.names] == domains


def test_children_of_a_domain_are_brought_together() -> None:
    machines = [Machine(("a",), "m0", 8), Machine(("b",), "m1", 4), Machine(("a",), "m2", 4)]
    topology = Topology(default_tiers(3), machines)
    assert topology.names[0] == ["m0", "m2", "m1"]
    assert list(topology.gpus[1]) == [12, 4]
    assert list(topology.first_children[1]) == [0, 2]


def test_same_rack_name_under_two_pods_is_two_racks() -> None:
    machines = [Machine(("p0", "r0"), "m0", 8), Machine(("p1", "r0"), "m1", 8)]
    assert Topology(default_tiers(4), machines).names[1] == ["r0", "r0"]


def test_closest_tier() -> None:
    topology = Topology(
        default_tiers(3), [Machine(("a",), "m0", 8), Machine(("a",), "m1", 4), Machine(("b",), "m2", 4)]
    )
    found = {gpus: int(topology.closest_tier(gpus)) for gpus in (1, 8, 9, 12, 13, 16, 17)}
    assert found == {1: 0, 8: 0, 9: 1, 12: 1, 13: 2, 16: 2, 17: -1}


def test_tier_of_machines() -> None:
    topology = grid(2, 2, 2, 8)
    found = {
        machines: int(topology.tier_of(make_allocation(0, [(machine, 1) for machine in machines])))
        for machines in ((3,), (5, 5), (0, 1), (0, 2), (1, 3), (0, 4), (0, 1, 7))
    }
    assert found == {(3,): 0, (5, 5): 0, (0, 1): 1, (0, 2): 2, (1, 3): 2, (0, 4): 3, (0, 1, 7): 3}


def test_drawing_folds_equal_siblings() -> None:
    machines = [Machine(("a",), f"a{i}", 8) for i in range(3)] + [Machine(("b",), "b0", 4)]
    assert draw(Topology(default_tiers(3), machines)).splitlines() == [
        "network: 28 GPUs",
        "├── a: 24 GPUs",
        "│   └── a0 … a2: 3 × 8 GPUs",
        "└── b: 4 GPUs",
        "    └── b0: 4 GPUs",
    ]
