"""Adding to a cluster and taking away from it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dally.cluster.delta import change, without_links
from dally.cluster.topology import Link, Machine, Topology, default_tiers, grid
from dally.errors import InputError


def uneven() -> Topology:
    """Racks of 8+8 and 4 GPUs, with an uplink each."""
    machines = [Machine(("leaf1",), "n08", 8), Machine(("leaf1",), "n09", 8), Machine(("leaf2",), "n10", 4)]
    links = {
        ("leaf1",): Link(capacity_gbps=50.0),
        ("leaf2",): Link(capacity_gbps=25.0),
        ("leaf1", "n09"): Link(12.5),
    }
    return Topology(["machine", "switch", "network"], machines, links)


def racks(topology: Topology) -> dict[str, list[tuple[str, int]]]:
    """Machines with their GPUs by rack."""
    found: dict[str, list[tuple[str, int]]] = {name: [] for name in topology.names[1]}
    for name, parent, gpus in zip(topology.names[0], topology.parents[0], topology.gpus[0], strict=True):
        found[topology.names[1][int(parent)]].append((name, int(gpus)))
    return found


LEAF1, LEAF2 = [("n08", 8), ("n09", 8)], [("n10", 4)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # The largest switch is copied, its machines are numbered on.
        ("+1 switch", {"leaf1": LEAF1, "leaf2": LEAF2, "leaf3": [("n11", 8), ("n12", 8)]}),
        ("+ 1 Switches", {"leaf1": LEAF1, "leaf2": LEAF2, "leaf3": [("n11", 8), ("n12", 8)]}),
        # Machines go where GPUs are fewest: leaf2 has 4, then 12, then 20 against 16 of leaf1.
        ("+3 machines", {"leaf1": [*LEAF1, ("n13", 8)], "leaf2": [*LEAF2, ("n11", 8), ("n12", 8)]}),
        ("-1 switch", {"leaf2": LEAF2}),
        ("-1 machine", {"leaf1": [("n08", 8)], "leaf2": LEAF2}),
        ("-2 machines", {"leaf2": LEAF2}),  # a switch without machines is gone
        ("-1 switch, +1 machine", {"leaf2": [*LEAF2, ("n11", 4)]}),
    ],
)
def test_changes(text: str, expected: dict[str, list[tuple[str, int]]]) -> None:
    assert racks(change(uneven(), text)) == expected


def test_links_are_copied_and_can_be_dropped() -> None:
    larger = change(uneven(), "+1 switch")
    assert [link.capacity_gbps for link in larger.links[1]] == [50.0, 25.0, 50.0]
    assert [link.capacity_gbps for link in larger.links[0]] == [0.0, 12.5, 0.0, 0.0, 12.5]
    bare = without_links(larger)
    assert racks(bare) == racks(larger)
    assert all(link.facts() == Link().facts() for tier in bare.links for link in tier)


def test_machines_that_are_named_after_their_rack() -> None:
    assert racks(change(grid(2, 1, 8), "+1 rack")) == {
        "rack0": [("rack0-m0", 8)], "rack1": [("rack1-m0", 8)], "rack2": [("rack2-m0", 8)],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2 racks", "must be like '+2 racks'"),
        ("+0 machines", "must be like '+2 racks'"),
        ("+1", "must be like '+2 racks'"),
        ("", "must be like '+2 racks'"),
        ("+1 machine,", "must be like '+2 racks'"),
        ("+1 rack", "no tier is called 'rack'; this cluster has machines, switches"),
        ("+1 network", "no tier is called 'network'"),
        ("-2 switches", "there are 2, of which one must remain"),
        ("+999999999 switches", "at most 10,000,000"),
    ],
)
def test_what_cannot_be_done(text: str, message: str) -> None:
    with pytest.raises(InputError, match="--cluster-delta") as raised:
        change(uneven(), text)
    assert message in str(raised.value)


@given(
    racks=st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), min_size=1, max_size=5),
    pods=st.booleans(),
    tier=st.integers(0, 2),
    count=st.integers(1, 5),
)
def test_gpus_grow_and_shrink_as_stated(racks: list[list[int]], pods: bool, tier: int, count: int) -> None:
    depth = 4 if pods else 3
    tier = min(tier, depth - 2)
    machines = [
        Machine((f"p{rack % 2}", f"r{rack}") if pods else (f"r{rack}",), f"r{rack}-{place}", gpus)
        for rack, row in enumerate(racks)
        for place, gpus in enumerate(row)
    ]
    before = Topology(default_tiers(depth), machines)
    name = before.tiers[tier]
    sizes = sorted((int(gpus) for gpus in before.gpus[tier]), reverse=True)
    after = change(before, f"+{count} {name}s")
    assert after.total_gpus() == before.total_gpus() + count * sizes[0]
    assert len(after.names[tier]) == len(before.names[tier]) + count
    assert len(set(after.names[0])) == after.machine_count()
    assert set(before.names[0]) < set(after.names[0])
    if count < len(sizes):
        assert change(before, f"-{count} {name}").total_gpus() == sum(sizes[count:])
    assert change(after, f"-{count} {name}").total_gpus() == before.total_gpus()
