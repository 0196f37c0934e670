"""benchmarks/policies.py: what it takes, what it keeps, what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.policies import Row, Run, identity, read_policy, read_rows, shown, sweep, table

from dally.errors import InputError
from dally.sweep.cells import Cell

RUN = Run(Cell("venus80", "slow", 1), "las", {"lease_s": "1800"}, None)
FIGURES = {
    "jobs": 2, "finished": 2, "makespan_s": 7200.0, "makespan_bound_s": 3600.0, "jct_mean_s": 3600.0,
    "jct_bound_s": 1800.0, "jct_p50_s": 3600.0, "jct_p99_s": 3600.0, "jct_1_gpu_s": None,
    "jct_2_to_8_gpus_s": 3600.0, "jct_over_8_gpus_s": 3600.0, "comm_s": 360.0, "comm_floor_s": 36.0,
    "preemptions": 3, "migrations": 0, "cpu_s": 0.5,
}  # fmt: skip


def row(run: Run, **figures: float) -> Row:
    return {**run.key(), **FIGURES, **figures}


def test_policies_may_carry_settings() -> None:
    assert read_policy("las") == ("las", {})
    assert read_policy("las:lease_s=1800") == ("las", {"lease_s": "1800"})


@pytest.mark.parametrize("text", ["lass", "las:leas_s=1", "las:lease_s", "las:lease_s=x", "fifo:a=1"])
def test_bad_policies_are_refused_before_anything_runs(text: str) -> None:
    with pytest.raises(InputError):
        read_policy(text)


def test_the_key_tells_runs_apart() -> None:
    others = [
        RUN._replace(cell=Cell("venus80", "fast", 1)),
        RUN._replace(cell=Cell("venus80", "slow", 2)),
        RUN._replace(settings={}),
        RUN._replace(policy="srsf"),
        RUN._replace(flat_restart_s=62.0),
    ]
    assert len({identity(run.key()) for run in [RUN, *others]}) == 6


def test_finished_runs_are_not_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rows.jsonl"
    line = json.dumps(row(RUN)) + "\n"
    out.write_text(line + line[:40])
    assert sweep([RUN], out) == ([row(RUN)], [])
    assert out.read_text() == line, "the line that was cut short is gone"
    assert "1 of 1 runs stand in" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["{}\n", "1\n", "x\n"])
def test_another_file_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "rows").write_text(text)
    with pytest.raises(InputError, match="rows:1: is not a row of this benchmark"):
        read_rows(tmp_path / "rows")


@pytest.mark.parametrize(
    ("values", "expected"),
    [([], "-"), ([None], "-"), ([3600.0], "1"), ([3600.0, 9000.0], "1.75 ±0.75"), ([3600.0 * 1234.4], "1,234")],
)
def test_means_and_spread(values: list[float | None], expected: str) -> None:
    assert shown(values, 3600.0) == expected


def test_a_table_has_a_line_per_policy_and_a_column_per_network() -> None:
    other = RUN._replace(policy="srsf", settings={})
    second = RUN._replace(cell=Cell("venus80", "slow", 2))
    lines = table([row(RUN), row(second, makespan_s=14400.0), row(other)], ["fast", "slow"])
    assert lines[2].split() == ["fast", "slow"]
    place = lines.index("makespan, h")
    assert [line.split() for line in lines[place + 1 : place + 4]] == [
        ["las:lease_s=1800", "-", "3", "±1"],
        ["srsf", "-", "2"],
        ["at", "least", "-", "1", "±0"],
    ]
