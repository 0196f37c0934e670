"""What the benches of Slurm and Kubernetes share: a live scheduler on a real cluster, cycle by cycle."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import select

from dally.cluster.topology import Topology
from dally.live.backends import base
from dally.live.backends.base import Backend, BackendError
from dally.live.config import Setup
from dally.live.cycle import Scheduler
from dally.live.store import open_store
from dally.live.store.schema import EVENTS
from dally.live.wall_clock import WallClock
from dally.policies.registry import build
from dally.testing.invariants import record_of
from dally.testing.strategies import Case

Start = tuple[int, set[str], str]  # the job's number, its machines, the tier that joins them


class LiveBench(ABC):
    """A scheduler whose clock runs `speed` times as fast, on a cluster with nothing on it."""

    topology: Topology

    def __init__(self, backend: Backend, folder: Path, setup: Setup, speed: float) -> None:
        self.folder, self.setup, self.speed = folder, setup, speed
        self.store = open_store(f"sqlite:///{folder}/dally.db")
        self.clock = WallClock(time.time(), speed)
        self.topology = backend.topology()
        self.submitted: list[str] = []
        self.problems: list[str] = []
        self._backend = backend
        self.begin()

    def begin(self) -> None:
        """A scheduler that knows what the store knows."""
        self.scheduler = Scheduler(self._backend, self.topology, self.setup, self.store, self.clock)

    @abstractmethod
    def decide(self) -> None:
        """One cycle of the scheduler."""

    @abstractmethod
    def pause(self) -> None:
        """Until the next one."""

    def cycle(self) -> None:
        """One cycle; a cluster that does not answer costs it."""
        try:
            self.decide()
        except BackendError as error:
            self.problems.append(str(error))

    def go_on(self, done: Callable[[], bool], seconds: float = 60.0) -> None:
        """Cycle after cycle until then."""
        until_s = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < until_s, (self.states(), self.problems[-5:])
            self.cycle()
            self.pause()

    def states(self) -> dict[str, str]:
        """As the scheduler last saw them."""
        return {job.job_id: job.state for job in self.scheduler.roster.snapshot.jobs}

    def runs(self, job_id: str) -> bool:
        """It runs, as far as the scheduler knows."""
        return self.states().get(job_id) == base.RUNNING

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """What the store knows of these kinds, in order."""
        rows = self.store.rows(select(EVENTS).order_by(EVENTS.c.id))
        return [row for row in rows if row["kind"] in kinds]

    def starts(self) -> list[Start]:
        """Which jobs started where, in order."""
        rows = self.events("start")
        return [(self.submitted.index(row["job_id"]), set(row["placement"]), row["tier"]) for row in rows]

    def simulated_starts(
        self, jobs: Sequence[tuple[int, float]], nodes: Sequence[str]
    ) -> tuple[list[Start], list[float]]:
        """The same, and when, of a simulation of jobs of so many GPUs and seconds of the wall clock, on 4x4x8."""
        case = Case(
            [((f"rack{number // 4}",), 8) for number in range(16)],
            [(0.0, gpus, seconds * self.speed) for gpus, seconds in jobs],
        )
        simulated = case.run(build(self.setup.policy))
        starts = [row for row in record_of(simulated).events if row.kind == "start"]
        tiers = self.topology.tiers
        places = [
            (row.job, {nodes[at] for at, _ in row.parts}, tiers[simulated.jobs[row.job].tier]) for row in starts
        ]
        return places, [row.time_s for row in starts]
