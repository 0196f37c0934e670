"""Elastic Jobs on a real API server: each starts at any of its sizes under one id, whole or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from dally.live.backends.kubernetes import names
from dally.live.config import Setup
from tests.live.kube_bench import KubeBench
from tests.live.kube_cluster import JOBS, KubeCluster, job, until

POLICY: Final = f"{Path(__file__).parents[2] / 'benchmarks' / 'restless_sizes.py'}:RestlessSizes"


class KubeSizesBench(KubeBench):
    """A scheduler whose policy has its jobs run on the GPUs that `want` says."""

    def __init__(self, kube: KubeCluster, folder: Path) -> None:
        setup = Setup(POLICY, {"share": "0"}, restart_per_gpu_s=0.0, preempt={"usual": "yes"})
        super().__init__(kube, folder, setup)

    def elastic(self, name: str, pods: int, gpus: int, sizes: str, completions: int | None = None) -> str:
        body = job(name, pods, gpus, None)
        body["spec"]["template"]["metadata"]["annotations"]["dally.io/gpus"] = sizes
        body["spec"]["completions"] = completions
        self.kube.admin.post(JOBS, body)
        return f"default.job.{name}"

    def want(self, job_id: str, gpus: int) -> None:
        policy: Any = self.scheduler.state.policy
        policy.desired[job_id] = gpus

    def bound(self, name: str) -> list[dict[str, Any]]:
        """Its pods that have a node and were not told to go, if all of its pods are such."""
        pods = [pod for pod in self.kube.pods() if pod["metadata"]["labels"].get("test/gang") == name]
        there = [pod for pod in pods if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]]
        return there if len(there) == len(pods) else []

    def runs_at(self, job_id: str, pods: int, gpus: int) -> list[dict[str, Any]]:
        """Go on until it runs on that many pods, which it then has."""
        name = job_id.rpartition(".")[2]
        self.want(job_id, pods * gpus)
        self.go_on(lambda: len(self.bound(name)) == pods and self.runs(job_id))
        return self.bound(name)


def test_a_job_runs_on_each_of_its_sizes(kube: KubeCluster, tmp_path: Path) -> None:
    bench = KubeSizesBench(kube, tmp_path)
    job_id = bench.elastic("grows", 4, 4, "8:32")
    for pods in (4, 8, 2, 6):
        found = bench.runs_at(job_id, pods, 4)
        notes = [pod["metadata"]["annotations"] for pod in found]
        assert {note[names.WORLD_SIZE] for note in notes} == {str(pods)}
        assert sorted(int(note[names.RANK]) for note in notes) == list(range(pods))
    (seen,) = [one for one in bench.scheduler.roster.snapshot.jobs if one.job_id == job_id]
    assert (seen.spec.gpus, seen.spec.sizes, seen.resizable) == (16, "8,12,16,20,24,28,32", True)
    there = kube.admin.get(f"{JOBS}/grows")
    assert (there["spec"]["parallelism"], there["metadata"]["annotations"][names.REQUESTED]) == (6, "4")
    assert [row["kind"] for row in bench.events("start", "resize", "cancel")] == ["start"] + ["resize"] * 3
    assert bench.problems == []
    bench.close()


def test_a_daemon_that_dies_while_pods_come_finds_the_job_again(kube: KubeCluster, tmp_path: Path) -> None:
    """Told its number and nothing bound: the next daemon starts it, at that size or another."""
    bench = KubeSizesBench(kube, tmp_path)
    job_id = bench.elastic("dies", 2, 8, "8:64:8")
    bench.runs_at(job_id, 2, 8)
    bench.want(job_id, 48)
    bench.go_on(lambda: kube.admin.get(f"{JOBS}/dies")["spec"]["parallelism"] == 6)
    bench.backend.close()
    bench.backend = bench._backend = kube.backend(events=False)
    bench.begin()
    bench.runs_at(job_id, 6, 8)
    (seen,) = [one for one in bench.scheduler.roster.snapshot.jobs if one.job_id == job_id]
    assert seen.spec.gpus == 16
    bench.close()


def test_sizes_that_do_not_go_with_a_job_are_said_and_it_runs_as_it_asks(kube: KubeCluster, tmp_path: Path) -> None:
    bench = KubeSizesBench(kube, tmp_path)
    told = bench.elastic("told", 2, 8, "16:64", completions=2)
    uneven = bench.elastic("uneven", 2, 8, "16:64:4")
    bench.go_on(lambda: bench.runs(told) and bench.runs(uneven))
    reasons = {one.job_id: one.reason for one in bench.scheduler.roster.snapshot.jobs}
    assert reasons[told] == "dally.io/gpus 16:64: its completions are stated: leave them out"
    assert reasons[uneven] == "dally.io/gpus 16:64:4: '16:64:4': 20: must be a multiple of 8 GPUs, those of one pod"
    until(lambda: len(bench.bound("told")) == len(bench.bound("uneven")) == 2)
    bench.close()
