"""What running jobs print or report reaches their status, and the engine."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest
from sqlalchemy import select

from dally.cluster.topology import grid
from dally.job_spec import JobSpec
from dally.live.backends.base import ProgressSource, Submission
from dally.live.backends.local import LocalBackend
from dally.live.config import Setup
from dally.live.cycle import Scheduler
from dally.live.daemon import Daemon
from dally.live.job_progress import ProgressReader
from dally.live.job_status import JobStatus
from dally.live.store import open_store
from dally.live.store.schema import JOBS
from dally.live.wall_clock import WallClock
from dally.progress.line_progress import LineProgress
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

    logs_per_s = 100.0
    answers_at_once = True

    def __init__(self, *sources: ProgressSource) -> None:
        self.sources = sources

    def progress_sources(self) -> tuple[ProgressSource, ...]:
        return self.sources


def test_log_of_a_server_that_does_not_answer_holds_up_nobody(tmp_path: Path) -> None:
    """It is read beside the cycles, and what it says is there at the next."""
    answered = threading.Event()

    class Slow:
        path = "slow"

        def look(self) -> list[LineProgress]:
            answered.wait(20.0)
            return [LineProgress(7, 10)]

        def last_lines(self) -> list[str]:
            return []

    slow = Files(ProgressSource("1", "slow", "", 0, tail=lambda parse: Slow()))
    slow.answers_at_once = False
    reader = ProgressReader(every_s=0.0)
    time.sleep(0.02)  # a look is allowed after a hundredth of a second
    for _ in range(3):
        reader.read(slow)  # type: ignore[arg-type]
        assert reader._rows == {}
    answered.set()

    def known() -> bool:
        reader.read(slow)  # type: ignore[arg-type]
        return bool(reader._rows)

    wait_for(known)
    assert reader._rows["1"][0].step == 7


def test_statements_count_more_than_the_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("step 3/10 loss=0.5\n")
    now = [0.0]
    reader = ProgressReader(lambda: now[0])
    for stated, seconds in (("x/y", 10.0), ("40/100", 20.0), ("41/100", 30.0)):
        now[0] = seconds
        reader.read(Files(ProgressSource("1", str(tmp_path / "log"), "", os.getuid(), stated=stated)))  # type: ignore[arg-type]
        rows = reader._rows["1"]
        assert (rows[-1].step, rows[-1].total) == ((3, 10) if stated == "x/y" else (int(stated[:2]), 100))
    (tmp_path / "log").write_text("step 3/10 loss=0.5\nstep 4/10 loss=0.5\n")
    now[0] = 40.0
    reader.read(Files(ProgressSource("1", str(tmp_path / "log"), "", os.getuid())))  # type: ignore[arg-type]
    assert rows == [LineProgress(41, 100)]


def test_a_printed_report_counts_more_than_other_lines(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("step 3/10 loss=0.5\ndally: training step 40/100\nstep 4/10 loss=0.5\n")
    now = [0.0]
    reader = ProgressReader(lambda: now[0])
    now[0] = 10.0
    reader.read(Files(ProgressSource("1", str(tmp_path / "log"), "", os.getuid())))  # type: ignore[arg-type]
    assert list(reader._put) == [("1", 40, 100)]
    reader.state(*reader._put.popleft())
    assert reader._rows["1"] == [LineProgress(40, 100)]


def test_report_beside_a_log_of_a_server_is_read_beside_the_cycles(tmp_path: Path) -> None:
    write_report(str(tmp_path / "log.progress"), Report(3, 10, 1.0))
    files = Files(ProgressSource("1", "", str(tmp_path / "log.progress"), os.getuid()))
    files.answers_at_once = False
    reader = ProgressReader(every_s=0.0)

    def rows() -> list[LineProgress]:
        reader.read(files)  # type: ignore[arg-type]
        return reader._rows.get("1", [])

    wait_for(lambda: bool(rows()))
    assert rows() == [LineProgress(3, 10)]


def test_jobs_with_one_file_do_not_count_each_others_steps(tmp_path: Path) -> None:
    """Both were given the same name for their output, and report into the file beside it in turn."""
    log, report = tmp_path / "log", str(tmp_path / "log.progress")
    one, two = (ProgressSource(job, str(log), report, os.getuid(), own_id=job) for job in ("1", "2"))
    now = [0.0]
    reader = ProgressReader(lambda: now[0])

    def read(*sources: ProgressSource) -> dict[str, list[LineProgress]]:
        now[0] += 10.0
        reader._rows.clear()
        files = Files(*sources)
        reader.read(files)  # type: ignore[arg-type]
        return dict(reader._rows)

    log.write_text("step 3/10 loss=0.5\n")
    assert read(one) == {"1": [LineProgress(3, 10)]}
    log.write_text("step 3/10 loss=0.5\nstep 90/100 loss=0.5\n")
    assert read(one, two) == {}
    write_report(report, Report(20, 30, 1.0, "2"))
    assert read(one, two) == {"2": [LineProgress(20, 30)]}
    write_report(report, Report(4, 10, 2.0, "1"))
    assert read(one, two) == {"1": [LineProgress(4, 10)]}
    log.write_text("step 95/100 loss=0.5\n" * 3)
    assert read(one) == {}


def test_own_pattern_is_what_counts(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("step 3/10 loss=0.5\nlap 30 of 90\n")
    now = [0.0]
    reader = ProgressReader(lambda: now[0])
    now[0] = 10.0
    source = ProgressSource("1", str(tmp_path / "log"), "", os.getuid(), "lap {step} of {total}")
    reader.read(Files(source))  # type: ignore[arg-type]
    assert [(row.step, row.total) for row in reader._rows["1"]] == [(30, 90)]


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


def test_failed_job_says_why(tmp_path: Path) -> None:
    """Its exit code, and the line of its log that says more, are kept with its end."""
    backend, store = LocalBackend(tmp_path, grid(1, 1, 4)), open_store(f"sqlite:///{tmp_path}/dally.db")
    clock = WallClock(time.time())
    daemon = Daemon(backend, lambda: Scheduler(backend, backend.topology(), Setup(policy="dally"), store, clock))
    script = 'import time; time.sleep(2.0); print("step 1/9 loss=1"); raise RuntimeError("CUDA out of memory.")'
    job_id = backend.submit(Submission(JobSpec(4), (sys.executable, "-c", script)))

    def outcome() -> list[str]:
        daemon.run_cycle()
        rows = store.rows(select(JOBS).where(JOBS.c.job_id == job_id, JOBS.c.outcome != ""))
        return [row["observed"]["reason"] for row in rows]

    try:
        wait_for(lambda: bool(outcome()), 30.0)
        assert outcome() == ["exit code 1: out of GPU memory (RuntimeError: CUDA out of memory.)"]
    finally:
        backend.close()
        store.close()
