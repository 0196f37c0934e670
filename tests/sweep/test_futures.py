"""Futures of a record: what is drawn after it, and the interval of a change in them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from dally.cluster.spec import read_topology
from dally.job_spec import JobSpec
from dally.metrics.summary import Row
from dally.runs.scenario import Scenario
from dally.sweep.policy_list import Chosen
from dally.sweep.run import Run, make_row, make_run
from dally.sweep.whatif import futures
from dally.sweep.whatif.change import today
from dally.sweep.whatif.from_history import work_traces
from dally.sweep.whatif.futures import MOST_JOBS, Futures, drawn_after, latest, still_running
from dally.traces.rows import TraceRow


def rows(count: int) -> list[TraceRow]:
    return [TraceRow(n, f"j{n}", 100.0 * n, JobSpec(1 + n % 8), 60.0) for n in range(count)]


def test_as_much_time_as_the_record_made_of_its_jobs() -> None:
    record = rows(700)
    drawn = drawn_after(record, record[-1].submit_s, Random(1))
    assert abs(len(drawn) - len(record)) <= 14, "seven spans of a seventh"
    times = [row.submit_s for row in drawn]
    assert times == sorted(times)
    assert record[-1].submit_s <= times[0] <= times[-1] <= 2 * record[-1].submit_s
    assert len({row.job_id for row in (*record, *drawn)}) == len(record) + len(drawn)
    by_id = {row.job_id: row.spec for row in record}
    assert all(row.spec == by_id[row.job_id.rpartition("-")[2]] for row in drawn)


def test_the_same_draw_is_the_same_future() -> None:
    assert drawn_after(rows(70), 6900.0, Random(3)) == drawn_after(rows(70), 6900.0, Random(3))
    assert drawn_after(rows(70), 6900.0, Random(3)) != drawn_after(rows(70), 6900.0, Random(4))


def test_a_short_future_is_drawn_from_all_of_the_record() -> None:
    drawn = drawn_after(rows(7000), 70_000.0, Random(1))
    assert 690 <= len(drawn) <= 707
    assert len({int(row.job_id.rpartition("-j")[2]) // 1000 for row in drawn}) > 3, "not the latest alone"
    assert drawn[-1].submit_s <= 699_900.0 + 70_000.0


def test_of_many_jobs_the_latest() -> None:
    chosen = latest(rows(MOST_JOBS + 5)[::-1])
    assert (len(chosen), chosen[0].job_id) == (MOST_JOBS, "j5")


def test_jobs_that_ran_when_the_latest_begin() -> None:
    ran_s = {"j0": (50.0, 900.0), "j1": (100.0, 200.0), "j2": (450.0, 900.0)}
    there = still_running(rows(6), ran_s, 400.0)
    assert [(row.job_id, row.submit_s) for row in there] == [("j0", 50.0)]


def carried(runs: list[Run]) -> list[Row]:
    return [make_row(run) for run in runs]


def test_a_change_has_an_interval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue in which short jobs wait behind long ones: shortest first helps in every future, fifo in none."""
    monkeypatch.setattr(futures, "FUTURES", 3)
    jobs = "".join(f"j{number},{60 * number},4,{1000 if number % 4 else 20}\n" for number in range(40))
    (tmp_path / "t.csv").write_text(f"job_id,submit_s,gpus,duration_s\n{jobs}")
    scenario = Scenario(str(tmp_path / "t.csv"), "2x8", "fifo", {}, network="")
    run = make_run(scenario, {}, {})
    run = Run(run.scenario, run.labels, run.key, tmp_path / "today")
    make_row(run)
    work = work_traces(run.scenario, [1], tmp_path)[1]
    asked = Futures(today(run.scenario, read_topology("2x8")), run, work, tmp_path / "futures", carried)
    assert asked.change(Chosen("fifo", {})) == {"share": 0.0, "low": 0.0, "high": 0.0}
    change = asked.change(Chosen("sjf", {}))
    assert -1.0 < change["low"] <= change["share"] < -0.1
    assert change["share"] <= change["high"]
