"""The short form of benchmarks/elastic_faults.py: a daemon killed while jobs change their size loses none."""

from __future__ import annotations

from pathlib import Path

from benchmarks.elastic_faults import on_kubernetes, on_slurm

from tests.live.kube_cluster import KubeCluster
from tests.live.slurm_cluster import SlurmCluster

JOBS, SECONDS = 8, 20.0


def test_on_slurm(slurm: SlurmCluster, tmp_path: Path) -> None:
    result = on_slurm(slurm, tmp_path, JOBS, SECONDS, 3)
    assert result.holds, result.report(JOBS)
    assert result.deaths


def test_on_kubernetes(kube: KubeCluster, tmp_path: Path) -> None:
    result = on_kubernetes(kube, tmp_path, JOBS, SECONDS, 3)
    assert result.holds, result.report(JOBS)
    assert result.deaths
