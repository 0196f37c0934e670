"""Gangs of a simulated run: the averages against runs event by event."""

from __future__ import annotations

from statistics import mean

import pytest
from benchmarks.snapshots import Error, Snapshot, generated

from dally.perf.adadual_sharing import AdaDualContention


@pytest.fixture(scope="module")
def crowd() -> list[Snapshot]:
    """Dozens of gangs that LWF scatters over ten racks, one snapshot."""
    return generated("normal", "ada-srsf", 3)[2:]


def test_adadual_on_dozens_of_gangs(crowd: list[Snapshot]) -> None:
    errors: list[Error] = []
    for snapshot in crowd:
        for part in snapshot.parts():
            errors += part.errors(AdaDualContention(part.links), 3, adadual=True)
    assert len(errors) >= 24
    found = mean(abs(error.relative) for error in errors)
    assert found <= 0.13
    assert found < mean(abs(error.ignored) for error in errors)
