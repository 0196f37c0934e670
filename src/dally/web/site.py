"""What the API answers from: the daemon's status, the store with jobs that have ended, and pages that are kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Any, Final

from pydantic import BaseModel
from sqlalchemy import func, select

from dally.cluster.topology import Topology
from dally.live.assembly import Service
from dally.live.cycle import CycleResult
from dally.live.facts import known_model
from dally.live.gpu_utilization import GpuUtilization, read_utilization
from dally.live.history.live_record import scenario_of
from dally.live.job_status import JobStatus
from dally.live.status import ClusterStatus
from dally.live.store import Store
from dally.live.store.log_rows import REPLACED, observed_of, tier_of
from dally.live.store.schema import JOBS
from dally.live.wall_clock import WallClock
from dally.runs.assemble import tier_slowdowns
from dally.web.alerts import Alerts
from dally.web.auth.tokens import Caller
from dally.web.metrics import Metrics
from dally.web.routes.bodies import JobBody, job_body


def ended_job(store: Store, clock: WallClock, tiers: list[str], job_id: str) -> JobBody | None:
    """The job of that id, the latest if there were several."""
    query = select(JOBS).where(JOBS.c.job_id == job_id, JOBS.c.outcome.not_in(("", REPLACED)))
    rows = store.rows(query.order_by(JOBS.c.number.desc()).limit(1))
    return _job(rows[0], clock, tiers) if rows else None


def ended_jobs(
    store: Store, clock: WallClock, tiers: list[str], state: str, user: str | None, offset: int, limit: int
) -> tuple[int, list[JobBody]]:
    """How many ended so, and some of them, the latest first; no state: however they ended."""
    chosen = [JOBS.c.outcome == state if state else JOBS.c.outcome.not_in(("", REPLACED))]
    if user is not None:
        chosen.append(JOBS.c.observed["spec"]["user"].as_string() == user)
    total = store.rows(select(func.count().label("jobs")).select_from(JOBS).where(*chosen))[0]["jobs"]
    rows = store.rows(
        select(JOBS)
        .where(*chosen)
        .order_by(JOBS.c.finish_s.desc(), JOBS.c.number.desc())
        .offset(offset)
        .limit(limit)
    )
    return int(total), [_job(row, clock, tiers) for row in rows]


def visible_user(caller: Caller, user: str | None) -> str | None:
    """The user whose jobs are asked for, as far as they are the caller's business; None: everybody's."""
    return user if caller.sees("") else caller.user


def _job(row: dict[str, Any], clock: WallClock, tiers: list[str]) -> JobBody:
    observed, clocks = observed_of(row), row["clocks"]
    line = JobStatus(
        job_id=row["job_id"],
        spec=observed.spec,
        state=row["outcome"],
        managed=observed.managed,
        submit_s=clock.wall_s(row["submit_s"]),
        since_s=clock.wall_s(row["finish_s"]),
        place=None,
        placement={},
        tier=tier_of(row, tiers),
        work_s=clocks["work_s"],
        slowdown=None,
        preemptions=clocks["preemptions"],
        migrations=clocks["migrations"],
        why=observed.reason,
        reason="",
        next_s=None,
    )
    return job_body(line)


MOST_PAGES: Final = 500  # kept of one status
LATELY_S: Final = 30.0  # a cycle within this means that all is well


class Site:
    """One daemon as the API sees it."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.cycle_s = -float("inf")  # when the latest cycle came about, of the machine's clock
        self._pages: tuple[ClusterStatus, dict[Hashable, bytes]] = (service.daemon.status, {})
        self.loads: dict[str, float] = {}  # share of time that links are busy, by their names
        self.utilization = GpuUtilization(read_utilization(service.config.prometheus))
        self.metrics = Metrics(service)
        self.alerts = Alerts(service.daemon, lambda: service.clock.wall_s(service.clock.now()))
        self.one_at_a_time = threading.Lock()  # of what takes its time
        self._slowdowns: tuple[Topology, dict[tuple[str, int], dict[str, float]]] = (service.topology, {})
        service.daemon.watchers.append(self._on_cycle)

    def _on_cycle(self, result: CycleResult, _cpu_s: float) -> None:
        if result.loads:
            self.loads = {**self.loads, **result.loads}
        if not result.failed:
            self.cycle_s = time.monotonic()

    @property
    def status(self) -> ClusterStatus:
        """How things stand: take it once per request, as the next may come at any time."""
        return self.service.daemon.status

    @property
    def is_ready(self) -> bool:
        """Whether a cycle came about lately; each writes to the store, so that works too."""
        return not self.service.daemon.failing and time.monotonic() - self.cycle_s < LATELY_S

    def job(self, caller: Caller, job_id: str) -> JobBody | None:
        """A job that the caller may see, from the status or, if it has ended, from the store."""
        line, service = self.status.by_id.get(job_id), self.service
        if line is not None:
            result: JobBody | None = job_body(line)
        else:
            result = ended_job(service.store, service.clock, service.topology.tiers, job_id)
        return result if result is not None and caller.sees(result.spec.user) else None

    def taken_for(self, job_id: str, model: str) -> tuple[str, str]:
        """The model that a job is taken for that has not ended, and how that is known; else what is stated."""
        scheduler = self.service.daemon.scheduler
        job = scheduler.roster.jobs.get(job_id) if scheduler is not None else None
        if scheduler is None or job is None or job.gpus < 2:
            return model, ""
        speed = scheduler.state.speed
        return speed.model_of(job), speed.origin_of(job)

    def slowdowns(self, model: str, gpus: int) -> dict[str, float]:
        """What such a gang is to expect at each tier, alone: worked out once as long as the topology stands."""
        topology, setup = self.service.topology, self.service.config.setup
        of, remaining = self._slowdowns
        if of is not topology:
            remaining = {}
            self._slowdowns = (topology, remaining)
        key = (known_model(model, setup.usual_model), gpus)
        if key not in remaining:
            fits = gpus <= topology.total_gpus()  # clusters let people ask for more than there is
            result = tier_slowdowns(scenario_of(setup), *key, topology) if fits else []
            remaining[key] = {
                tier: value for tier, value in zip(topology.tiers, result, strict=False) if value > 0.0
            }
        return remaining[key]

    def page(self, status: ClusterStatus, key: Hashable, made: Callable[[], BaseModel]) -> bytes:
        """The page as JSON, made once per status."""
        of, remaining = self._pages
        if of is not status:
            remaining = {}
            self._pages = (status, remaining)
        result = remaining.get(key)
        if result is None:
            result = made().model_dump_json().encode()
            if len(remaining) < MOST_PAGES:
                remaining[key] = result
        return result
