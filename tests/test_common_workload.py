"""The workload on which two independent simulators agree: the same numbers to 0.1 s."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dally.metrics.summary import summarize
from dally.scenario import Scenario


@pytest.mark.parametrize(
    ("jobs", "policy", "jct_mean_s", "preemptions"),
    [
        (500, "fifo", 7801.2, 0),
        (2000, "fifo", 8327.6, 0),
        (10000, "fifo", 10401.1, 0),
        (2000, "srsf", 8167.6, 81),
        (10000, "srsf", 8462.1, 2282),
    ],
)
def test_agrees(shared: Path, tmp_path: Path, jobs: int, policy: str, jct_mean_s: float, preemptions: int) -> None:
    trace = tmp_path / "w.csv"
    maker = shared / "tools" / "common_workload.py"
    subprocess.run([sys.executable, maker, str(jobs), trace, "1.1"], check=True, stdout=subprocess.DEVNULL)
    simulation, _ = Scenario(str(trace), "4x16x8", policy, restart_per_gpu_s=0.0).simulation()
    simulation.run()
    summary = summarize(simulation)
    assert summary["jct_mean_s"] == pytest.approx(jct_mean_s, abs=0.1)
    assert summary["preemptions"] == preemptions
