"""The short form of benchmarks/kube_faults.py: two daemons, a faulty proxy, kills, stops, and a watcher."""

from __future__ import annotations

from pathlib import Path

from benchmarks.kube_faults import report, run

from tests.live.kube_cluster import KubeCluster


def test_faults_of_all_kinds(kube: KubeCluster, tmp_path: Path) -> None:
    """No GPU twice at any version, no gang lost, bare pods untouched, every gang whole again."""
    result = run(kube, tmp_path, 20.0, 5)
    assert report(result) == []
    assert {"kill daemon", "stop leader"} <= result["counts"].keys()
    assert result["gangs"] >= 10
