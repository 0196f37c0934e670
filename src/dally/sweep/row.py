"""One run as one row of a benchmark's table."""

from __future__ import annotations

from typing import Any

from dally.engine.simulate import Simulation
from dally.metrics.summary import mean, summarize
from dally.model import FINISHED

COLUMNS = (
    "jobs", "finished", "makespan_s", "makespan_bound_s", "jct_mean_s", "jct_bound_s", "jct_p50_s", "jct_p99_s",
    "comm_s", "comm_floor_s", "preemptions", "migrations",
)  # fmt: skip
SIZES = {"jct_1_gpu_s": (1, 1), "jct_2_to_8_gpus_s": (2, 8), "jct_over_8_gpus_s": (9, 1 << 60)}


def row_of(simulation: Simulation, cpu_s: float) -> dict[str, Any]:
    """What benchmark.md reports of a run: seconds, and counts. No job of a size finished: None for it."""
    summary = summarize(simulation)
    row: dict[str, Any] = {name: summary[name] for name in COLUMNS}
    for name, (least, most) in SIZES.items():
        jct = [
            job.finish_s - job.submit_s
            for job in simulation.jobs
            if job.status == FINISHED and least <= int(job.gpus) <= most
        ]
        row[name] = mean(jct) if jct else None
    return {**row, "cpu_s": round(cpu_s, 3)}
