"""Advice before a job is submitted: what its script asks for, and what earlier jobs say of that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.report.advice import ScriptRequest, advise_on, request_of, slurm_limit_s
from dally.traces.rows import TraceRow
from tests.cli.conftest import Run
from tests.cli.conftest import dally as dally

SCRIPT = """#!/bin/bash
#SBATCH -J train --nodes=2 --gres=gpu:a100:8
#SBATCH -t 2-00:00:00  # two days
srun python train.py --time 5
"""


def row(number: int, seconds: float, status: str = "COMPLETED", name: str = "train", gpus: int = 16) -> TraceRow:
    spec = JobSpec(gpus, user="ana", name=name, limit_s=172800.0)
    return TraceRow(number, str(number), 1000.0 * number, spec, seconds, status, wait_s=0.0)


@pytest.mark.parametrize(
    ("lines", "gpus"),
    [
        ("#SBATCH --gpus=4", 4),
        ("#SBATCH -G h100:12", 12),
        ("#SBATCH -N 3 --gpus-per-node=h100:4", 12),
        ("#SBATCH -n 6\n#SBATCH --gpus-per-task 2", 12),
        ("#SBATCH --gres=gpu", 1),
        ("#SBATCH --nodes 2-4 --gres=gpu:8,tmp:1", 16),
        ("echo hello", 1),
    ],
)
def test_gpus_of_a_script(lines: str, gpus: int) -> None:
    assert request_of(lines, "ana").gpus == gpus


def test_what_a_script_asks_for() -> None:
    assert request_of(SCRIPT, "ana") == ScriptRequest("ana", "train", 16, 172800.0)
    with pytest.raises(InputError, match="nodes: 'x'"):
        request_of("#SBATCH -N x", "ana")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 5400.0), ("90:30", 5430.0), ("1:00:01", 3601.0), ("1-12", 129600.0), ("1-1:30", 91800.0),
     ("2-00:00:05", 172805.0), ("UNLIMITED", None)],
)  # fmt: skip
def test_time_limits(text: str, seconds: float | None) -> None:
    assert slurm_limit_s(text) == seconds


def test_a_limit_that_cannot_be() -> None:
    with pytest.raises(InputError, match="--time: 'soon'"):
        slurm_limit_s("soon")


def test_advice_from_runs_of_the_same_name() -> None:
    rows = [row(number, 17280.0 + 100.0 * (number % 3)) for number in range(12)]
    rows += [row(20 + number, 60.0, name="test", gpus=1) for number in range(12)]
    rows[7] = row(7, 600.0, "FAILED")
    request = request_of(SCRIPT, "ana")
    lines = advise_on(request, rows).lines(request)
    assert lines[0].startswith("It is expected to run 3.7 h; eight of ten such jobs run between ")
    assert lines[1] == "Your latest 12 runs like this used 9 % of their time limit."
    assert lines[2].startswith("A limit of 7.3 h would do")
    assert lines[3] == "1 of your latest 12 runs like this did not end well; the last (7, failed) ran 10.0 min."
    plain = advise_on(request, rows).plain()
    assert (plain["alike"], plain["failed"]) == (12, ["7"])


def test_nothing_to_go_by() -> None:
    request = request_of(SCRIPT, "ana")
    assert advise_on(request, []).lines(request)[0].startswith("No earlier job")


def test_command(dally: Run, tmp_path: Path) -> None:
    past = tmp_path / "past.csv"
    lines = [f"j{number},{100 * number},8,{600 + number},ben" for number in range(6)]
    past.write_text("\n".join(["job_id,submit_s,gpus,duration_s,user", *lines]) + "\n")
    script = tmp_path / "job.sh"
    script.write_text("#SBATCH --gpus=8\n")
    found = json.loads(dally("advise", str(script), "--past", str(past), "--user", "ben", "--json").stdout)
    assert found["alike"] == 6
    assert 599.0 < found["expected_s"]["0.5"] < 606.0
