"""`dally.simulate`: what it takes, and what it gives."""

from __future__ import annotations

import gc
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import dally
from dally.api.inputs import ScenarioFields
from dally.cluster import grid
from dally.errors import InputError
from dally.metrics.record import OF_QUEUES
from dally.runs.folder import FILES, WRITTEN
from dally.runs.scenario import Scenario
from tests.api.own_policies import CLUSTER, JOBS, Broken, Waiting, jct_mean_s

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "jobs.csv"


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))


def test_every_field_of_a_scenario_is_a_keyword() -> None:
    own = {"trace", "cluster", "policy", "settings", "snapshot", "digests"}
    assert list(ScenarioFields.__annotations__) == [f.name for f in fields(Scenario) if f.name not in own]


def test_a_file_a_frame_and_a_topology_give_the_same_run() -> None:
    run = dally.simulate(EXAMPLE, "2x2x8", network="slow")
    framed = dally.simulate(pl.read_csv(EXAMPLE), grid(2, 2, 8), network="slow")
    for table in ("jobs", "events", "decisions", "slots"):
        assert getattr(run, table).equals(getattr(framed, table)), table
    measured = ("wall_s", "cpu_s", "peak_rss_mb")
    assert {k: v for k, v in run.summary.items() if k not in measured} == {
        k: v for k, v in framed.summary.items() if k not in measured
    }


def test_a_frame_of_pandas_does_too() -> None:
    pandas = pytest.importorskip("pandas")
    # A column of whole numbers with a gap is one of floats there: 16.0 GPUs are 16.
    frame = pandas.read_csv(EXAMPLE).astype({"gpus": float})
    frame.loc[len(frame)] = ["z", 1.0, float("nan"), 5.0, None, None]
    run = dally.simulate(frame, "2x2x8", network="slow")
    assert run.jobs.equals(dally.simulate(EXAMPLE, "2x2x8", network="slow").jobs)
    assert run.summary["unused"] == {"without GPUs": 1}


def test_nothing_stays_behind(tmp_path: Path) -> None:
    run = dally.simulate(JOBS, grid(2, 1, 8), "fifo", network="slow")
    assert sorted(path.name for path in (tmp_path / "tmp").glob("*/*")) == ["topology.toml", "trace.csv"]
    assert "started on" in str(run.explain("c"))  # which reads the cluster again
    del run
    gc.collect()
    assert list((tmp_path / "tmp").iterdir()) == []
    assert dally.simulate(EXAMPLE, CLUSTER, skip_impossible=True).summary["skipped"] == 1
    assert list((tmp_path / "tmp").iterdir()) == []


def test_out_leaves_a_run_that_can_be_read_and_repeated(tmp_path: Path) -> None:
    run = dally.simulate(JOBS, CLUSTER, "fifo", out=tmp_path / "run", seed=3)
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        *WRITTEN, "trace.csv"
    } - {FILES[name] for name in OF_QUEUES}  # fmt: skip
    again = dally.read_run(tmp_path / "run")
    assert again.jobs.equals(run.jobs)
    assert again.summary == run.summary
    assert again.scenario.seed == 3
    assert again.scenario.trace == str(tmp_path / "run" / "trace.csv")
    with pytest.raises(dally.InputError, match=r"holds no jobs\.csv"):
        dally.read_run(tmp_path)


def test_a_class_runs_under_its_name_with_settings() -> None:
    run = dally.simulate(JOBS, CLUSTER, Waiting, {"until_s": 30})
    assert run.summary["jct_mean_s"] == jct_mean_s(30.0)
    assert run.summary["policy"] == "Waiting"
    assert run.scenario.settings == {"until_s": "30"}


def test_an_object_runs_as_it_is_and_is_left_alone() -> None:
    policy = Waiting(until_s=150.0)
    first, second = (dally.simulate(JOBS, CLUSTER, policy) for _ in range(2))
    assert first.summary["jct_mean_s"] == jct_mean_s(100.0)
    assert first.jobs.equals(second.jobs)
    assert policy.starts == 0
    with pytest.raises(dally.InputError, match="policy 'Waiting' has no parameter 'until_s'"):
        dally.simulate(JOBS, CLUSTER, policy, {"until_s": 3})


def test_a_policy_of_this_process_is_known_for_the_time_of_the_call_only() -> None:
    dally.simulate(JOBS, CLUSTER, Waiting)
    with pytest.raises(dally.InputError, match="unknown policy 'Waiting'"):
        dally.simulate(JOBS, CLUSTER, "Waiting")


def test_an_error_of_the_policy_comes_through() -> None:
    with pytest.raises(ZeroDivisionError, match="of its own"):
        dally.simulate(JOBS, CLUSTER, Broken)


def test_a_policy_of_a_file_runs() -> None:
    run = dally.simulate(JOBS, CLUSTER, f"{ROOT}/examples/my_policy.py:Patient", {"patience_s": 30.0})
    assert run.summary["jct_mean_s"] == jct_mean_s(31.0)


