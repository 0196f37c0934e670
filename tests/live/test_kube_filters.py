"""The nodes that a pod may use, against kube-scheduler's own filters on a real API server."""

from __future__ import annotations

from pathlib import Path

import pytest

from dally.live.backends.base import UP, BackendError, Observed
from dally.live.backends.kubernetes import KubernetesBackend
from dally.live.config import Setup
from dally.live.cycle import Scheduler
from tests.live.bench import LiveBench
from tests.live.kube_cluster import BUNDLE, PODS, kube_cluster, until
from tests.live.kube_filters import RandomCluster, filtered

SIZES = (40, 80, 160)  # nodes, pods that are there, pods that wait: 6,400 pairs


class Looker(LiveBench):
    """A scheduler whose books are those of the cluster."""

    def decide(self) -> None:
        self.problems += self.scheduler.run_cycle().problems

    def pause(self) -> None:
        pass


def planned(scheduler: Scheduler, observed: Observed) -> dict[str, set[str]]:
    """By pod: the nodes on which the engine's books would let a policy place it."""
    scheduler.constraints.update(observed, scheduler.clock.now())
    books = scheduler.state.cluster.feasibility
    assert books is not None
    up = {machine.name for machine in observed.machines if machine.state == UP}
    result: dict[str, set[str]] = {}
    for seen in observed.jobs:
        if not seen.managed or seen.placement:
            continue
        assert "not model" not in seen.reason, seen
        job = scheduler.roster.job_of(seen)
        books.signatures.sign(job)
        names = {
            name for name, at in scheduler.roster.machines.items() if books.usable(job.signature, at) >= job.gpus
        }
        result[seen.spec.name] = names & up if seen.state == "queued" else set()
    return result


def startable(backend: KubernetesBackend, observed: Observed) -> dict[str, set[str]]:
    """By pod: the nodes on which the last look before its binding would let it start."""
    result: dict[str, set[str]] = {}
    for seen in observed.jobs:
        if not seen.managed or seen.placement:
            continue
        names: set[str] = set()
        for machine in observed.machines:
            try:
                backend.check_start(seen.job_id, {machine.name: seen.spec.gpus})
            except BackendError:
                continue
            names.add(machine.name)
        result[seen.spec.name] = names
    return result


@pytest.mark.skipif(not BUNDLE.exists(), reason="the bundle ../shared/kubernetes is not here")
@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_nodes_as_kube_scheduler(tmp_path: Path, seed: int) -> None:
    """For every pod and node: GPUs and all else it asks for, host ports, affinities, taints, spread, volumes.

    Cordoned nodes take none here, whatever pods tolerate; none of these pods tolerates that.
    """
    nodes, placed, pods = SIZES
    with kube_cluster(tmp_path, 0, controllers=False) as kube:
        cluster = RandomCluster(seed, nodes, placed, pods)
        cluster.create(kube)
        backend = kube.backend(scheduler_name="default-scheduler", taints=())
        try:
            bench = Looker(backend, tmp_path, Setup("fifo-backfill"), 1.0)
            bench.cycle()
            for entry in cluster.pods:
                kube.admin.post(PODS, entry)
            until(lambda: sum(job.managed for job in backend.snapshot().jobs) == pods)
            observed = backend.snapshot()
            ours, last = planned(bench.scheduler, observed), startable(backend, observed)
        finally:
            backend.close()
        theirs = filtered(kube, tmp_path, pods)
    assert len(theirs) == pods
    different = {
        name: (sorted(ours[name] ^ theirs[name]), sorted(last[name] ^ theirs[name]))
        for name in theirs
        if not ours[name] == last[name] == theirs[name]
    }
    for name, (by_plan, by_start) in list(different.items())[:5]:
        print(name, by_plan, by_start, next(one for one in cluster.pods if one["metadata"]["name"] == name))
    assert not different
    total = sum(map(len, theirs.values()))
    assert 0.05 * nodes * pods < total < 0.6 * nodes * pods
