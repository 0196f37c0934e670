"""The daemon's side of estimates: hands the present over, keeps what was said, and learns from what came."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import structlog
from sqlalchemy import or_, select

from dally.live.backends.base import Submission
from dally.live.cycle import CycleResult, Scheduler
from dally.live.daemon import Daemon
from dally.live.facts import job_of, known_model
from dally.live.forecast import predictions
from dally.live.forecast.conformal import Interval, Margins, Observation
from dally.live.forecast.future import dump_present
from dally.live.forecast.job_forecast import Answer, Forecast, Question, forecast_of, raw_interval
from dally.live.forecast.lifetimes import DAY_S, DAYS, PastJob, past_of
from dally.live.forecast.worker import Forecaster, WorkerForecaster
from dally.live.store import Store
from dally.live.store.database import StoreError
from dally.live.store.log_rows import observed_of
from dally.live.store.schema import JOBS
from dally.model import INFINITY, NEVER, WAITING

EVERY_S: Final = 60.0  # of the wall clock, between two looks at the whole queue
SOON_S: Final = 10.0  # the same if there are new ones
RECENT_S: Final = 10.0  # for which an answer is as good as a new one
WITHIN_S: Final = 10.0  # a question must have its time
KEEP_EVERY_S: Final = 1800.0  # of the engine's clock, between two predictions for one job that are kept
READ_BACK_S: Final = (DAYS + 3) * DAY_S  # jobs that ended before that are not asked what they teach

log = structlog.get_logger("dally")


class NoEstimateError(Exception):
    """Why nothing can be said of a job's start, in one line."""


class BusyError(Exception):
    """Others have asked before: ask again."""


