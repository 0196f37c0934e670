"""200 gangs on a cluster that is not theirs alone: none where the kubelet refuses it, none left waiting."""

from __future__ import annotations

from pathlib import Path

import pytest

from dally.live.config import Setup
from tests.live.kube_bench import KubeBench
from tests.live.kube_cluster import BUNDLE, PODS, kube_cluster
from tests.live.kube_filters import kube_scheduler
from tests.live.kube_mixed import Kubelets, MixedLoad, Provisioner, build

GANGS = 200


class MixedBench(KubeBench):
    """Beside a watcher that knows what kubelets refuse."""

    recorder_of = Kubelets


@pytest.mark.skipif(not BUNDLE.exists(), reason="the bundle ../shared/kubernetes is not here")
def test_two_hundred_gangs_beside_others(tmp_path: Path) -> None:
    """CPU pods, a DaemonSet, pods of Kubernetes' own scheduler, tainted and typed pools, ports, rules, volumes."""
    with kube_cluster(tmp_path, 0) as kube, kube_scheduler(kube, tmp_path):
        build(kube)
        bench = MixedBench(kube, tmp_path, Setup("dally", preempt={"usual": "yes"}), 100.0)
        load, provisioner = MixedLoad(kube, 1), Provisioner(kube)
        for number in range(GANGS):
            load.submit(number)
            if number % 20 == 19:
                bench.cycle()
        bench.submitted = load.ids
        for at in range(5):  # room for those that need CPUs
            kube.admin.delete(f"{PODS}/web{at}")
        bench.go_on(bench.ended, 240.0)
        found = bench.close()
        provisioner.stop()
        assert len(load.ids) == GANGS
        for claim, node in provisioner.nodes.items():
            assert kube.admin.get(f"{PODS}/{claim}")["spec"]["nodeName"] == node
        assert len(provisioner.nodes) > 20
        assert found["binds"] > 2 * GANGS
