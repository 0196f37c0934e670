"""Every backend keeps the same contract."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dally.cluster.topology import grid
from dally.entry_points import installed
from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.live.assembly import Service
from dally.live.backends.base import BackendError, BackendOptions, Observed, Placement, StartOrder, Submission
from dally.live.backends.local import LocalBackend
from dally.live.backends.registry import open_backend
from dally.live.backends.slurm import SlurmBackend
from dally.live.config import read_config
from dally.testing import InvariantError, check_backend
from dally.testing.fake_backend import FakeBackend
from tests.distributions import install
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

    def start_job(self, job_id: str, placement: Placement) -> None:
        super().start_job(job_id, {self.topology().names[0][0]: sum(placement.values())})


class Forgetful(FakeBackend):
    """Has a preempted job submitted anew."""

    def preempt_job(self, job_id: str) -> None:
        self.now_s += 1.0
        super().preempt_job(job_id)
        job = self.jobs[job_id]
        self.jobs[job_id] = type(job)(**{**vars(job), "submit_s": self.now_s})


class Deaf(FakeBackend):
    """Never refuses."""

    def cancel_job(self, job_id: str) -> None:
        if job_id in self.jobs:
            super().cancel_job(job_id)


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


PAPER_CLUSTER = """
from dally.testing.fake_backend import FakeBackend

class PaperCluster(FakeBackend):
    name = "paper"

def opened(options):
    return PaperCluster(racks=int(options.settings["racks"]))

def nothing(options):
    return options
"""


@pytest.fixture
def paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Another distribution's backend, and one that makes none."""
    lines = "paper = paper_cluster:opened\nnothing = paper_cluster:nothing\nlocal = paper_cluster:nothing"
    install(tmp_path, "paper-cluster", {"dally.backends": lines}, {"paper_cluster": PAPER_CLUSTER})
    monkeypatch.syspath_prepend(tmp_path)
    installed.cache_clear()
    yield
    installed.cache_clear()
    sys.modules.pop("paper_cluster", None)


@pytest.mark.usefixtures("paper")
def test_another_distribution_brings_one(tmp_path: Path) -> None:
    """It is found by name and opened with its settings; ours cannot be replaced."""
    text = 'backend = "paper"\n[backend_settings]\nracks = 2\n'
    (tmp_path / "dally.toml").write_text(text)
    config = replace(read_config(tmp_path / "dally.toml"), folder=tmp_path / "state").checked()
    service = Service(config)
    assert (service.backend.name, service.topology.machine_count()) == ("paper", 8)
    service.close()
    assert isinstance(open_backend("local", BackendOptions(tmp_path)), LocalBackend)
    with pytest.raises(InputError, match=r"paper-cluster 1\.0: makes a BackendOptions, not a Backend"):
        open_backend("nothing", BackendOptions(tmp_path))
    with pytest.raises(InputError, match=r"papper.*paper"):
        open_backend("papper", BackendOptions(tmp_path))


def test_orders_of_a_daemon_that_no_longer_leads_are_refused(tmp_path: Path) -> None:
    """Another daemon has the folder by now: nothing starts, and nothing is stopped."""
    first, second = (LocalBackend(tmp_path, grid(1, 2, 8)) for _ in range(2))
    first.begin_term()
    job_id = first.submit(Submission(JobSpec(1), ("sleep", "60")))
    term = first.snapshot().term
    second.begin_term()
    refused = pytest.raises(BackendError, match="decided in term 1, and this is term 2: another daemon leads")
    with refused:
        first.start([StartOrder(job_id, {"rack0-m0": 1})], term)
    with refused:
        first.preempt([job_id], term)
    with refused:
        first.cancel([job_id], first.snapshot().term)
    assert [job.state for job in first.snapshot().jobs] == ["queued"]
