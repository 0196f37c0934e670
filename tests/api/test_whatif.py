"""`dally.whatif`: the same answer as the command's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import dally
from dally.cli.main import app
from dally.cluster import grid
from tests.api.own_policies import CLUSTER, JOBS, Waiting

# 8 GPUs. srtf: a 0-100, b 100-200, a again from 200, restarts for 8 s, and has 900 s left: until 1108.
# fifo: a 0-1000, b 1000-1100.
TRACE = pl.DataFrame(
    {"job_id": ["a", "b"], "user": ["ana", "ben"], "submit_s": [0, 100], "gpus": [8, 8], "duration_s": [1000, 100]}
)


def test_saving_by_hand() -> None:
    found = dally.whatif(TRACE, "1x8", "fifo", current="srtf", network="none")
    assert found.summary["total"]["saved_gpu_h"] == pytest.approx(64 / 3600)
    assert found.summary["makespan_s"] == {"current": 1108.0, "new": 1100.0}
    assert found.answer == "fifo would save 0.0 of 2.5 GPU-hours; the mean job would wait 6.7 min longer."
    assert found.losing_jobs.select("job_id", "lost_s").rows() == [("b", 900.0)]
    assert dict(found.users.select("name", "saved_gpu_h").iter_rows()) == {
        "ana": pytest.approx(64 / 3600),
        "ben": 0.0,
    }
    assert found.users.filter(name="ana").select("current_jct_mean_s", "new_jct_mean_s").row(0) == (1108.0, 1000.0)
    assert found.sizes["name"].to_list() == ["5–8"]


@pytest.mark.parametrize(
    "more", [{}, {"cluster_delta": "+1 machine", "new_network": "fast"}], ids=["policy", "cluster"]
)
def test_it_says_what_the_command_says(tmp_path: Path, more: dict[str, Any]) -> None:
    TRACE.write_csv(tmp_path / "t.csv")
    found = dally.whatif(tmp_path / "t.csv", "1x2x8", "fifo", current="srtf", network="slow", seeds=[1, 2], **more)
    options = [text for name, value in more.items() for text in (f"--{name.replace('_', '-')}", value)]
    command = ["whatif", "--trace", str(tmp_path / "t.csv"), "--cluster", "1x2x8", "--policy", "fifo", *options]
    command += ["--current", "srtf", "--network", "slow", "--seeds", "1,2", "--jobs", "1"]
    told = CliRunner().invoke(app, [*command, "--json"])
    assert told.exit_code == 0, told.output
    assert json.loads(json.dumps(found.summary)) == json.loads(told.output)
    shown = CliRunner().invoke(app, command).output
    for line in str(found).splitlines():
        assert " ".join(line.split()) in {" ".join(other.split()) for other in shown.splitlines()}, line


def test_policies_of_this_process_on_both_sides(tmp_path: Path) -> None:
    in_use: dict[str, Any] = {"current": Waiting, "current_settings": {"until_s": 80}, "network": "none"}
    found = dally.whatif(JOBS, CLUSTER, Waiting(30.0), cluster_delta="+1 rack", out=tmp_path / "out", **in_use)
    assert (found.summary["current"], found.summary["new"]) == ("Waiting:until_s=80", "Waiting-2, +1 rack")
    assert found.summary["gpus"] == [16, 24]
    assert json.loads((tmp_path / "out" / "whatif.json").read_text()) == json.loads(json.dumps(found.summary))
    jobs = found.comparison.run("Waiting:until_s=80").jobs
    assert jobs["start_s"].to_list() == [0.0, 0.0, 80.0]
    assert found.comparison.run("Waiting-2, +1 rack").jobs["start_s"].to_list() == [0.0, 0.0, 1.0]


def test_a_topology_and_a_larger_one() -> None:
    drawn = dally.whatif(JOBS, grid(2, 1, 8), "fifo", cluster_delta="+1 rack")
    named = dally.whatif(JOBS, CLUSTER, "fifo", cluster_delta="+1 rack")
    assert drawn.summary == named.summary


def test_what_it_shows(tmp_path: Path) -> None:
    found = dally.whatif(TRACE, "1x8", "fifo", current="srtf", network="none")
    assert repr(found) == f"<WhatIfResult: {found.answer} {found.verdict} Print it>"
    assert str(found).startswith("Not checked: the trace records 0 waits.")
    assert not found.usable
    assert "\n2 jobs on 8 GPUs: srtf (current) against fifo (new)\n" in str(found)
    assert "<p>By user</p><table>" in found._repr_html_()
    page = found.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"policy": "fifo-backfill"}, "nothing would be different"),
        ({"seed": "one"}, "seed: 'one': must be of type int"),
        ({"seed": 1, "seeds": [1, 2]}, "seed and seeds: give one of them"),
        ({"network": "slw"}, "unknown network 'slw'"),
        ({"cluster_delta": "+1 moon"}, r"\+1 moon"),
        ({"policy": None}, "policy: NoneType: must be a name"),
    ],
)
def test_bad_input_is_an_error_of_its_own(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(dally.InputError, match=problem):
        dally.whatif(**{"trace": TRACE, "cluster": "1x2x8", **given})
