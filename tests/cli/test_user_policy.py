"""A policy of the user's own file, in the commands that take a policy."""

from __future__ import annotations

import json
import os
import signal
import tomllib
from pathlib import Path

import pytest

from dally.runs.scenario import Scenario, file_digest
from dally.sweep.run import make_run
from tests.cli.conftest import Run

EXAMPLE = Path(__file__).parents[2] / "examples" / "my_policy.py"
# On two machines of 8 GPUs, a and b leave 2 of each. c fits one machine when a ends at 100 s, and both at once.
JOBS = "job_id,submit_s,gpus,duration_s\na,0,6,100\nb,0,6,300\nc,1,4,50\n"
ON = ("--trace", "t.csv", "--cluster", "2x1x8")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text(JOBS)
    (tmp_path / "mine.py").write_text(EXAMPLE.read_text(encoding="utf-8"))
    return tmp_path


def jct_mean_s(c_starts_s: float) -> float:
    """By hand: a and b run alone from 0 s on, c came at 1 s."""
    return (100.0 + 300.0 + c_starts_s - 1.0 + 50.0) / 3.0


def test_simulate_runs_it_repeats_it_and_refuses_another(dally: Run, here: Path) -> None:
    mine = ("--policy", "mine.py:Patient", "--set", "patience_s=30")
    done = dally("simulate", *ON, *mine, "--out", "out", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["jct_mean_s"] == jct_mean_s(31.0)
    stated = tomllib.loads((here / "out" / "scenario.toml").read_text())
    assert stated["policy"] == f"{here}/mine.py:Patient"
    assert stated["digests"][f"{here}/mine.py"] == file_digest(str(here / "mine.py"))
    again = dally("simulate", "--scenario", "out/scenario.toml", "--out", "again", "--no-report")
    assert again.returncode == 0, again.stderr
    assert (here / "again" / "jobs.csv").read_bytes() == (here / "out" / "jobs.csv").read_bytes()
    with (here / "mine.py").open("a") as file:
        file.write("\n")
    changed = dally("simulate", "--scenario", "out/scenario.toml")
    assert changed.returncode == 2
    assert changed.stderr == f"dally: {here}/mine.py: has changed since the scenario was written\n"


def test_compare_runs_it_on_two_workers(dally: Run, here: Path) -> None:
    policies = "mine.py:Patient:patience_s=200,fifo-backfill,./mine.py:Patient"
    done = dally("compare", *ON, "--policies", policies, "--jobs", "2", "--json", "--out", "out", "--no-report")
    assert done.returncode == 0, done.stderr
    found = {row["policy"]: row["jct_mean_s"]["mean"] for row in json.loads(done.stdout)["results"]}
    assert found == {
        "mine.py:Patient:patience_s=200": jct_mean_s(100.0),
        "fifo-backfill": jct_mean_s(1.0),
        "./mine.py:Patient": jct_mean_s(100.0),
    }


def test_sweep_varies_its_parameters(dally: Run, here: Path) -> None:
    varied = ("--policy", "mine.py:Patient", "--vary", "set.patience_s=0,30,200")
    done = dally("sweep", *ON, *varied, "--jobs", "1", "--json", "--out", "swept")
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    assert [row["jct_mean_s"] for row in rows] == [jct_mean_s(1.0), jct_mean_s(31.0), jct_mean_s(100.0)]


def test_whatif_tries_it(dally: Run, here: Path) -> None:
    tried = ("--policy", "mine.py:Patient", "--set", "patience_s=200", "--network", "none", "--jobs", "1", "--json")
    done = dally("whatif", *ON, *tried)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["new"] == "mine.py:Patient:patience_s=200"


@pytest.mark.parametrize("command", ["simulate", "compare", "sweep", "whatif", "benchmark"])
def test_what_is_wrong_with_it_is_bad_input(dally: Run, here: Path, command: str) -> None:
    (here / "mine.py").write_text("import dally\n\nx = 1 / 0\n")
    option = "--policies" if command in ("compare", "benchmark") else "--policy"
    on = () if command == "benchmark" else ON
    out = ("--out", "out") if command == "sweep" else ()
    done = dally(command, *on, option, "mine.py:Patient", *out)
    assert (done.returncode, done.stderr) == (2, "dally: mine.py:3: ZeroDivisionError: division by zero\n")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("return 1 / len(())", "mine.py:4: in schedule: ZeroDivisionError: division by zero"),
        (
            "return None",
            "mine.py: schedule must give actions, Start, Preempt or Migrate, and nothing else",
        ),
        (
            "return queue.jobs()",
            "mine.py: schedule must give actions, Start, Preempt or Migrate, and nothing else",
        ),
    ],
)
def test_what_it_does_wrong_is_told_with_its_line(dally: Run, here: Path, body: str, problem: str) -> None:
    head = "from dally.policies.base import Policy\nclass Mine(Policy):\n"
    (here / "mine.py").write_text(f"{head}    def schedule(self, now, queue, cluster):\n        {body}\n")
    done = dally("simulate", *ON, "--policy", "mine.py:Mine")
    assert done.returncode == 1
    assert done.stderr.startswith(f"dally: a bug in the policy: {problem}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("wrong", ["key", "tie"])
def test_a_rank_that_is_no_number_is_told(dally: Run, here: Path, wrong: str) -> None:
    arguments = {"key": "self, job, now", "tie": "self, job"}
    other = "tie" if wrong == "key" else "key"
    (here / "mine.py").write_text(
        "import dally\n"
        "class Mine(dally.Order):\n"
        f"    def {wrong}({arguments[wrong]}):\n        return (job.gpus, job.submit_s)\n"
        f"    def {other}({arguments[other]}):\n        return 0.0\n"
        "class Ranked(dally.Policy):\n"
        "    order = Mine()\n"
        "    def schedule(self, now, queue, cluster):\n        return iter(())\n"
    )
    done = dally("simulate", *ON, "--policy", "mine.py:Ranked")
    assert done.returncode == 1
    problem = "mine.py: key(job, now) and tie(job) of its order must return one number each: TypeError: "
    assert done.stderr.startswith(f"dally: a bug in the policy: {problem}")
    assert done.stderr.count("\n") == 1


def test_workers_end_with_a_command_that_is_told_to_end(dally_alone: Run, here: Path) -> None:
    (here / "mine.py").write_text(
        "import os, signal, time\n"
        "from dally.policies.base import Policy\n"
        "class Mine(Policy):\n"
        "    def schedule(self, now, queue, cluster):\n"
        "        open('pid', 'w').write(str(os.getpid()))\n"
        "        os.kill(os.getppid(), signal.SIGTERM)\n"
        "        time.sleep(600)\n"
    )
    done = dally_alone("compare", *ON, "--policies", "mine.py:Mine", "--jobs", "1")
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    with pytest.raises(ProcessLookupError):
        os.kill(int((here / "pid").read_text()), 0)


def test_it_counts_by_its_content(here: Path) -> None:
    (here / "copy.py").write_bytes((here / "mine.py").read_bytes())
    base = Scenario(str(here / "t.csv"), "2x1x8", f"{here}/mine.py:Patient")
    copy = Scenario(str(here / "t.csv"), "2x1x8", f"{here}/copy.py:Patient")
    before = make_run(base, {}, {}).key
    assert make_run(copy, {}, {}).key == before
    with (here / "mine.py").open("a") as file:
        file.write("\n")
    assert make_run(base, {}, {}).key != before
