"""Whose a job is and what it asks for: carried from every format that says so to the engine's job and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from dally.job_spec import JobSpec
from dally.live.backends.base import QUEUED, ObservedJob
from dally.live.facts import job_of
from dally.live.forecast.lifetimes import past_of
from dally.model import NEVER, Job
from dally.traces import read_history, read_trace
from dally.traces.writing import losses, text_of
from tests.traces.documented import first_seed, put

# Of the first job of each format's example in docs/formats.md.
TOLD: dict[str, dict[str, object]] = {
    "philly": {"user": "ce2f4c", "queue": "ee9e8c"},
    "helios": {"user": "u1", "queue": "vc1"},
    "swf": {"user": "3", "queue": "1", "partition": "1", "limit_s": 7200.0},
    "kubernetes": {"user": "ann", "queue": "team-a", "partition": "team-a", "account": "vision", "priority": 100.0},
}


@pytest.mark.parametrize("name", TOLD)
def test_facts_reach_the_job(name: str, tmp_path: Path) -> None:
    job = read_trace(put(first_seed(name), tmp_path), 1000).jobs[0]
    assert {fact: getattr(job, fact) for fact in TOLD[name]} == TOLD[name]


def test_columns_of_a_plain_csv(tmp_path: Path) -> None:
    header = "job_id,submit_s,gpus,duration_s,user,account,partition,qos,gpu_type,limit_s,priority"
    for name in ("queue", "vc"):
        file = tmp_path / f"{name}.csv"
        file.write_text(f"{header},{name}\na,0,8,60,u,acc,part,high,A100|H100,3600,5,team\n")
        job = read_trace(file, 8).jobs[0]
        facts = (job.user, job.account, job.partition, job.qos, job.gpu_type, job.limit_s, job.priority, job.queue)
        assert facts == ("u", "acc", "part", "high", "A100|H100", 3600.0, 5.0, "team")
    history = read_history(file)
    assert (
        "".join(text_of(history, "csv")).splitlines()[0].endswith(",priority,account,partition,qos,queue,limit_s")
    )
    assert "cannot hold priority or account or partition or qos: left out" in losses(history, "philly")[0]
    accounting = "".join(text_of(history, "sacct")).splitlines()
    assert accounting[0].endswith("|Elapsed|Account|Partition|QOS|Timelimit")
    assert accounting[1].endswith("|00:01:00|acc|part|high|01:00:00")


def test_nothing_said_nothing_written(tmp_path: Path) -> None:
    file = tmp_path / "plain.csv"
    file.write_text("job_id,submit_s,gpus,duration_s\na,0,8,60\n")
    text = "".join(text_of(read_history(file), "csv"))
    assert text == "job_id,user,submit_s,gpus,duration_s,status,wait_s,machines,gpu_type\na,,0,8,60,,,,\n"
    assert "Account" not in "".join(text_of(read_history(file), "sacct"))


def test_facts_of_live_jobs() -> None:
    told = ObservedJob("7", QUEUED, JobSpec(8, gpu_type="a100|h100", account="acc", queue="team"), 0.0)
    job = job_of(told, 0, 0.0, "")
    again: Job = past_of(job).again(1, 5.0, NEVER)
    for found in (job, again):
        assert (found.account, found.queue, found.gpu_type) == ("acc", "team", "a100|h100")
