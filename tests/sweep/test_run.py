"""What tells runs apart, and what a run leaves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dally.errors import InputError
from dally.runs.scenario import Scenario, file_digest
from dally.sweep.run import make_row, make_run

JOBS = "job_id,submit_s,gpus,duration_s\na,0,4,10\nb,1,8,5\nc,2,4,3\n"


@pytest.fixture
def base(tmp_path: Path) -> Scenario:
    (tmp_path / "t.csv").write_text(JOBS)
    return Scenario(str(tmp_path / "t.csv"), "1x1x8", "fifo-backfill")


def key(scenario: Scenario) -> str:
    return make_run(scenario, {}, {}).key


def test_everything_that_decides_the_outcome_is_in_the_key(base: Scenario, tmp_path: Path) -> None:
    (tmp_path / "u.csv").write_text(JOBS.replace("c,2", "c,3"))
    others = [
        replace(base, policy="las"),
        replace(base, settings={"lease_s": "5"}),
        replace(base, seed=2),
        replace(base, network="slow"),
        replace(base, network_settings={"nic_gbps": "5"}),
        replace(base, until_s=100.0),
        replace(base, trace=str(tmp_path / "u.csv")),
    ]
    assert len({key(one) for one in [base, *others]}) == 8


def test_a_file_counts_by_its_content(base: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "copy.csv").write_text(JOBS)
    monkeypatch.chdir(tmp_path)
    assert key(base) == key(replace(base, trace="t.csv")) == key(replace(base, trace="copy.csv"))
    assert make_run(replace(base, trace="t.csv"), {}, {}).scenario.trace == str(tmp_path / "t.csv")


def test_a_file_that_changes_before_the_run_is_refused(base: Scenario, tmp_path: Path) -> None:
    run = make_run(base, {}, {})
    stated = replace(base, digests={base.trace: file_digest(base.trace)})
    (tmp_path / "t.csv").write_text(JOBS + "d,3,1,1\n")
    with pytest.raises(InputError, match="has changed"):
        make_row(run)
    with pytest.raises(InputError, match="has changed"):
        make_run(stated, {}, {})


def test_a_missing_file_is_named(base: Scenario) -> None:
    with pytest.raises(InputError, match=r"no.csv: cannot be read"):
        make_run(replace(base, trace="no.csv"), {}, {})


def test_a_run_gives_a_flat_row_and_leaves_the_folder_of_simulate(base: Scenario, tmp_path: Path) -> None:
    run = replace(make_run(base, {"policy": "fifo-backfill"}, {}), folder=tmp_path / "out" / "one")
    row = make_row(run)
    # a 0-10, c 2-5, b 10-15 on one machine of 8.
    assert (row["jct_mean_s"], row["makespan_s"], row["finished"]) == ((10 + 14 + 3) / 3, 15.0, 3)
    assert (row["jct_1_gpu_s"], row["jct_2_to_8_gpus_s"], row["starts_machine"]) == (None, 9.0, 3)
    assert "tier_starts" not in row
    names = sorted(path.name for path in (tmp_path / "out" / "one").iterdir())
    assert names == [
        "SHA256SUMS",
        "decisions.parquet",
        "events.parquet",
        "jobs.csv",
        "scenario.toml",
        "slots.parquet",
        "summary.json",
    ]
    summary = json.loads((tmp_path / "out" / "one" / "summary.json").read_text())
    assert summary["tier_starts"] == {"machine": 3, "rack": 0, "network": 0}
    assert {name: summary[name] for name in ("policy", "seed", "skipped", "cpu_s")} == {
        "policy": "fifo-backfill", "seed": 1, "skipped": 0, "cpu_s": row["cpu_s"],
    }  # fmt: skip
