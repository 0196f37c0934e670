"""Slowdowns by user, worked out by hand: two users, one machine of one GPU, in the order of submission."""

from __future__ import annotations

from pathlib import Path

import pytest

from dally.metrics.summary import row_of
from dally.runs.execute import execute
from dally.runs.scenario import Scenario

HEAD = "job_id,submit_s,gpus,duration_s,user\n"


def _run(folder: Path, lines: str) -> tuple[dict[str, object], dict[str, object]]:
    (folder / "jobs.csv").write_text(HEAD + lines)
    record = execute(Scenario(trace=str(folder / "jobs.csv"), cluster="1x1x1", policy="fifo"))
    return record.summary, row_of(record)


def test_the_worst_user_waits_behind_the_other(tmp_path: Path) -> None:
    # ana: 0 to 100 s, then 160 to 260 s after a wait of 10 s: slowdowns 1 and 1.1. ben: submitted at 50 s, runs
    # from 100 to 160 s: 110 ÷ 60. A fair share while two ask for the GPU: half of it.
    summary, row = _run(tmp_path, "a,0,1,100,ana\nb,50,1,60,ben\nc,150,1,100,ana\n")
    assert summary["user_slowdown_max"] == pytest.approx(110 / 60)
    assert summary["user_slowdown_worst"] == "ben"
    # ben: 50 to 160 s, of which 50 to 100 s and 150 to 160 s with two demands: (60 × 2 + 50) ÷ 110 on average.
    assert summary["rho_max"] == pytest.approx(110 / (60 * 170 / 110))
    assert row["user_slowdown_max"] == summary["user_slowdown_max"]
    assert "user_slowdown_worst" not in row
    assert row["short_slowdown_p99"] == pytest.approx(1.1 + (110 / 60 - 1.1) * 0.98)


@pytest.mark.parametrize("lines", ["a,0,1,100,ana\nb,50,1,60,ana\n", "a,0,1,100,\nb,50,1,60,\n"])
def test_nothing_is_said_of_users_where_there_are_not_two(tmp_path: Path, lines: str) -> None:
    summary, _ = _run(tmp_path, lines)
    assert not [name for name in summary if name.startswith(("user_", "rho"))]


def test_a_job_of_a_second_counts_as_ten(tmp_path: Path) -> None:
    # b waits 99 s of its 100: 100 ÷ 10, not 100 ÷ 1; no job of more than 10 minutes is short.
    _, row = _run(tmp_path, "a,0,1,700,ana\nb,601,1,1,ana\n")
    assert row["short_slowdown_p99"] == pytest.approx(10.0)
