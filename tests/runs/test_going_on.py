"""Runs that are saved on their way: going on gives the same bytes, under another policy only the rest differs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dally.cli.main import app
from dally.engine.snapshot import save
from dally.errors import InputError
from dally.policies.registry import build
from dally.runs.execute import execute
from dally.runs.going_on import Keep, saved_scenario
from dally.runs.scenario import Scenario, read_scenario
from dally.testing.strategies import Case

JOBS = "".join(f"j{i},{i * 120},{1 + i * 5 % 12},{300 + i * 997 % 4000}\n" for i in range(20))
FILES = ("jobs.csv", "events.parquet", "decisions.parquet", "slots.parquet")
OWN = "examples/my_policy.py:Patient"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    (tmp_path / "t.csv").write_text("job_id,submit_s,gpus,duration_s\n" + JOBS)
    return Scenario(
        str(tmp_path / "t.csv"), "2x2x8", "dally-paper", {"lease_s": "600"}, network="slow", failure_rate=5.0
    )


@pytest.mark.parametrize("policy", ["dally", "dally-paper", "tiresias-gittins", str(ROOT / OWN)])
def test_going_on_leaves_what_never_stopping_leaves(scenario: Scenario, tmp_path: Path, policy: str) -> None:
    scenario = replace(scenario, policy=policy, settings={})
    execute(scenario, out=tmp_path / "whole")
    execute(scenario, out=tmp_path / "stopped", stop=Keep(tmp_path / "run.snapshot", 1500.0))
    execute(saved_scenario(tmp_path / "run.snapshot"), out=tmp_path / "on")
    for file in FILES:
        assert len({(tmp_path / folder / file).read_bytes() for folder in ("whole", "stopped", "on")}) == 1, file
    again = read_scenario(tmp_path / "on" / "scenario.toml")
    assert execute(again).summary["jct_mean_s"] == execute(scenario).summary["jct_mean_s"]


def test_the_trace_is_not_needed_to_go_on(scenario: Scenario, tmp_path: Path) -> None:
    whole = execute(scenario, stop=Keep(tmp_path / "run.snapshot", 1500.0))
    Path(scenario.trace).unlink()
    record = execute(saved_scenario(tmp_path / "run.snapshot"))
    assert record.summary["jct_mean_s"] == whole.summary["jct_mean_s"]


def test_another_policy_takes_over(scenario: Scenario, tmp_path: Path) -> None:
    at_s = 1500.0
    dally = execute(scenario, stop=Keep(tmp_path / "run.snapshot", at_s))
    other = execute(replace(saved_scenario(tmp_path / "run.snapshot"), policy="srtf", settings={}))
    one, two = (frame.filter(frame["time_s"] < 1400.0) for frame in (dally.events, other.events))
    assert one.equals(two)
    assert one.height > 20
    assert other.summary["finished"] == 20
    assert other.summary["jct_mean_s"] != dally.summary["jct_mean_s"]


def test_the_command_saves_and_goes_on(scenario: Scenario, tmp_path: Path) -> None:
    common = ["--trace", scenario.trace, "--cluster", "2x2x8", "--policy", "las", "--json"]
    saved = ["--snapshot", str(tmp_path / "s"), "--snapshot-at", "1500"]
    whole = json.loads(CliRunner().invoke(app, ["simulate", *common, *saved]).stdout)
    on = json.loads(CliRunner().invoke(app, ["simulate", "--from", str(tmp_path / "s"), "--json"]).stdout)
    assert on["policy"] == "las"
    assert on["jct_mean_s"] == whole["jct_mean_s"]
    comparing = ["compare", "--from", str(tmp_path / "s"), "--policies", "las,srtf", "--json", "--jobs", "1"]
    for replications in ("1", "2"):
        compared = CliRunner().invoke(app, [*comparing, "--replications", replications])
        rows = json.loads(compared.stdout)["results"]
        assert [row["policy"] for row in rows] == ["las", "srtf"]
        assert rows[0]["jct_mean_s"]["mean"] == pytest.approx(whole["jct_mean_s"], abs=1e-4)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--from", "s", "--seed", "2"], "seed: 2: the saved run has 1; its policy, settings and end can change"),
        (["--from", "s", "--scenario", "x.toml"], "--from and --scenario: give one of them"),
        (["--from", "nowhere"], "nowhere: cannot be read"),
        (["--from", "t.csv"], "t.csv: is no snapshot of Dally"),
        (["--from", "bare"], "bare: no scenario was noted"),
        (["--from", "s", "--snapshot", "again"], "--snapshot FILE and --snapshot-at SECONDS: give both"),
        (["--from", "s", "--trace", "t.csv", "--until", "100"], "--until 100: the run in s is at 14"),
    ],
)
def test_what_cannot_be_gone_on_from(
    scenario: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    execute(replace(scenario, network=""), stop=Keep(Path("s"), 1500.0))
    save(Case([((), 8)], [(0.0, 8, 10.0)]).simulation(build("fifo")), Path("bare"))
    done = CliRunner().invoke(app, ["simulate", *options])
    assert isinstance(done.exception, InputError)
    assert problem in str(done.exception)
