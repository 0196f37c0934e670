"""Small workloads whose best schedule is known."""

from __future__ import annotations

import random
from pathlib import Path

from dally.learning.training_plan import TrainingPlan


def one_machine(folder: Path, jobs: int, **more: int) -> TrainingPlan:
    """One GPU and jobs of known durations, preempted for nothing: SRPT is optimal, and is the lower bound."""
    drawn = random.Random(3)
    now = 0.0
    lines = ["job_id,submit_s,gpus,duration_s"]
    for place in range(jobs):
        now += drawn.expovariate(1 / 160)
        lines.append(f"j{place},{now:.3f},1,{drawn.lognormvariate(4.2, 1.0):.3f}")
    path = folder / "one.csv"
    path.write_text("\n".join(lines) + "\n")
    options = {"preempt": True, "knows": "durations"}
    return TrainingPlan(
        "OrderJobs-v0", str(path), "1x1x1", {"restart_per_gpu_s": 0.0}, options, "fifo", window_jobs=50, **more
    )


def two_racks(folder: Path, jobs: int, **more: int) -> TrainingPlan:
    """Gangs that a rack holds, rarely two at a time, on slow links between racks: the closest domain is best."""
    drawn = random.Random(3)
    now = 0.0
    lines = ["job_id,submit_s,gpus,duration_s,model"]
    for place in range(jobs):
        now += drawn.expovariate(1 / 1200)
        lines.append(f"j{place},{now:.3f},{drawn.choice((4, 8))},{drawn.uniform(200, 600):.3f},vgg16")
    path = folder / "racks.csv"
    path.write_text("\n".join(lines) + "\n")
    fields = {"restart_per_gpu_s": 0.0, "network": "slow"}
    return TrainingPlan("PlaceJobs-v0", str(path), "2x2x4", fields, {}, "fifo", window_jobs=50, **more)
