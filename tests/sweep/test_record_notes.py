"""What is said of jobs that a record has only in part."""

from __future__ import annotations

from pathlib import Path

from dally.cluster.spec import read_topology
from dally.cluster.topology import Machine, Topology
from dally.sweep.whatif.record_notes import NEVER_STARTED, SPREAD, STILL_RUN, record_notes
from dally.traces import read_history

RECORD = """JobID|User|JobName|Submit|Start|End|State|AllocTRES|NNodes|NodeList|Elapsed|ReqTRES
1|ann|a|2024-03-01T00:00:00|2024-03-01T00:00:00|2024-03-01T02:00:00|COMPLETED|gres/gpu=16|2|n[1-2]|02:00:00|
2|ann|b|2024-03-01T00:00:00|2024-03-01T00:00:00|2024-03-01T02:00:00|COMPLETED|gres/gpu=16|4|n[3-6]|02:00:00|
3|ann|c|2024-03-01T01:00:00|2024-03-01T01:00:00|Unknown|RUNNING|gres/gpu=8|1|n7|01:00:00|
4|bob|d|2024-03-01T01:00:00|Unknown|Unknown|PENDING||0|None assigned|00:00:00|gres/gpu=8
5|bob|e|2024-03-01T01:00:00|None|2024-03-01T01:30:00|CANCELLED by 7||0|None assigned|00:00:00|gres/gpu=8
"""


def test_jobs_without_a_start_or_an_end_and_spread_ones(tmp_path: Path) -> None:
    (tmp_path / "sacct.txt").write_text(RECORD)
    history = read_history(tmp_path / "sacct.txt")
    assert [row.job_id for row in history.rows] == ["1", "2"]
    notes = record_notes(history, read_topology("1x8x8"))
    assert notes == {NEVER_STARTED: 2, STILL_RUN: 1, SPREAD: 1}
    assert SPREAD not in record_notes(history, read_topology("1x8x4"))


def test_a_job_on_small_machines_beside_large_ones_is_not_spread(tmp_path: Path) -> None:
    (tmp_path / "sacct.txt").write_text(RECORD)
    machines = [Machine(("rack",), f"n{number}", 4 if 2 < number < 7 else 8) for number in range(1, 9)]
    notes = record_notes(read_history(tmp_path / "sacct.txt"), Topology(["machine", "rack", "network"], machines))
    assert SPREAD not in notes
