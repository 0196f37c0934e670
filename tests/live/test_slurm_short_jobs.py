"""The short form of benchmarks/slurm_short.py."""

from __future__ import annotations

from pathlib import Path

from benchmarks.slurm_short import run

from tests.live.slurm_cluster import SlurmCluster


def test_no_finished_job_runs_again(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Under a policy that moves running jobs all the time: each ends once, and never begins while it runs."""
    result = run(slurm, tmp_path, jobs=24, share=0.25, seconds=4, within_s=240.0)
    assert (result.again, result.twice) == ([], []), result.report()
    assert result.preemptions, result.report()
