"""Gangs of a simulated run: the averages against runs event by event."""

from __future__ import annotations

from statistics import mean, median

from benchmarks.snapshots import Error, generated

from dally.perf.adadual import AdaDualContention


def errors_of(network: str, count: int) -> list[Error]:
    """Of the latest of so many snapshots of gangs that LWF scatters over ten racks."""
    found: list[Error] = []
    for part in generated(network, "ada-srsf", count)[-1].parts():
        found += part.errors(AdaDualContention(part.links), 3, adadual=True)
    assert len(found) >= 24
    return found


def test_adadual_on_dozens_of_gangs() -> None:
    assert mean(abs(error.relative) for error in errors_of("normal", 3)) <= 0.13


def test_adadual_where_links_are_overloaded() -> None:
    # Whoever comes last in SRSF order hardly ever gets its turn: the average is only right for the others.
    found = errors_of("slow", 1)
    assert median(abs(error.relative) for error in found) < 0.75 * median(abs(error.ignored) for error in found)