class Outlook:
    """Estimates of one daemon's cluster. `queue` is what was last said of each job that waits."""

    def __init__(self, store: Store, daemon: Daemon, forecaster: Forecaster | None = None) -> None:
        self.queue: dict[str, Forecast] = {}
        self.forecaster = forecaster or WorkerForecaster()
        self._store = store
        self._daemon = daemon
        self._lock = threading.Lock()  # one question at a time
        self._margins: Margins | None = None
        self._open: dict[str, list[tuple[float, Interval]]] = {}  # what was said of jobs that wait, and when
        self._cached_s: dict[str, float] = {}
        self._last_number = -1
        self._last_finish_s = -INFINITY
        self._forecast_s = -INFINITY
        self._recent: dict[str, tuple[float, Forecast]] = {}
        self._forecasting: threading.Thread | None = None

    def begin(self) -> None:
        """From now on look at the whole queue every minute, and at what comes of it."""
        self._daemon.watchers.append(self.on_cycle)

    def close(self) -> None:
        """No more questions."""
        if self._forecasting is not None:
            self._forecasting.join()
        self.forecaster.close()

    # Questions.

    def ask(self, job_id: str) -> Forecast:
        """When a job that waits will start; the same for some seconds."""
        with self._cycle():
            at_s, known = self._recent.get(job_id, (-INFINITY, None))
            if known is not None and time.monotonic() - at_s < RECENT_S:
                return known
            with self._daemon.lock:
                scheduler = self._scheduler()
                job = scheduler.roster.jobs.get(job_id)
                if job is None or job.status != WAITING:
                    raise NoEstimateError(f"job {job_id} does not wait")
                number = int(job.index)
                content = content_of(scheduler)
            answer = self._answer(content, Question((number,), detail=True), scheduler)
            result = self._recorded_forecast(answer, number, job_id, scheduler)
            now_s = time.monotonic()
            self._recent = {name: one for name, one in self._recent.items() if now_s - one[0] < RECENT_S}
            self._recent[job_id] = (now_s, result)
            return result

    def preview(self, request: Submission) -> Forecast:
        """When a job would start that is submitted now."""
        with self._cycle():
            with self._daemon.lock:
                scheduler = self._scheduler()
                number = scheduler.roster.next_number
                content = content_of(scheduler)
            preview = _previewed(request, scheduler)
            answer = self._answer(content, Question(preview=preview, detail=True), scheduler)
            return self._forecast(answer, number, scheduler)

    def look(self) -> dict[str, Forecast]:
        """When each of those who wait will start, as far as the time given to that shows."""
        with self._lock:
            with self._daemon.lock:
                scheduler = self._scheduler()
                waiting = {int(job.index): job.job_id for job in scheduler.roster if job.status == WAITING}
                content = content_of(scheduler)
            result: dict[str, Forecast] = {}
            if waiting:
                answer = self._answer(content, Question(tuple(waiting)), scheduler)
                result = {
                    name: self._recorded_forecast(answer, number, name, scheduler)
                    for number, name in waiting.items()
                }
            self.queue = result
            return result

    @contextmanager
    def _cycle(self) -> Iterator[None]:
        """One question after the other; who would wait too long is sent away."""
        if not self._lock.acquire(timeout=WITHIN_S):
            raise BusyError("others ask for estimates too")
        try:
            yield
        finally:
            self._lock.release()

    def _scheduler(self) -> Scheduler:
        scheduler = self._daemon.scheduler
        if scheduler is None:
            raise NoEstimateError("the scheduler is not ready")
        return scheduler

    def _answer(self, content: bytes, question: Question, scheduler: Scheduler) -> Answer:
        past = self._changes(scheduler)
        self.forecaster.learn(past, scheduler.clock.now())
        return self.forecaster.ask(content, question)

    def _recorded_forecast(self, answer: Answer, number: int, job_id: str, scheduler: Scheduler) -> Forecast:
        """What to say of a job; now and then that is kept."""
        result = self._forecast(answer, number, scheduler)
        now = answer.now
        if not result.is_now and now - self._cached_s.get(job_id, -INFINITY) >= KEEP_EVERY_S:
            self._cached_s[job_id] = now
            record = Interval(result.low_s - now, _wait_s(result.middle_s, now), _wait_s(result.high_s, now))
            raw = raw_interval(answer.fates[number], now)
            self._open.setdefault(job_id, []).append((now, raw))
            predictions.keep_prediction(self._store, job_id, now, result.futures, raw, record)
        return result

    def _forecast(self, answer: Answer, number: int, scheduler: Scheduler) -> Forecast:
        margins = self._learnt()
        open_intervals = [one for many in list(self._open.values()) for one in many]
        overdue = [Observation(raw, answer.now - requested_s) for requested_s, raw in open_intervals]
        return forecast_of(answer, number, margins, scheduler.roster.topology.tiers, overdue)

    # What came.

    def on_cycle(self, result: CycleResult, _cpu_s: float) -> None:
        """After each cycle: what was said of jobs that started is compared with that."""
        try:
            self._learnt()
            for row in result.log:
                if row["job_id"] in self._open and row["kind"] in ("start", "cancel", "finish"):
                    self._came(row)
        except StoreError as error:
            log.warning("estimates_not_kept", why=str(error))
        idle = self._forecasting is None or not self._forecasting.is_alive()
        if idle and time.monotonic() - self._forecast_s >= self._pause_s():
            self._forecast_s = time.monotonic()
            self._forecasting = threading.Thread(target=self._look, name="outlook", daemon=True)
            self._forecasting.start()

    def _pause_s(self) -> float:
        """Between two looks: less if somebody waits of whom nothing was said yet, for ever if nobody waits."""
        waiting = [line.job_id for line in self._daemon.status.jobs if line.state == "waiting"]
        if not waiting:
            return INFINITY
        return EVERY_S if all(job_id in self.queue for job_id in waiting) else SOON_S

    def _look(self) -> None:
        try:
            self.look()
        except Exception as error:  # an estimate that fails is worth a line in the log and no more
            log.warning("no_estimates", why=repr(error))

    def _came(self, row: dict[str, Any]) -> None:
        job_id = row["job_id"]
        self._open.pop(job_id, None)
        self._cached_s.pop(job_id, None)
        self.queue.pop(job_id, None)
        self._recent.pop(job_id, None)
        if row["kind"] != "start":
            predictions.drop(self._store, job_id)
            return
        for observation in predictions.resolve(self._store, job_id, row["time_s"]):
            self._learnt().learn(observation)

    def _learnt(self) -> Margins:
        if self._margins is None:
            for job_id, requested_s, raw in predictions.open_predictions(self._store):
                self._open.setdefault(job_id, []).append((requested_s, raw))
            self._margins = Margins(predictions.latest_observations(self._store))
        return self._margins

    def _changes(self, scheduler: Scheduler) -> list[PastJob]:
        """Jobs that came or ended since this was last asked, from the store."""
        since_s = max(self._last_finish_s, scheduler.clock.now() - READ_BACK_S)
        rows = self._store.rows(
            select(JOBS)
            .where(or_(JOBS.c.finish_s > since_s, (JOBS.c.number > self._last_number) & JOBS.c.finish_s.is_(None)))
            .order_by(JOBS.c.number)
        )
        for row in rows:
            self._last_number = max(self._last_number, row["number"])
            self._last_finish_s = max(self._last_finish_s, row["finish_s"] or -INFINITY)
        return [past_in_row(row, scheduler.roster.usual_model) for row in rows]


def past_in_row(row: dict[str, Any], usual_model: str) -> PastJob:
    """A job of the store, as one of the past."""
    job = job_of(observed_of(row), row["number"], row["submit_s"], usual_model)
    job.reported_s = row["clocks"].get("reported_s", NEVER)  # of an older store it is not known
    duration_s = row["clocks"]["work_s"] if row["status"] == "finished" else NEVER
    return past_of(job, duration_s)


def content_of(scheduler: Scheduler) -> bytes:
    """The present as bytes; the daemon's lock must be held."""
    roster, unschedulable = scheduler.roster, scheduler.unschedulable
    with unschedulable.as_if_stopped():
        return dump_present(
            scheduler.state, list(roster), scheduler.clock.now(), roster.next_number,
            timers_s=scheduler.overrides.timers_s(), draining=unschedulable.draining(),
        )  # fmt: skip


def _previewed(request: Submission, scheduler: Scheduler) -> PastJob:
    model = known_model(request.spec.model, scheduler.roster.usual_model)
    return PastJob(-1, scheduler.clock.now(), replace(request.spec, model=model))


def _wait_s(moment_s: float | None, now: float) -> float:
    return INFINITY if moment_s is None else moment_s - now
