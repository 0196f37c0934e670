"""A dry run's daily report: what Dally would have done with the jobs of the day."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from dally.job_spec import JobSpec
from dally.live.assembly import Service
from dally.live.backends.base import Submission, Submits
from dally.live.config import Config
from dally.live.cycle import CycleResult
from dally.live.history.recorded_trace import DAY_S, DailyReport, command
from dally.live.wall_clock import WallClock


def test_the_report_of_a_day(tmp_path: Path) -> None:
    config = Config(folder=tmp_path, cluster="2x2x8", speed=600.0)
    config = replace(config, setup=replace(config.setup, network="slow"))
    service = Service(config)
    assert isinstance(service.backend, Submits)
    for gpus in (8, 16, 4, 8):
        service.backend.submit(Submission(JobSpec(gpus, model="bert-base", user="ana", duration_s=60.0)))
    # One user's comment names a model that has no profile: the report is of all jobs all the same.
    service.backend.submit(Submission(JobSpec(16, model="my-llm!", user="ben", duration_s=60.0)))
    for _ in range(100):
        service.daemon.run_cycle()
        if service.daemon.cycles > 1 and not service.daemon.status.jobs:
            break
        time.sleep(0.05)
    service.close()
    told = subprocess.run(
        [*command(config, tmp_path / "day"), "--json"], capture_output=True, text=True, check=True
    )
    assert json.loads(told.stdout)["new"] == "dally"
    assert (tmp_path / "day" / "jobs.csv").read_text().count("\n") == 6
    assert (tmp_path / "day" / "answer" / "report.html").exists()


def test_nothing_was_kept_there(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "dally", "shadow", "--folder", str(tmp_path)]
    told = subprocess.run(words, capture_output=True, text=True, check=False)
    assert told.returncode == 2
    assert told.stderr == f"dally: --folder {tmp_path}: no daemon has stored anything there\n"


def test_it_is_written_once_a_day(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    asked: list[list[str]] = []

    class Fake:
        returncode = 0

        def __init__(self, words: list[str], **_: object) -> None:
            asked.append(words)

        def poll(self) -> int:
            return 0

    monkeypatch.setattr(subprocess, "Popen", Fake)
    report = DailyReport(Config(folder=tmp_path), WallClock(time.time()))
    for now in (0.0, DAY_S - 1.0, DAY_S, DAY_S + 1.0, 1.5 * DAY_S, 2.0 * DAY_S):
        report(CycleResult(now, now + 1.0), 0.0)
    assert len(asked) == 2
