"""Jobs that no queue would ever let start are told of or left out; and runs end though somebody waits for ever."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dally.errors import InputError
from dally.runs.execute import execute
from dally.runs.scenario import Scenario

JOBS = "job_id,submit_s,gpus,duration_s,user\na1,0,8,600,ann\nb1,0,8,600,bob\na2,5,16,600,ann\nb2,10,16,600,bob\n"
QUEUES = '[queues.a]\n{rule}\nmatch = {{user = ["ann"]}}\n\n[queues.b]\ndefault = true\n'


def scenario(folder: Path, rule: str, policy: str, skip: bool = False) -> Scenario:
    (folder / "jobs.csv").write_text(JOBS)
    (folder / "queues.toml").write_text(QUEUES.format(rule=rule))
    return Scenario(
        str(folder / "jobs.csv"), "1x2x8", policy, queues=str(folder / "queues.toml"), skip_impossible=skip
    )


@pytest.mark.parametrize("policy", ["fifo", "dally"])
def test_more_than_the_queue_may_hold(tmp_path: Path, policy: str) -> None:
    with pytest.raises(InputError, match="job 'a2': gpus: asks for 16, and queue 'a' may hold 8; --skip"):
        execute(scenario(tmp_path, "limit = 8", policy))
    assert execute(scenario(tmp_path, "limit = 8", policy, skip=True)).summary["finished"] == 3


def test_a_budget_that_restarts_use_up(tmp_path: Path) -> None:
    rule = 'budget = {gpu_hours = 0.05, window = "10m"}'  # 180 GPU-seconds; a restart costs a2 16 x 16
    told = "a restart of its 16 GPUs costs 0.0711 GPU-hours, and the budget of queue 'a' has 0.05 per window"
    with pytest.raises(InputError, match=f"job 'a2': {told}; --skip-impossible leaves"):
        execute(scenario(tmp_path, rule, "fifo"))
    assert execute(scenario(tmp_path, rule, "fifo", skip=True)).summary["finished"] == 3
    assert execute(scenario(tmp_path, rule, "gandiva")).summary["finished"] == 4  # it suspends gangs for less


@pytest.mark.parametrize("policy", ["fifo", "dally", "srtf", "tiresias"])
def test_restarts_that_use_up_a_budget_together_come_one_after_another(tmp_path: Path, policy: str) -> None:
    asked = scenario(tmp_path, 'budget = {gpu_hours = 0.025, window = "10m"}', policy)  # 90 GPU-seconds
    rows = "a1,0,8,60,ann\na2,0,8,60,ann\n"  # a restart costs each 8 x 8
    (tmp_path / "jobs.csv").write_text(f"job_id,submit_s,gpus,duration_s,user\n{rows}")
    assert execute(replace(asked, until_s=100_000.0)).summary["finished"] == 2


@pytest.mark.parametrize("policy", ["fifo", "dally"])
def test_a_queue_on_hold_does_not_keep_the_run_from_ending(tmp_path: Path, policy: str) -> None:
    assert execute(scenario(tmp_path, "hold = true", policy)).summary["finished"] == 2


def test_quotas_of_types_that_no_machine_has_are_told(tmp_path: Path) -> None:
    found = execute(scenario(tmp_path, "limit = {A100 = 8}", "fifo"))
    what = "are in queues with quotas that do nothing: of A100, where the cluster has GPUs of no stated type"
    assert found.summary["notes"] == {what: 4}
    assert execute(scenario(tmp_path, "limit = 16", "fifo")).summary["notes"] == {}
