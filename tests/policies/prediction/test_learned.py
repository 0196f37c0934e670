"""A hazard table as a file: what is learnt, written and read is the same; what is wrong is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.model import Job
from dally.policies.prediction.hazard import HazardTable
from dally.policies.prediction.learned import ended_jobs, learn, read_table, table_text
from dally.policies.registry import build
from dally.runs.execute import execute
from dally.runs.scenario import Scenario, read_scenario
from dally.traces import read_history

JOBS = "job_id,submit_s,gpus,duration_s,user\nslow,0,8,9000,ann\nquick,10,8,20,ann\nlate,9500,1,40,bob\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text(JOBS)
    return tmp_path / "t.csv"


@pytest.fixture
def learned(tmp_path: Path, trace: Path) -> Path:
    table = HazardTable()
    learn(table, ended_jobs(read_history(trace)))
    (tmp_path / "learned.json").write_text(table_text(table))
    return tmp_path / "learned.json"


def test_jobs_are_met_in_the_order_in_which_they_ended(trace: Path) -> None:
    assert [job.job_id for job in ended_jobs(read_history(trace))] == ["quick", "slow", "late"]


def test_a_job_is_met_in_all_bins_up_to_its_end() -> None:
    table = HazardTable(forget=0.0)
    learn(table, [Job(0, "a", 0.0, 4, 35.0)])  # it ends in the second bin, 30 to 39 s
    rows = {row[0]: row for row in table.saved()["classes"]}
    assert [rows["4"][2][:3], rows["4"][3][:3]] == [[1, 1, 0], [0, 1, 0]]


def test_what_is_written_is_what_is_read(learned: Path) -> None:
    table = HazardTable()
    table.restore(read_table(learned, table))
    assert table_text(table) == learned.read_text()
    assert table.finishes == 3
    ann = Job(0, "a", 0.0, 8, 1.0, spec=JobSpec(8, user="ann"))
    cold = HazardTable()
    assert table.rank_s(table.class_of(ann), 0) != cold.rank_s(cold.class_of(ann), 0)


def test_a_run_begins_with_it_and_repeats(tmp_path: Path, trace: Path, learned: Path) -> None:
    scenario = Scenario(str(trace), "1x1x8", "dally", {"learned": str(learned)})
    record = execute(scenario, out=tmp_path / "run")
    again = read_scenario(tmp_path / "run" / "scenario.toml")
    assert str(learned.resolve()) in again.digests
    assert execute(again).summary["jct_mean_s"] == record.summary["jct_mean_s"]
    learned.write_text(learned.read_text() + " ")
    with pytest.raises(InputError, match="has changed since"):
        execute(again)


def test_what_a_policy_learnt_is_saved_and_restored(learned: Path) -> None:
    policy = build("dally", {"learned": str(learned)})
    other = build("dally")
    other.load(json.loads(json.dumps(policy.save())))
    assert other.save() == policy.save()
    assert other.save() != build("dally").save()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"format": "other"},
            "learned.json: format: must be 'dally hazard table 1'; `dally learn` writes",
        ),
        ({"edges_s": [0, 1]}, "edges_s: are other age bins"),
        ({"finishes": -1}, "finishes: -1: must be a whole number"),
        ({"classes": {}}, "classes: must be a list"),
        ({"classes": [["", -1]]}, "classes[0]: must be [name"),
        ({"classes": [["", 0, [], []]]}, "classes[0]: '', 0: must be a name, and the number of an earlier row"),
        ({"classes": [["", -1, [1.0], [1.0]]]}, "classes[0]: must hold"),
        ({"classes": [["", -1, [-1.0] * 99, [0] * 99]]}, "must not be negative"),
        ({"classes": [["", -1, [1.0] * 99, [2.0] * 99]]}, "more jobs ended than were met"),
    ],
)
def test_errors_name_file_and_field(learned: Path, change: dict[str, object], message: str) -> None:
    bins = len(HazardTable().edges_s)
    for row in change.get("classes", []) if isinstance(change.get("classes"), list) else []:  # type: ignore[attr-defined]
        row[2:] = [numbers[:bins] for numbers in row[2:]]
    learned.write_text(json.dumps(json.loads(learned.read_text()) | change))
    with pytest.raises(InputError) as caught:
        build("dally", {"learned": str(learned)})
    assert message in str(caught.value)


def test_files_that_are_none(tmp_path: Path) -> None:
    for text, message in ((None, "cannot be read: No such file"), ("{", "broken JSON")):
        if text is not None:
            (tmp_path / "x.json").write_text(text)
        with pytest.raises(InputError, match=message):
            build("dally", {"learned": str(tmp_path / "x.json")})
