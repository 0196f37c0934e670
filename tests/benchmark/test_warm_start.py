"""What is learnt from is what the batch does not hold."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from benchmarks.warm_start import learnt

from dally.benchmark.cells import VENUS


def test_short_jobs_and_those_of_the_batch_teach_nothing(tmp_path: Path) -> None:
    """Four jobs: one short, one in the batch. Of the two that are left each counts once in the widest class."""
    (tmp_path / "traces").mkdir()
    header = "job_id,user,submit_s,gpus,duration_s"
    rows = ["a,u,0,1,60", "b,u,1,1,3600", "c,u,2,1,3600", "d,u,3,8,7200"]
    (tmp_path / "traces" / VENUS).write_bytes(gzip.compress("\n".join([header, *rows]).encode()))
    (tmp_path / "batch.csv").write_text(f"{header}\nb,u,0,1,3600\n")
    found = json.loads(learnt(tmp_path, tmp_path / "batch.csv", tmp_path / "out.json").read_text())
    assert found["finishes"] == 2
    widest = next(row for row in found["classes"] if row[0] == "")
    assert sum(widest[3]) == 2.0
