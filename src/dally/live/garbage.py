"""Full garbage collections between cycles: over the copy of a large cluster one takes longer than a cycle."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Final

FIRST_S: Final = 10.0  # after the start, when most of what stays is there
EVERY_S: Final = 600.0
# Net new objects before the interpreter looks at the young ones, and how often it does before it looks at older
# ones. Its own values (700, 10, 10) had it look at most objects of a cycle twice, and often at all of them. To look
# at 50,000 young ones took 24 to 50 ms in the midst of a cycle.
THRESHOLDS: Final = (5_000, 200, 1_000)


class GarbageCollector:
    """What is alive after a collection is left out of the interpreter's own ones until the next."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due_s = clock() + FIRST_S

    def between_cycles(self) -> None:
        """Collect, if that is due."""
        if self._clock() >= self._due_s:
            collect()
            self._due_s = self._clock() + EVERY_S


def collect() -> None:
    """Look at everything once; what stays is looked at no more until this is called again."""
    gc.set_threshold(*THRESHOLDS)
    gc.unfreeze()
    gc.collect()
    gc.freeze()
