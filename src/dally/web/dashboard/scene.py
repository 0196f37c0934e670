"""What pages are made from: a cluster at some moment, be it now, or when a simulation was there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from dally.cluster.topology import Topology
    from dally.live.status import ClusterStatus
    from dally.metrics.trends import Point, Trends
    from dally.web.auth.tokens import Caller
    from dally.web.routes.bodies import AlertBody, Eta, Explanation, JobBody


class Scene(Protocol):
    """A cluster. Moments are seconds of the engine's clock; None is now, or the end of a simulation."""

    is_live: bool

    @property
    def boot(self) -> str:
        """Another one: whatever a browser knows of us is void."""

    @property
    def title(self) -> str:
        """Which cluster, or which run."""

    @property
    def policy(self) -> str:
        """Who decides."""

    @property
    def topology(self) -> Topology:
        """What hangs under what."""

    def span(self) -> tuple[float, float]:
        """The moments that can be shown."""

    def status(self, at_s: float | None) -> ClusterStatus:
        """How things stand."""

    def loads(self, at_s: float | None) -> dict[str, float]:
        """Share of time that links are busy, by their names."""

    def evidence(self, shown: Collection[str]) -> dict[str, str]:
        """What speaks against the health of machines, naming only these jobs."""

    def find(self, caller: Caller, job_id: str, at_s: float | None) -> JobBody | None:
        """A job that the caller may see, ended or not."""

    def explanation(self, caller: Caller, job: JobBody, at_s: float | None) -> Explanation:
        """Its story, and what to expect where."""

    def submitted_s(self, job_id: str) -> float | None:
        """When a job comes that is not there yet at every moment of the span; None: nothing is known to come."""

    def slowdowns(self, job_id: str, model: str, gpus: int) -> dict[str, float]:
        """What a gang is to expect at each tier, alone; {} without a network."""

    def eta(self, job_id: str) -> Eta | None:
        """When a job that waits is expected to start, as far as that was worked out."""

    def ended(
        self, caller: Caller, user: str, offset: int, limit: int, at_s: float | None
    ) -> tuple[int, list[JobBody]]:
        """How many jobs have ended, and some of them, the latest first."""

    @property
    def speed(self) -> float:
        """Of the engine's clock against the wall clock."""

    def trends(self, from_s: float, to_s: float, most: int) -> Trends:
        """How it fared between two moments, as at most so many points."""

    def point(self, at_s: float | None) -> Point:
        """The newest point of these."""

    def moment(self, wall_s: float) -> str:
        """A time of a status in words."""

    def alerts(self, caller: Caller) -> list[AlertBody]:
        """What operators are to look at now."""

    def watch(self, record: Callable[[set[str]], None]) -> None:
        """Be told of each cycle, in whatever thread it comes about: of which jobs something was logged."""
