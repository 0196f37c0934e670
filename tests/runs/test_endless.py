"""Random failures under which a job would never end are told of before the run begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from dally.errors import InputError
from dally.runs.execute import execute
from dally.runs.scenario import Scenario


@pytest.mark.parametrize(
    ("rate", "every_s", "needed"),
    [
        (1e6, 0.0, "every 0.0432 s, and it needs 16 s"),  # a restart of 16 GPUs, two machines
        (1000.0, 1e9, "every 43.2 s, and it needs 7216 s"),  # and all of its 7200 s
    ],
)
def test_a_job_that_never_gets_on(tmp_path: Path, rate: float, every_s: float, needed: str) -> None:
    (tmp_path / "t.csv").write_text("job_id,submit_s,gpus,duration_s\na,0,16,7200\n")
    scenario = Scenario(str(tmp_path / "t.csv"), "1x2x8", "fifo", failure_rate=rate, checkpoint_every_s=every_s)
    with pytest.raises(
        InputError, match=rf"--failure-rate .*: job 'a' would never end: its machines fail {needed}"
    ):
        execute(scenario)
    scenario.until_s = 10.0
    assert execute(scenario).summary["finished"] == 0


def test_many_failures_that_a_job_outlives(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("job_id,submit_s,gpus,duration_s\na,0,8,7200\nb,0,8,0\n")
    scenario = Scenario(
        str(tmp_path / "t.csv"), "1x1x8", "fifo", failure_rate=1000.0, checkpoint_every_s=60.0, repair_s=10.0
    )
    assert execute(scenario).summary["finished"] == 2
