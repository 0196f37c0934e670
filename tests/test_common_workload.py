"""The workload on which two independent simulators agree: the same numbers to 0.1 s."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dally.runs.execute import execute
from dally.runs.scenario import Scenario


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
    summary = run(shared, tmp_path / "w.csv", jobs, policy)
    assert summary["jct_mean_s"] == pytest.approx(jct_mean_s, abs=0.1)
    assert summary["preemptions"] == preemptions


def run(
    shared: Path, trace: Path, jobs: int, policy: str, settings: dict[str, str] | None = None
) -> dict[str, Any]:
    """The summary of that many jobs on 512 GPUs with free preemption."""
    maker = shared / "tools" / "common_workload.py"
    subprocess.run([sys.executable, maker, str(jobs), trace, "1.1"], check=True, stdout=subprocess.DEVNULL)
    return execute(Scenario(str(trace), "4x16x8", policy, settings or {}, restart_per_gpu_s=0.0)).summary


def test_tiresias_is_near_its_authors_simulator(shared: Path, tmp_path: Path) -> None:
    """8726 s with limits 3250, 7200 and 18000, free preemption, any placement (reference/peers.csv: dlas-gpu)."""
    settings = {"limits": "3250,7200,18000", "promote": "inf", "skew": "2"}
    summary = run(shared, tmp_path / "w.csv", 10000, "tiresias", settings)
    assert summary["jct_mean_s"] == pytest.approx(8726, rel=0.03)
