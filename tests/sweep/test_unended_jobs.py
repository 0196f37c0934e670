"""Jobs that wait or run as the record ends are replayed, so that they hold GPUs and stand before others."""

from __future__ import annotations

from pathlib import Path

import pytest

from dally.cluster.spec import read_topology
from dally.sweep.whatif.record_notes import NEVER_STARTED, RAN_ON, STILL_RUN, STILL_WAITED, record_notes
from dally.sweep.whatif.unended_jobs import with_running, with_waiting
from dally.traces import History, read_history
from dally.traces.rows import NOT_KNOWN

HEAD = "JobID|User|JobName|Submit|Start|End|State|AllocTRES|NNodes|NodeList|Elapsed|ReqTRES|Timelimit\n"
DAY = "2024-03-01T"


def ended(number: int, gpus: int, hours: int, user: str = "ann", limit: str = "") -> str:
    times = f"{DAY}00:00:00|{DAY}00:00:00|{DAY}{hours:02d}:00:00"
    return f"{number}|{user}|a|{times}|COMPLETED|gres/gpu={gpus}|1|n1|{hours:02d}:00:00||{limit}\n"


def running(number: int, gpus: int, hours: int, limit: str = "") -> str:
    times = f"{DAY}01:00:00|{DAY}02:00:00|Unknown"
    return f"{number}|ann|a|{times}|RUNNING|gres/gpu={gpus}|1|n2|{hours:02d}:00:00||{limit}\n"


def waiting(number: int, gpus: int) -> str:
    return f"{number}|ann|a|{DAY}03:00:00|Unknown|Unknown|PENDING||0|None assigned|00:00:00|gres/gpu={gpus}|\n"


def read(tmp_path: Path, *lines: str) -> History:
    (tmp_path / "sacct.txt").write_text(HEAD + "".join(lines))
    return read_history(tmp_path / "sacct.txt")


def test_a_running_job_is_as_long_as_those_like_it_that_lasted_longer(tmp_path: Path) -> None:
    history = read(tmp_path, ended(1, 8, 2), ended(2, 8, 6), ended(3, 8, 10), running(4, 8, 5))
    [job] = [row for row in with_running(history).rows if row.job_id == "4"]
    assert (job.submit_s, job.wait_s, job.stated, job.nodes) == (3600.0, 3600.0, 8 * 3600.0, "n2")


def test_a_running_job_keeps_to_its_limit_and_to_what_it_has_run(tmp_path: Path) -> None:
    history = read(tmp_path, ended(1, 8, 10), running(2, 8, 5, "06:00:00"), running(3, 8, 12))
    lengths = {row.job_id: row.stated / 3600.0 for row in with_running(history).rows}
    assert lengths == {"1": 10.0, "2": 6.0, "3": 24.0}, "none lasted longer than job 3: as long again"


@pytest.mark.parametrize(
    ("limits", "hours"),
    [
        (["2:00:00", "4:00:00", "20:00:00"], 30.0),  # half of the limit each time: so of 60 h, too
        (["20:00:00"] * 3, 13.0 / 3.0),  # says nothing of the lengths 1, 2 and 10 h
    ],
)
def test_limits_tell_lengths_where_jobs_use_equal_shares_of_them(
    tmp_path: Path, limits: list[str], hours: float
) -> None:
    lines = [
        ended(3 * number + place, 8, length, limit=limit)
        for number in range(10)
        for place, (length, limit) in enumerate(zip((1, 2, 10), limits, strict=True), 1)
    ]
    history = read(tmp_path, *lines, running(99, 8, 0, "2-12:00:00"))
    [job] = [row for row in with_running(history).rows if row.job_id == "99"]
    assert job.stated / 3600.0 == pytest.approx(hours)


def test_a_waiting_job_counts_if_one_as_large_has_run(tmp_path: Path) -> None:
    history = read(tmp_path, ended(1, 8, 2), waiting(2, 8), waiting(3, 16))
    whole = with_waiting(history)
    assert [(row.job_id, row.wait_s) for row in whole.rows] == [("1", 0.0), ("2", NOT_KNOWN)]
    assert with_waiting(whole._replace(unended=[])).rows == whole.rows


def test_a_requeued_job_has_its_earlier_runs_alone(tmp_path: Path) -> None:
    history = read(tmp_path, ended(1, 8, 2), waiting(1, 8))
    assert not history.unended


def test_what_is_said_of_them(tmp_path: Path) -> None:
    history = read(tmp_path, ended(1, 8, 2), running(2, 8, 1), waiting(3, 8), waiting(4, 16))
    topology = read_topology("1x8x8")
    assert record_notes(history, topology) == {NEVER_STARTED: 2, STILL_RUN: 1}
    history = with_running(history)
    assert record_notes(history, topology) == {RAN_ON: 1, NEVER_STARTED: 2}
    assert record_notes(with_waiting(history), topology) == {STILL_WAITED: 1, RAN_ON: 1, NEVER_STARTED: 1}
