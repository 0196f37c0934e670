"""The live scheduler on a real API server, cycle by cycle, beside a recorder that trusts nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dally.live.backends import base
from dally.live.backends.kubernetes import KubernetesBackend
from dally.live.config import Setup
from tests.live.bench import LiveBench
from tests.live.kube_cluster import JOBS, PODS, KubeCluster, job, pod
from tests.live.kube_recorder import GANG, SIZE, Recorder


class KubeBench(LiveBench):
    """A scheduler whose clock runs `speed` times as fast, on a cluster with nothing on it."""

    recorder_of: type[Recorder] = Recorder

    def __init__(self, kube: KubeCluster, folder: Path, setup: Setup, speed: float = 1.0, **options: Any) -> None:
        self.kube = kube
        self.backend: KubernetesBackend = kube.backend(events=False, **options)
        self._finished: set[str] = set()
        self.recorder = self.recorder_of(kube)
        super().__init__(self.backend, folder, setup, speed)

    def begin(self) -> None:
        """A scheduler that knows what the store knows."""
        self.topology = self.backend.topology()
        self.generation = self.backend.generation
        super().begin()

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

    def decide(self) -> None:
        if self.generation != self.backend.generation:
            self.begin()
        self.problems += self.scheduler.run_cycle().problems

    def pause(self) -> None:
        self.backend.wait(0.1)

    def ended(self) -> bool:
        """Every job has come to its own end; it is told of for a minute."""
        self._finished |= {job_id for job_id, state in self.states().items() if state == base.FINISHED}
        return self._finished >= set(self.submitted)

    def close(self) -> dict[str, Any]:
        """What the recorder found."""
        found = self.recorder.stop()
        self.backend.close()
        self.store.close()
        assert found["problems"] == []
        return found
