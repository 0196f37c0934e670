"""Points as columns, and slots and fragmentation as the engine counts them."""

from __future__ import annotations

from dally.cluster.capacity import Cluster
from dally.cluster.slots import fragmentation, slots
from dally.cluster.topology import grid
from dally.metrics.trends import Point, fragmented_share, size_class, slots_at, trends_of
from dally.model import Job, make_allocation


def test_points_become_columns_with_what_is_not_known_left_open() -> None:
    points = [Point({"gpus_used": 4.0}, {16: (0.0, 600.0)}), Point({"gpus_used": 5.0, "preemptions": 1.0})]
    found = trends_of([60.0, 120.0], [1060.0, 1120.0], 60.0, points, ["machine", "rack", "network"])
    assert {one.name: one.values for one in found.series} == {
        "gpus_used": [4.0, 5.0],
        "preemptions": [None, 1.0],
        "timer_16_network": [10.0, None],
    }
    assert [one.label for one in found.of("timers")] == ["16 GPUs, network"]


def test_slots_and_fragmentation_are_those_of_the_engine() -> None:
    cluster = Cluster(grid(2, 3, 8))
    cluster.take(Job(0, "a", 0.0, 13, 1.0), make_allocation(1, [(0, 5), (1, 8)]))
    free = [[int(gpus) for gpus in row] for row in cluster.free]
    for gpus in (8, 16, 32, 64):
        tier = int(cluster.topology.closest_tier(gpus))
        assert slots_at(free, tier, gpus) == (slots(cluster, gpus)[tier] if tier >= 0 else 0)
    assert fragmented_share(free[0], 8) == fragmentation(cluster)


def test_classes_of_size_are_those_of_the_slots() -> None:
    assert [size_class(gpus) for gpus in (1, 8, 9, 16, 32, 33, 64, 65)] == [
        "1",
        "1",
        "9",
        "9",
        "17",
        "33",
        "33",
        "65",
    ]
