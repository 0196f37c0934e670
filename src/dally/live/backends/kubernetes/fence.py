"""Keeps the orders of a daemon that no longer leads from the server."""

from __future__ import annotations

from typing import Final, NamedTuple

from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes.leader import Leader

LEAST_S: Final = 0.5  # a request that has less time than this is not sent
NO_LEASE_S: Final = 5.0  # for a request, where there is no lease to keep


class Fence(NamedTuple):
    """Stands before every request of one term; whatever is still queued when the term passes is dropped."""

    leader: Leader | None = None  # None: no lease was claimed, as in a dry run
    term: int = 0

    def left_s(self) -> float:
        """Seconds that a request may take, which end before another daemon can lead; BackendError: none."""
        if self.leader is None:
            return NO_LEASE_S
        left_s = self.leader.left_s()
        if self.term != self.leader.term:
            raise BackendError(f"decided in term {self.term}, and this is term {self.leader.term}: not sent")
        if left_s < LEAST_S:
            self.leader.check()
            raise BackendError("the lease is about to run out: not sent")
        return left_s
