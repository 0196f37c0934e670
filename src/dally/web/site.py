"""What the API answers from: the daemon's status, the store, and pages that are kept as long as a status stands."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Final

from pydantic import BaseModel

from dally.cluster.topology import Topology
from dally.live.assembly import Service
from dally.live.cycle import CycleResult
from dally.live.facts import known_model
from dally.live.history.live_record import scenario_of
from dally.live.status import ClusterStatus
from dally.runs.assemble import tier_slowdowns
from dally.web.auth.tokens import Caller
from dally.web.metrics import Metrics
from dally.web.routes.bodies import Job, job_body
from dally.web.routes.ended_jobs import ended_job

MOST_PAGES: Final = 500  # kept of one status
LATELY_S: Final = 30.0  # a cycle within this means that all is well


class Site:
    """One daemon as the API sees it."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.cycle_s = -float("inf")  # when the latest cycle came about, of the machine's clock
        self._pages: tuple[ClusterStatus, dict[Hashable, bytes]] = (service.daemon.status, {})
        self.metrics = Metrics(service)
        self.one_at_a_time = threading.Lock()  # of what takes its time
        self._slowdowns: tuple[Topology, dict[tuple[str, int], dict[str, float]]] = (service.topology, {})
        service.daemon.watchers.append(self._on_cycle)

    def _on_cycle(self, result: CycleResult, _cpu_s: float) -> None:
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

    def job(self, caller: Caller, job_id: str) -> Job | None:
        """A job that the caller may see, from the status or, if it has ended, from the store."""
        line, service = self.status.by_id.get(job_id), self.service
        if line is not None:
            result: Job | None = job_body(line)
        else:
            result = ended_job(service.store, service.clock, service.topology.tiers, job_id)
        return result if result is not None and caller.sees(result.spec.user) else None

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
