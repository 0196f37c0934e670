"""Where recorded jobs sat, by the names of machines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dally.cluster.recorded_place import Places, evenly
from dally.cluster.topology import Machine, Topology

LAB = Topology(
    ["machine", "rack", "network"],
    [Machine(("r1",), "n01", 4), Machine(("r1",), "n02", 4), Machine(("r2",), "n03", 8), Machine(("r2",), "7", 8)],
)


@pytest.mark.parametrize(
    ("nodes", "gpus", "counts", "expected"),
    [
        ("n01", 3, "", (0, [(0, 3)])),
        ("n[01-02]", 6, "", (1, [(0, 3), (1, 3)])),
        ("n[01-02]", 6, "4+2", (1, [(0, 4), (1, 2)])),
        ("n03,n01", 10, "", (2, [(0, 4), (2, 6)])),  # n01 has no more
        ("n03,n01", 9, "8+1", (2, [(0, 1), (2, 8)])),
        ("n[01-02]", 6, "5+1", (1, [(0, 3), (1, 3)])),  # more than n01 has: not so
        ("n[01-02]", 6, "6", (1, [(0, 3), (1, 3)])),
        ("n[01-02]", 9, "", None),
        ("7", 8, "", (0, [(3, 8)])),
        ("3", 8, "", None),  # a name, not the number of a machine
        ("n[01-", 1, "", None),
    ],
)
def test_places(nodes: str, gpus: int, counts: str, expected: tuple[int, list[tuple[int, int]]] | None) -> None:
    found = Places(LAB).find(nodes, gpus, counts)
    assert (found and (found.tier, found.parts())) == expected


def test_names_that_the_topology_lacks_are_told() -> None:
    places = Places(LAB)
    assert places.find("n[01,09],x", 8) is None
    assert places.find("n01", 1) is not None
    assert (list(places.missing), places.used) == (["n09", "x"], {0})


@given(st.integers(0, 60), st.lists(st.integers(1, 8), min_size=1, max_size=8))
def test_evenly(gpus: int, sizes: list[int]) -> None:
    parts = evenly(gpus, sizes)
    if gpus > sum(sizes):
        assert parts == []
        return
    assert sum(parts) == gpus
    assert all(part <= size for part, size in zip(parts, sizes, strict=True))
    most = max(parts)
    assert all(part >= most - 1 or part == size for part, size in zip(parts, sizes, strict=True))
