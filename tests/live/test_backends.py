"""Every backend keeps the same contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from dally.cluster.topology import grid
from dally.live.backends.base import BackendError, Observed, Placement
from dally.live.backends.local import LocalBackend
from dally.live.backends.slurm import SlurmBackend
from dally.testing import InvariantError, check_backend
from dally.testing.fake_backend import FakeBackend
from tests.live.kube_cluster import KubeCluster
from tests.live.slurm_cluster import SlurmCluster


def test_fake() -> None:
    check_backend(FakeBackend)


def test_local(tmp_path: Path) -> None:
    check_backend(lambda: LocalBackend(tmp_path, grid(1, 2, 8), grace_s=1.0))


def test_slurm(slurm: SlurmCluster) -> None:
    check_backend(lambda: SlurmBackend(conf=str(slurm.conf)))


def test_kubernetes(kube: KubeCluster) -> None:
    check_backend(lambda: kube.backend(image="none"))


class Greedy(FakeBackend):
    """Starts jobs on the first machine, whatever it was told."""

    def start(self, job_id: str, placement: Placement) -> None:
        super().start(job_id, {self.topology().names[0][0]: sum(placement.values())})


class Forgetful(FakeBackend):
    """Has a preempted job submitted anew."""

    def preempt(self, job_id: str) -> None:
        self.now_s += 1.0
        super().preempt(job_id)
        job = self.jobs[job_id]
        self.jobs[job_id] = type(job)(**{**vars(job), "submit_s": self.now_s})


class Deaf(FakeBackend):
    """Never refuses."""

    def cancel(self, job_id: str) -> None:
        if job_id in self.jobs:
            super().cancel(job_id)


class Blind(FakeBackend):
    """Has no machines."""

    def snapshot(self) -> Observed:
        return Observed(super().snapshot().jobs, ())


@pytest.mark.parametrize(
    ("backend", "rule"), [(Greedy, "running"), (Forgetful, "submit_s"), (Deaf, "refuse"), (Blind, "topology")]
)
def test_a_backend_that_breaks_the_contract_is_caught(backend: type[FakeBackend], rule: str) -> None:
    with pytest.raises((InvariantError, BackendError), match=rule):
        check_backend(backend, patience_s=0.1)
