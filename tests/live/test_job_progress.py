"""What running jobs print or report reaches their status, and the engine."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from dally.cluster.topology import grid
from dally.job_spec import JobSpec
from dally.live.backends.base import ProgressSource, Submission
from dally.live.backends.local import LocalBackend
from dally.live.config import Setup
from dally.live.cycle import Scheduler
from dally.live.daemon import Daemon
from dally.live.job_progress import ProgressReader
from dally.live.status import JobStatus
from dally.live.store import open_store
from dally.live.wall_clock import WallClock
from dally.progress.report_file import Report, write_report
from tests.waiting import wait_for

SOURCE = str(Path(__file__).parents[2] / "src")
PRINTS = """
import sys, time
for step in range(1, 400):
    print(f"\\r{step}%|##   | {step}/400 [00:{step:02}<01:00, 10.0it/s]", end="", flush=True)
    time.sleep(0.05)
"""
REPORTS = """
import dally, time
print("step 1/999 loss=0.5")
for step in range(1, 400):
    dally.report(step, 500)
    time.sleep(0.05)
"""


@pytest.mark.parametrize(("script", "total"), [(PRINTS, 400), (REPORTS, 500)])
def test_progress_of_a_real_process_is_on_its_status_within_ten_seconds(
    tmp_path: Path, script: str, total: int
) -> None:
    backend, store = LocalBackend(tmp_path, grid(1, 1, 4)), open_store(f"sqlite:///{tmp_path}/dally.db")
    clock = WallClock(time.time())
    daemon = Daemon(backend, lambda: Scheduler(backend, backend.topology(), Setup(policy="dally"), store, clock))
    request = Submission(JobSpec(4), (sys.executable, "-c", script), environment={"PYTHONPATH": SOURCE})
    job_id = backend.submit(request)

    def status() -> JobStatus:
        daemon.run_cycle()
        return daemon.status.by_id[job_id]

    try:
        wait_for(lambda: status().step is not None, 25.0)  # ten on a machine that does nothing else
        wait_for(lambda: status().end_s is not None, 40.0)
        line = status()
        assert line.total_steps == total
        assert line.step is not None
        assert 0 < line.step < total
        assert line.end_low_s is not None
        assert line.end_s is not None
        assert line.end_high_s is not None
        assert line.end_low_s <= line.end_s <= line.end_high_s
        assert line.end_s - time.time() < 120.0
        assert daemon.scheduler is not None
        assert daemon.scheduler.roster.jobs[job_id].reported_s > 0.0
    finally:
        backend.cancel_job(job_id)
        for _ in range(50):
            backend.snapshot()
            time.sleep(0.05)
        backend.close()
        store.close()


class Files:
    """A backend that has nothing but logs."""

    def __init__(self, *sources: ProgressSource) -> None:
        self.sources = sources

    def progress_sources(self) -> tuple[ProgressSource, ...]:
        return self.sources


def test_files_of_another_user_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("step 3/10 loss=0.5\n")
    write_report(str(tmp_path / "progress"), Report(3, 10, 1.0))
    now = [0.0]
    for owner, rows in ((os.getuid() + 1, 0), (os.getuid(), 1)):
        reader = ProgressReader(lambda: now[0])
        now[0] += 10.0
        source = ProgressSource("1", str(tmp_path / "log"), str(tmp_path / "progress"), owner)
        reader.read(Files(source))  # type: ignore[arg-type]
        assert len(reader._rows.get("1", [])) == rows
        assert len(reader._reports) == rows
