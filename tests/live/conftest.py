"""A real Slurm for the tests that need one."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import dally as dally
from tests.live.kube_cluster import BUNDLE, KubeCluster, kube_cluster
from tests.live.kube_memory import backend as backend
from tests.live.kube_memory import server as server
from tests.live.slurm_cluster import SlurmCluster, missing, slurm_cluster
from tests.live.slurm_site import SlurmSite, missing_for_a_site, slurm_site


@pytest.fixture(scope="package")
def slurm_of_all() -> Iterator[SlurmCluster]:
    """16 nodes of 8 fake GPUs in 4 racks, for all tests of a process here."""
    lacking = missing()
    if lacking:
        why = f"Slurm is not installed ({', '.join(lacking)}): see scripts/system-packages test"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    with slurm_cluster() as cluster:
        yield cluster


@contextmanager
def empty(cluster: SlurmCluster) -> Iterator[None]:
    """Nothing is on it before and after."""
    cluster.settle()
    yield
    cluster.cancel_all()


@pytest.fixture
def slurm(slurm_of_all: SlurmCluster) -> Iterator[SlurmCluster]:
    """The same, with nothing on it before and after."""
    with empty(slurm_of_all):
        yield slurm_of_all


@pytest.fixture(scope="package")
def site_of_all() -> Iterator[SlurmSite]:
    """A Slurm as a site configures it, for all tests of a process here."""
    lacking = missing_for_a_site()
    if lacking or os.geteuid() != 0:
        pytest.skip(f"this needs root and {', '.join(lacking) or 'nothing else'}: see scripts/system-packages test")
    with slurm_site() as cluster:
        yield cluster


@pytest.fixture
def site(site_of_all: SlurmSite) -> Iterator[SlurmSite]:
    """The same, with nothing on it before and after."""
    with empty(site_of_all):
        yield site_of_all
    for term in re.findall(r"dally_lease_\d+", site_of_all.run("scontrol", "-o", "show", "reservation")):
        site_of_all.run("scontrol", "delete", f"ReservationName={term}")


@pytest.fixture(scope="package")
def kube_of_all() -> Iterator[KubeCluster]:
    """16 nodes of 8 GPUs in 4 racks on a real API server, for all tests of a process here.

    Not in a folder of pytest's: others clear those away, and then nobody would find the server to stop it.
    """
    if not BUNDLE.exists():
        pytest.skip(f"{BUNDLE} is not here: no Kubernetes to test on")
    with (
        tempfile.TemporaryDirectory(prefix="dally-kube-", ignore_cleanup_errors=True) as folder,
        kube_cluster(Path(folder)) as cluster,
    ):
        yield cluster


@pytest.fixture
def kube(kube_of_all: KubeCluster) -> Iterator[KubeCluster]:
    """The same, with nothing on it before and after."""
    kube_of_all.clear()
    yield kube_of_all
    kube_of_all.clear()
