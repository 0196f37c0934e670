"""What jobs that have ended here say of one that is about to be submitted."""

from __future__ import annotations

import threading
from typing import Any, Final

from sqlalchemy import select

from dally.live.facts import known_model
from dally.live.store import Store
from dally.live.store.log_rows import REPLACED, UNKNOWN
from dally.live.store.schema import JOBS
from dally.model import INFINITY
from dally.report.advice import Advice, Adviser, PastRun, ScriptRequest

MOST_READ: Final = 20_000  # jobs, the latest, when this is first asked


class PastRuns:
    """Reads jobs that have ended since it was last asked. Any thread may ask."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._adviser = Adviser()
        self._latest_s = -INFINITY
        self._lock = threading.Lock()

    def advise(self, request: ScriptRequest) -> Advice:
        """What they say; StoreError if they cannot be read."""
        with self._lock:
            self._read()
            return self._adviser.advise(request)

    def _read(self) -> None:
        """The jobs of a cycle are written in one transaction, with one time: none is missed."""
        ended = select(JOBS.c.job_id, JOBS.c.outcome, JOBS.c.observed, JOBS.c.clocks, JOBS.c.finish_s).where(
            JOBS.c.finish_s > self._latest_s, JOBS.c.outcome.not_in(("", REPLACED))
        )
        latest = ended.order_by(JOBS.c.finish_s.desc(), JOBS.c.number.desc()).limit(MOST_READ)
        for job_id, outcome, observed, clocks, finish_s in reversed(self._store.tuples(latest)):
            self._latest_s = finish_s
            if clocks["start_s"] >= 0.0:
                self._learn(job_id, outcome, observed, clocks["held_s"])

    def _learn(self, job_id: str, outcome: str, observed: dict[str, Any], held_s: float) -> None:
        spec = observed["spec"]
        status = "" if outcome == UNKNOWN else outcome
        model = known_model(spec["model"], "")
        run = PastRun(job_id, held_s, spec["limit_s"], status, model, observed["reason"])
        self._adviser.learn(spec["user"], spec["name"], spec["gpus"], run)
