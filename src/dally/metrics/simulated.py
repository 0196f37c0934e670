"""The record of a simulation of this process: references to what the engine left, and tables made from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dally.cluster.slots import gang_sizes
from dally.cluster.topology import Topology
from dally.engine.log import EventLog
from dally.engine.simulate import Simulation
from dally.metrics.record import Inputs, Record
from dally.metrics.tables import QUEUE_TABLES, decisions_frame, events_frame, jobs_frame, of_queues, slots_frame
from dally.model import Job
from dally.perf.base import SpeedModel
from dally.policies.gate.gate import Gate

if TYPE_CHECKING:
    import polars as pl


class Simulated(Record):
    """What a simulation has come to. Nothing is copied: let it stand still while this is read."""

    origin = "simulation"

    def __init__(
        self,
        simulation: Simulation,
        scenario: Inputs | None = None,
        skipped: int = 0,
        unused: Mapping[str, int] | None = None,
        notes: Mapping[str, int] | None = None,
    ) -> None:
        cluster = simulation.state.cluster
        self.name = "this run"
        self.summary = {}
        self.tiers = cluster.topology.tiers
        self.outcomes: list[Job] = simulation.jobs  # in order of submission
        self.log: EventLog = simulation.state.log
        self.speed: SpeedModel = simulation.state.speed  # knows links by name, and floors of communication
        self.gang_sizes: list[int] = gang_sizes(cluster)
        policy = simulation.state.policy
        self.sharing: Gate | None = policy if isinstance(policy, Gate) else None
        self.stuck: bool = simulation.stuck
        self.skipped = skipped  # jobs of the trace that ask for more than the cluster has
        self.unused = dict(unused or {})  # rows of it that could not be used, by reason
        self.notes = dict(notes or {})  # jobs of which something was assumed, by what
        self._topology = cluster.topology
        self._end_s = simulation.now
        self._scenario = scenario

    @property
    def scenario(self) -> Inputs:
        """What was run."""
        if self._scenario is None:
            raise LookupError("this simulation was put together by hand: it has no scenario")
        return self._scenario

    @property
    def topology(self) -> Topology:
        """The cluster of the run."""
        return self._topology

    @property
    def end_s(self) -> float:
        """When the clock stopped, in seconds of the trace."""
        return self._end_s

    def table(self, name: str) -> pl.DataFrame:
        """One of TABLES, made from the engine's own log."""
        if name in QUEUE_TABLES:
            column = {"shares": "samples", "reclaims": "reclaimed", "stalls": "stalls"}[name]
            return of_queues(name, list(getattr(self.sharing, column, [])))
        makers = {"jobs": jobs_frame, "events": events_frame, "decisions": decisions_frame, "slots": slots_frame}
        return makers[name](self)
