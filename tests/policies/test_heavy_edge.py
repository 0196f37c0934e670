"""Heavy-edge placement against all subsets of machines."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from dally.cluster.capacity import Cluster
from dally.cluster.topology import Machine, Topology, default_tiers
from dally.model import Job, make_allocation
from dally.policies.placement.best_fit import BestFit
from dally.policies.placement.heavy_edge import HeavyEdge


def cluster_with(free: list[int], racks: list[str], most: int = 8) -> Cluster:
    """Machines of 8 in these racks, with so many GPUs free."""
    machines = [Machine((rack,), f"m{place}", most) for place, rack in enumerate(racks)]
    cluster = Cluster(Topology(default_tiers(3), machines))
    taken = [(place, most - gpus) for place, gpus in enumerate(free) if gpus < most]
    if taken:
        cluster.take(Job(99, "held", 0.0, sum(gpus for _, gpus in taken), 1.0), make_allocation(2, taken))
    return cluster


def test_fewer_machines_beat_the_fuller_rack() -> None:
    # Rack a has 16 free on 4 machines, rack b 18 on 3: best fit fills a, heavy edge takes two whole machines of b.
    cluster = cluster_with([4, 4, 4, 4, 8, 8, 2], ["a"] * 4 + ["b"] * 3)
    job = Job(0, "j", 0.0, 16, 1.0)
    best, heavy = BestFit().place(job, 0.0, cluster), HeavyEdge().place(job, 0.0, cluster)
    assert best is not None
    assert heavy is not None
    assert best.parts() == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert heavy.parts() == [(4, 8), (5, 8)]


def test_the_remainder_stays_near_and_snug() -> None:
    # 19 GPUs need 3 machines, so both racks; 8 + 8 in rack a, and of the 3 that are left over rack a's 4 fits near.
    cluster = cluster_with([8, 4, 8, 3, 5], ["a"] * 3 + ["b"] * 2)
    heavy = HeavyEdge().place(Job(0, "j", 0.0, 19, 1.0), 0.0, cluster)
    assert heavy is not None
    assert heavy.parts() == [(0, 8), (2, 8), (1, 3)]


@given(
    free=st.lists(st.integers(0, 8), min_size=6, max_size=6),
    gpus=st.integers(1, 48),
    group=st.sampled_from([1, 1, 2, 4]),
)
def test_as_few_machines_as_possible_then_as_close(free: list[int], gpus: int, group: int) -> None:
    gpus += -gpus % group
    cluster = cluster_with(free, ["a", "a", "b", "b", "b", "c"])
    job = Job(0, "j", 0.0, gpus, 1.0)
    job.group = group
    room = [gpus - gpus % group for gpus in free]
    fitting = [
        chosen
        for count in range(1, 7)
        for chosen in combinations(range(6), count)
        if sum(room[machine] for machine in chosen) >= gpus
    ]
    found = HeavyEdge().place(job, 0.0, cluster)
    if not fitting:
        assert found is None
        return
    assert found is not None
    fewest = len(fitting[0])
    racks = cluster.topology.parents[0]
    spans = {len({int(racks[machine]) for machine in chosen}) == 1 for chosen in fitting if len(chosen) == fewest}
    assert len(found.machines) == fewest
    assert (len({int(racks[machine]) for machine in found.machines}) == 1) == (True in spans)
    for machine, taken in found.parts():
        assert taken <= room[machine]
        assert taken % group == 0
    assert found.total() == gpus
