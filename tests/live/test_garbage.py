"""Full garbage collections are put between cycles."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from dally.live.garbage import EVERY_S, FIRST_S, GarbageCollector


class Loop:
    """Only a collection finds it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Other tests' garbage is found as ever."""
    yield
    gc.unfreeze()


def test_collects_when_due() -> None:
    """Neither before, nor again at once; and what was alive at one collection and is not at the next is found."""
    now = [0.0]
    collector = GarbageCollector(lambda: now[0])
    gc.unfreeze()
    collector.between_cycles()
    assert gc.get_freeze_count() == 0
    loop = Loop()
    gone = weakref.ref(loop)
    now[0] = FIRST_S
    collector.between_cycles()
    assert gc.get_freeze_count() > 0
    del loop
    now[0] += EVERY_S - 1.0
    collector.between_cycles()
    gc.collect()
    assert gone() is not None  # it is left out of others' collections
    now[0] += 1.0
    collector.between_cycles()
    assert gone() is None
