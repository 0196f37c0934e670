"""Failed jobs that another run may help, as the end of their logs says, are queued again: `retries` in dally.toml.

Each is an act like an operator's: written down with the line of the log before the backend is asked, and counted
there, so that a restart of the daemon begins no count anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import structlog
from sqlalchemy import func, select

from dally.live.acts import RETRY, ActRefused, Busy
from dally.live.store import Store
from dally.live.store.database import StoreError
from dally.live.store.log_rows import observed_of
from dally.live.store.schema import ACTIONS, JOBS

if TYPE_CHECKING:
    from dally.live.backends.base import ObservedJob
    from dally.live.cycle import CycleResult
    from dally.live.daemon import Daemon

WHO: Final = "dally-retries"

log = structlog.get_logger("dally")


class RetriesJobs(Protocol):
    """What of `Acts` it needs."""

    def retry(self, job_id: str, owner: str, who: str, why: str) -> object:
        """Queue a job that has failed again."""


class FailedJobs:
    """Looks after each cycle at the jobs that failed in it."""

    def __init__(self, most: int, store: Store, daemon: Daemon, acts: RetriesJobs) -> None:
        """`most`: retries of one job; 0: none is ever queued again."""
        self._most = most
        self._store = store
        self._acts = acts
        if most:
            daemon.watchers.append(self.on_cycle)

    def on_cycle(self, result: CycleResult, _cpu_s: float) -> None:
        """After each cycle; what goes wrong costs a line in the log."""
        for job_id, failure in result.failures.items():
            if not failure.kind.again:
                continue
            try:
                self._retry(job_id, failure.described())
            except (ActRefused, Busy, StoreError) as error:
                log.warning("retry", job_id=job_id, what=str(error))

    def _retry(self, job_id: str, why: str) -> None:
        observed = self._ended(job_id)
        if observed is None or not observed.managed or observed.spec.preempt == "no":
            return  # whoever does not let it be stopped does not let it begin anew
        retries = (ACTIONS.c.job_id == job_id) & (ACTIONS.c.what == RETRY)
        count = self._store.rows(select(func.count().label("acts")).select_from(ACTIONS).where(retries))[0]["acts"]
        if count < self._most:
            self._acts.retry(job_id, observed.spec.user, WHO, f"{why}; retry {count + 1} of {self._most}")

    def _ended(self, job_id: str) -> ObservedJob | None:
        latest = select(JOBS).where(JOBS.c.job_id == job_id).order_by(JOBS.c.number.desc()).limit(1)
        rows = self._store.rows(latest)
        return observed_of(rows[0]) if rows else None
