"""Runs whose policies have learnt from an earlier time."""

from __future__ import annotations

from pathlib import Path

import pytest

from dally.errors import InputError
from dally.runs.execute import execute
from dally.runs.scenario import Scenario, keyed

HEAD = "job_id,user,submit_s,gpus,duration_s\n"
# At the same moment Ann's long job and Bob's short one want all GPUs.
NOW = HEAD + "a,ann,0,8,1000\nb,bob,0,8,100\n"


def past(shift_s: int = 0) -> str:
    return HEAD + f"p,ann,{shift_s},8,900\nq,bob,{shift_s + 10},8,90\nr,eve,{shift_s + 5000},1,1\n"


def scenario(folder: Path, before: str, policy: str = "sjf") -> Scenario:
    (folder / "now.csv").write_text(NOW)
    (folder / "past.csv").write_text(before)
    predictor = {"predictor": "history"}
    return Scenario(str(folder / "now.csv"), "1x1x8", policy, predictor, past=str(folder / "past.csv"))


@pytest.mark.parametrize(
    ("policy", "finishes_s"),
    [
        ("sjf", [1100.0, 100.0]),
        ("srtf", [1100.0, 100.0]),
        # The imaginary machine lets Bob's job go at 90 and Ann's at 990, as predicted; Bob's takes until 190.
        ("a-srpt", [1990.0, 190.0]),
        # As submitted, whatever is predicted.
        ("easy-backfill", [1000.0, 1100.0]),
    ],
)
def test_predictions_are_there_from_the_first_job_on(tmp_path: Path, policy: str, finishes_s: list[float]) -> None:
    record = execute(scenario(tmp_path, past(), policy))
    assert record.summary["predicted"] == 2
    assert record.jobs["finish_s"].to_list() == finishes_s


def test_without_a_past_nothing_is_known(tmp_path: Path) -> None:
    here = scenario(tmp_path, past())
    here.past = ""
    record = execute(here)
    assert record.summary["predicted"] == 0
    assert record.jobs["finish_s"].to_list() == [1000.0, 1100.0]


def test_the_clock_of_the_past_does_not_matter(tmp_path: Path) -> None:
    settings = {"predictor": "forest"}
    runs = []
    for shift_s in (0, 123_456):
        here = scenario(tmp_path, past(shift_s), "a-srpt")
        here.settings = settings
        runs.append(execute(here).jobs.write_csv())
    assert runs[0] == runs[1]


def test_another_past_is_another_run(tmp_path: Path) -> None:
    one = keyed(scenario(tmp_path, past()), {})[1]
    assert keyed(scenario(tmp_path, past()), {})[1] == one
    assert keyed(scenario(tmp_path, past(7)), {})[1] != one


def test_a_past_that_is_not_there(tmp_path: Path) -> None:
    here = scenario(tmp_path, past())
    (tmp_path / "past.csv").unlink()
    with pytest.raises(InputError, match=r"past\.csv"):
        execute(here)
