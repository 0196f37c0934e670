"""A real Slurm for the tests that need one."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.cli.conftest import dally as dally
from tests.live.slurm_cluster import SlurmCluster, missing, slurm_cluster


@pytest.fixture(scope="session")
def slurm_of_session() -> Iterator[SlurmCluster]:
    """16 nodes of 8 fake GPUs in 4 racks, for all tests of a process."""
    lacking = missing()
    if lacking:
        why = f"Slurm is not installed ({', '.join(lacking)}): see scripts/system-packages test"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    with slurm_cluster() as cluster:
        yield cluster


@pytest.fixture
def slurm(slurm_of_session: SlurmCluster) -> Iterator[SlurmCluster]:
    """The same, with nothing on it before and after."""
    slurm_of_session.settle()
    yield slurm_of_session
    slurm_of_session.cancel_all()
