"""The daemon's cluster, now."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection
from datetime import UTC, datetime

from dally.cluster.topology import Topology
from dally.live.cycle import CycleResult
from dally.live.status import ClusterStatus
from dally.metrics.trends import Point, Trends
from dally.web.auth.tokens import Caller
from dally.web.routes.bodies import AlertBody, Eta, Explanation, JobBody
from dally.web.routes.jobs import explain
from dally.web.routes.outlook import eta_of
from dally.web.routes.overview import firing
from dally.web.site import Site, ended_jobs, visible_user


class LiveScene:
    """A Scene over a daemon: it knows only the present."""

    is_live = True

    def __init__(self, site: Site) -> None:
        self._boot = secrets.token_hex(8)
        self._tree = site.service.topology
        self._trees = 1  # that there were so far
        self._site = site
        self._watchers: list[Callable[[set[str]], None]] = []
        site.service.daemon.watchers.append(self._on_cycle)

    @property
    def boot(self) -> str:
        """Of this process and this topology."""
        if self._tree is not self.topology:
            self._tree = self.topology
            self._trees += 1
        return f"{self._boot}-{self._trees}"

    @property
    def title(self) -> str:
        """Which cluster."""
        return f"{self._site.service.config.backend} cluster"

    @property
    def policy(self) -> str:
        """Who decides."""
        return self._site.service.config.setup.policy

    @property
    def topology(self) -> Topology:
        """The daemon's, which may get another one."""
        return self._site.service.topology

    def span(self) -> tuple[float, float]:
        """Now."""
        now = self._site.status.at_s
        return now, now

    def status(self, at_s: float | None) -> ClusterStatus:
        """The daemon's."""
        return self._site.status

    def loads(self, at_s: float | None) -> dict[str, float]:
        """As cycles told of them."""
        return self._site.loads

    def evidence(self, shown: Collection[str]) -> dict[str, str]:
        """As of the latest look."""
        return self._site.service.health.evidence(shown)

    def find(self, caller: Caller, job_id: str, at_s: float | None) -> JobBody | None:
        """As the API finds it."""
        return self._site.job(caller, job_id)

    def explanation(self, caller: Caller, job: JobBody, at_s: float | None) -> Explanation:
        """As the API tells it."""
        with self._site.one_at_a_time:
            return explain(self._site, caller, job)

    def submitted_s(self, job_id: str) -> float | None:
        """Nobody knows."""
        return None

    def slowdowns(self, job_id: str, model: str, gpus: int) -> dict[str, float]:
        """As the API tells them."""
        return self._site.slowdowns(self._site.taken_for(job_id, model)[0], gpus)

    def eta(self, job_id: str) -> Eta | None:
        """As of the last look at the whole queue."""
        result = self._site.service.outlook.queue.get(job_id)
        return None if result is None else eta_of(job_id, result, self._site.service.clock)

    def ended(
        self, caller: Caller, user: str, offset: int, limit: int, at_s: float | None
    ) -> tuple[int, list[JobBody]]:
        """From the store."""
        service = self._site.service
        return ended_jobs(
            service.store, service.clock, service.topology.tiers, "", visible_user(caller, user or None),
            offset, limit,
        )  # fmt: skip

    @property
    def speed(self) -> float:
        """As configured."""
        return self._site.service.config.speed

    def trends(self, from_s: float, to_s: float, most: int) -> Trends:
        """As sampled, from the store."""
        return self._site.service.trends.trends(from_s, to_s, most)

    def point(self, at_s: float | None) -> Point:
        """Of the status, and since the latest sample."""
        return self._site.service.trends.now()

    def moment(self, wall_s: float) -> str:
        """The browser puts it into its own zone."""
        return f"{datetime.fromtimestamp(wall_s, UTC):%Y-%m-%d %H:%M:%S} UTC"

    def alerts(self, caller: Caller) -> list[AlertBody]:
        """As the API tells of them."""
        return firing(self._site, caller)

    def watch(self, record: Callable[[set[str]], None]) -> None:
        """After every result."""
        self._watchers.append(record)

    def _on_cycle(self, result: CycleResult, _cpu_s: float) -> None:
        touched = {row["job_id"] for row in result.log if row["job_id"]}
        for record in self._watchers:
            record(touched)
