"""Dally schedules a real Kubernetes API server: what it decides is what happens."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from dally.live.config import Setup
from tests.live.kube_bench import KubeBench
from tests.live.kube_cluster import KubeCluster, until

SPEED = 100.0  # a second is 100 of the engine's
PAPER = Setup(
    "dally-paper-manual", {"lease_s": "400", "floors": "1,2"}, restart_per_gpu_s=0.0, preempt={"usual": "yes"}
)


def test_sixty_gangs(kube: KubeCluster, tmp_path: Path) -> None:
    """All finish, each pod where it was decided; no GPU is given twice at any resource version."""
    chance = random.Random(2)
    bench = KubeBench(kube, tmp_path, PAPER, SPEED)
    sizes = {}
    for number in range(60):
        pods = 64 if number == 20 else chance.choices((1, 2, 4, 8, 16, 32), (6, 6, 6, 4, 2, 1))[0]
        gpus = chance.choice([each for each in (1, 2, 4, 8) if pods * each <= 64])
        seconds = chance.uniform(0.3, 1.5) if number % 15 else 6.0
        submit = bench.submit_bare if number % 7 == 3 else bench.submit
        sizes[submit(f"g{number}", pods, gpus, seconds)] = pods
        if number % 10 == 9:
            bench.cycle()
    bench.go_on(bench.ended, 150.0)
    found = bench.close()
    assert found["half_s"] < 5.0, bench.recorder.half_s
    assert not bench.events("start_failed", "adopt")
    for job_id in bench.submitted:
        decided = [row["placement"] for row in bench.events("start") if row["job_id"] == job_id]
        gang = job_id.split(".")[-1]
        bound = bench.recorder.placements(gang)
        assert bound, job_id
        assert within(bound, decided), (job_id, bound, decided)
        assert [len(run) for run in bench.recorder.runs[gang]] == bench.recorder.due[gang]  # all that had not ended
        assert bench.recorder.due[gang][0] == sizes[job_id]
    print(f"{found['binds']} pods bound, half bound at most {found['half_s']:.2f} s,", len(bench.events("preempt")))


def within(some: Sequence[object], every: Iterable[object]) -> bool:
    """All of `some` come in `every`, in that order."""
    rest = iter(every)
    return all(any(one == other for other in rest) for one in some)


def test_simulated_and_live(kube: KubeCluster, tmp_path: Path) -> None:
    """The same jobs in the simulator: the same order of starts, the same machines and tiers."""
    jobs = [(64, 1.0), (32, 4.0), (16, 8.0), (16, 14.0), (32, 14.0), (32, 14.0), (32, 2.0), (24, 14.0), (24, 1.0)]
    bench = KubeBench(kube, tmp_path, Setup("fifo-backfill"), SPEED)
    for number, (gpus, seconds) in enumerate(jobs):
        bench.submit(f"j{number}", gpus // 8, 8, seconds)
    until(lambda: len(kube.pods()) == sum(gpus for gpus, _ in jobs) // 8)
    time.sleep(0.2)  # the watch tells of the last of them
    bench.go_on(lambda: bench.runs(bench.submitted[-1]))
    expected, _ = bench.simulated_starts(jobs, kube.nodes)
    assert bench.starts() == expected
    assert len({tier for _, _, tier in expected}) == 2
    bench.close()
