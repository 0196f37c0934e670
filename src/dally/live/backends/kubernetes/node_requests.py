"""Gangs that no node could hold, left to the cluster's autoscaler for a while: it looks for Unschedulable pods."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from dally.live.backends.base import WaitingNotice
from dally.quotas.toml_file import span_text

UNSCHEDULABLE: Final = "Unschedulable"  # the reason of PodScheduled for which autoscalers add nodes
WAITING: Final = "WaitingForGPUs"  # one for which they do not
NO_NODE: Final = "unschedulable"  # WaitingNotice.state


class NodeRequests:
    """Says of each gang that waits whether its pods ask for nodes."""

    def __init__(self, wait_s: float | None) -> None:
        """`wait_s`: for so long a gang is left to an autoscaler; None: there is none to care for."""
        self._wait_s = wait_s
        self._since_s: dict[str, float] = {}  # by job

    def about(self, line: WaitingNotice, now_s: float) -> tuple[str, str]:
        """The reason of its pods' condition PodScheduled, and what to add to the message."""
        if self._wait_s is None:
            return UNSCHEDULABLE, ""
        if line.state != NO_NODE:
            self._since_s.pop(line.job_id, None)
            return WAITING, ""
        if now_s - self._since_s.setdefault(line.job_id, now_s) < self._wait_s:
            return UNSCHEDULABLE, f"; left to the cluster's autoscaler for {span_text(self._wait_s)}"
        return WAITING, f"; the cluster's autoscaler added no nodes for it within {span_text(self._wait_s)}"

    def keep(self, jobs: Container[str]) -> None:
        """There are no others."""
        self._since_s = {job_id: since_s for job_id, since_s in self._since_s.items() if job_id in jobs}
