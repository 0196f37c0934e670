"""The live scheduler on a real API server, cycle by cycle, beside a recorder that trusts nobody."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import select

from dally.live.backends import base
from dally.live.backends.base import BackendError
from dally.live.backends.kubernetes import KubernetesBackend
from dally.live.config import Setup
from dally.live.scheduler import Scheduler
from dally.live.store import open_store
from dally.live.store.schema import EVENTS
from dally.live.wall_clock import WallClock
from tests.live.kube_cluster import JOBS, PODS, KubeCluster, job, pod
from tests.live.kube_recorder import GANG, SIZE, Recorder


class KubeBench:
    """A scheduler whose clock runs `speed` times as fast, on a cluster with nothing on it."""

    def __init__(self, kube: KubeCluster, folder: Path, setup: Setup, speed: float = 1.0, **options: Any) -> None:
        self.kube, self.folder, self.setup, self.speed = kube, folder, setup, speed
        self.backend: KubernetesBackend = kube.backend(tell=False, **options)
        self.store = open_store(f"sqlite:///{folder}/dally.db")
        self.clock = WallClock(time.time(), speed)
        self.submitted: list[str] = []
        self._finished: set[str] = set()
        self.problems: list[str] = []
        self.recorder = Recorder(kube)
        self.begin()

    def begin(self) -> None:
        """A scheduler that knows what the store knows."""
        self.topology = self.backend.topology()
        self.generation = self.backend.generation
        self.scheduler = Scheduler(self.backend, self.topology, self.setup, self.store, self.clock)

    def submit(self, name: str, pods: int, gpus: int, seconds: float | None, **notes: str) -> str:
        """A Job of so many seconds of the wall clock."""
        expected = "" if seconds is None else f"{seconds * self.speed:g}"
        stated = {"model": "resnet50", **({"expected": expected} if expected else {}), **notes}
        self.kube.admin.post(JOBS, job(name, pods, gpus, seconds, **stated))
        self.submitted.append(f"default.job.{name}")
        return self.submitted[-1]

    def submit_bare(self, name: str, pods: int, gpus: int, seconds: float | None) -> str:
        """The same as pods that nobody makes anew, in a gang by its label."""
        labels = {"dally.io/gang": name, "dally.io/gang-size": str(pods), GANG: name, SIZE: str(pods)}
        for number in range(pods):
            self.kube.admin.post(PODS, pod(f"{name}-{number}", gpus, seconds, labels=labels))
        self.submitted.append(f"default.gang.{name}")
        return self.submitted[-1]

    def cycle(self) -> None:
        """One cycle; a server that does not answer costs it."""
        try:
            if self.generation != self.backend.generation:
                self.begin()
            self.problems += self.scheduler.run_cycle().problems
        except BackendError as error:
            self.problems.append(str(error))

    def go_on(self, done: Callable[[], bool], seconds: float = 60.0) -> None:
        """Cycle after cycle until then."""
        until_s = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < until_s, (self.states(), self.problems[-5:])
            self.cycle()
            self.backend.wait(0.1)

    def states(self) -> dict[str, str]:
        """As the scheduler last saw them."""
        return {job.job_id: job.state for job in self.scheduler.roster.snapshot.jobs}

    def runs(self, job_id: str) -> bool:
        return self.states().get(job_id) == base.RUNNING

    def ended(self) -> bool:
        """Every job has come to its own end; it is told of for a minute."""
        self._finished |= {job_id for job_id, state in self.states().items() if state == base.FINISHED}
        return self._finished >= set(self.submitted)

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """What the store knows of these kinds, in order."""
        rows = self.store.rows(select(EVENTS).order_by(EVENTS.c.id))
        return [row for row in rows if row["kind"] in kinds]

    def close(self) -> dict[str, Any]:
        """What the recorder found."""
        found = self.recorder.stop()
        self.backend.close()
        self.store.close()
        assert found["problems"] == []
        return found
