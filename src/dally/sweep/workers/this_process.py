"""This process: one run after the other, where its own classes and objects are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dally.sweep.workers import Failure, Item, Result


class ThisProcess:
    """No workers at all. An error ends it: who calls from Python wants the traceback, not a line about it."""

    def map(
        self, function: Callable[[Item], Result], items: Sequence[Item]
    ) -> Iterator[tuple[Item, Result | Failure]]:
        """See Workers."""
        for item in items:
            yield item, function(item)