def test_settings_may_be_of_any_type() -> None:
    run = dally.simulate(EXAMPLE, "2x2x8", settings={"migration": False, "hold": 5.0}, network="slow",
                         network_settings={"nic_count": 2}, congestion=0.25)  # fmt: skip
    assert run.scenario.settings == {"migration": "off", "hold": "5"}
    assert run.scenario.network_settings == {"nic_count": "2"}
    assert run.scenario.congestion == "0.25"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"trace": 7}, "trace: int: must be a path or a DataFrame"),
        ({"trace": "nowhere.csv"}, "nowhere.csv: cannot be read"),
        ({"cluster": 16}, "cluster: int: must be a path, a text such as 4x16x8, or a Topology"),
        ({"policy": 5}, "policy: int: must be a name, file.py:Class, or a subclass or an object of Policy"),
        ({"policy": "daly"}, "unknown policy 'daly'; did you mean 'dally'"),
        ({"netwrk": "slow"}, "unknown keyword 'netwrk'; did you mean 'network'"),
        ({"seed": "one"}, "seed: 'one': must be of type int"),
        ({"settings": ["a"]}, r"settings: \['a'\]: must be a dict"),
        ({"settings": {"migrate": 3}}, "policy 'dally' has no parameter 'migrate'; did you mean 'migration'"),
        ({"network": "slw"}, "unknown network 'slw'; did you mean 'slow'"),
    ],
)
def test_bad_input_is_an_error_of_its_own(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(dally.InputError, match=problem):
        dally.simulate(**{"trace": EXAMPLE, "cluster": "2x2x8", **given})


def test_what_a_run_shows(tmp_path: Path) -> None:
    run = dally.simulate(EXAMPLE, "2x2x8", "fifo", network="slow")
    assert repr(run) == "<RunResult of fifo: 6 of 6 jobs finished, mean JCT 85.2 min; print it>"
    assert "mean JCT                           85.2 min  (at least 44.6 min)" in str(run).splitlines()
    html = run._repr_html_()
    assert "<b>Run of fifo</b>" in html
    assert '<td style="text-align:left">85.2 min  (at least 44.6 min)</td>' in html
    page = run.report(tmp_path / "report.html")
    assert page.startswith("<!doctype html>")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page
    assert run.report() == page
    run.perfetto(tmp_path / "run.json")
    assert (tmp_path / "run.json").read_text().startswith('{"displayTimeUnit"')


def test_a_story_as_text_frame_and_html() -> None:
    frame = JOBS.with_columns(job_id=pl.Series(["a", "<b>", "c"]))
    run = dally.simulate(frame, CLUSTER, "fifo")
    story = run.explain("<b>")
    assert str(story).splitlines()[1] == "  day 0 00:00:00 (0 s)  submitted: 6 GPUs"
    assert story.table["kind"].to_list() == ["submit", "start", "finish"]
    assert repr(story) == "<JobHistory of <b>: 3 entries; print it>"
    assert "Job &lt;b&gt;" in story._repr_html_()
    assert run.explain("<b>", until_s=200.0).table["kind"].to_list() == ["submit", "start"]
    assert "Slowdown" not in str(story)
    with pytest.raises(dally.InputError, match="job 'd': not in this run"):
        run.explain("d")


def test_progress_shows_a_bar(capsys: pytest.CaptureFixture[str]) -> None:
    dally.simulate(JOBS, CLUSTER, "fifo")
    assert capsys.readouterr().err == ""
    dally.simulate(JOBS, CLUSTER, "fifo", progress=True)
    assert "3/3 jobs" in capsys.readouterr().err


def test_a_saved_run_goes_on(tmp_path: Path) -> None:
    rows = [("a", 0, 8, 100), ("b", 0, 8, 50), ("c", 5, 8, 10)]
    frame = pl.DataFrame(rows, ["job_id", "submit_s", "gpus", "duration_s"], orient="row")
    whole = dally.simulate(frame, "1x1x8", "fifo", snapshot=tmp_path / "s", snapshot_at=20.0)
    assert dally.go_on(tmp_path / "s").summary["jct_mean_s"] == whole.summary["jct_mean_s"]
    # From 20 s on the shortest remaining job runs: c until 30, b until 80, a has 80 s left (and 8 s of a restart).
    other = dally.go_on(tmp_path / "s", "srtf")
    assert other.jobs["finish_s"].to_list() == [168.0, 80.0, 30.0]
    assert dally.go_on(tmp_path / "s", until_s=60.0).summary["finished"] == 0


def test_who_may_be_preempted_is_a_keyword() -> None:
    jobs = pl.DataFrame({"job_id": ["a", "b"], "submit_s": [0.0, 5.0], "gpus": [8, 8], "duration_s": [100.0, 10.0]})
    assert dally.simulate(jobs, "1x1x8", "srtf").summary["preemptions"] == 1
    assert dally.simulate(jobs, "1x1x8", "srtf", preempt={"usual": "no"}).summary["preemptions"] == 0
    with pytest.raises(InputError, match="preempt"):
        dally.simulate(jobs, "1x1x8", "srtf", preempt={"usual": "often"})
