"""`dally init`: answered by options, by nothing, and by somebody at a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from dally.cli.runs.init import answered
from dally.cli.runs.scenario_options import ScenarioOptions
from dally.runs.scenario import read_scenario
from tests.cli.conftest import Run
from tests.traces.documented import first_seed, put

TRACE = "job_id,submit_s,gpus,duration_s\n" + "".join(f"j{n},{n * 60},{1 + n % 4},{900 + n}\n" for n in range(20))


@pytest.fixture
def jobs(tmp_path: Path) -> str:
    (tmp_path / "jobs.csv").write_text(TRACE)
    return "jobs.csv"


def at_a_terminal(folder: Path, answers: str, *words: str) -> tuple[int, str]:
    """(exit code, all that is shown) of the command with these answers typed in."""
    master, slave = pty.openpty()
    os.write(master, answers.encode())
    done = subprocess.Popen(
        [sys.executable, "-m", "dally", "init", *words],
        cwd=folder, stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    os.close(slave)
    shown, _ = done.communicate(timeout=60)
    os.close(master)
    return done.returncode, shown


def test_four_answers_at_a_terminal(jobs: str, tmp_path: Path) -> None:
    answers = "nowhere.csv\njobs.csv\n1x1x2\n1x2x4\nslow\nfifo\n"  # two of them will not do and are asked for again
    code, shown = at_a_terminal(tmp_path, answers, "--seed", "7")
    assert code == 0, shown
    for words in (
        "1/4 Where is your trace",
        "nowhere.csv: no such file, and no workload of philly-like",
        "csv: 20 jobs of up to 4 GPUs",
        "1x1x2: has 2 GPUs and the largest job asks for 4",
        "8 GPUs in 2 machines",
        "4/4 The policy in use",
        "20 of 20",
        "dally compare --scenario first/scenario.toml --policies fifo,dally",
    ):
        assert words in shown
    scenario = read_scenario(tmp_path / "first" / "scenario.toml")
    assert (scenario.trace, scenario.cluster) == (str(tmp_path / "jobs.csv"), "1x2x4")
    assert (scenario.network, scenario.policy, scenario.seed) == ("slow", "fifo", 7)
    assert {"summary.json", "jobs.csv", "report.html"} <= {
        path.name for path in (tmp_path / "first" / "run").iterdir()
    }


def test_what_it_says_to_do_next_can_be_done(dally: Run, jobs: str, tmp_path: Path) -> None:
    done = dally("init", "lab", "--yes", "--trace", jobs, "--policy", "fifo")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == ["--cluster 1x6x8  (48 GPUs in 6 machines)", "--network normal"]
    commands = [line.split("  ")[-1].split() for line in done.stdout.splitlines() if "  dally " in line]
    assert [words[1] for words in commands] == ["explain", "simulate", "compare", "whatif"]
    for words in commands:
        assert (again := dally(*words[1:])).returncode == 0, again.stderr
    before = sorted(tmp_path.rglob("*"))
    twice = dally("init", "lab", "--yes")
    assert (twice.returncode, twice.stderr.count("\n")) == (2, 1)
    assert "lab/scenario.toml: is there already" in twice.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_a_workload_that_is_made_up(dally: Run, tmp_path: Path) -> None:
    words = ("--trace", "poisson", "--cluster", "1x2x8", "--network", "slow", "--policy", "fifo", "--json")
    done = dally("init", "--yes", *words)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["jobs"], summary["scenario"]) == (500, "first/scenario.toml")
    assert len((tmp_path / "first" / "trace.csv").read_text().splitlines()) == 501


@pytest.mark.parametrize(("name", "policy"), [("sacct", "slurm-backfill"), ("kubernetes", "kueue-preferred")])
def test_the_usual_policy_is_the_traces_own(name: str, policy: str, tmp_path: Path) -> None:
    trace = str(put(first_seed(name), tmp_path))
    found = answered(ScenarioOptions({"trace": trace}), interactive=False)
    assert (found.policy, found.network) == (policy, "normal")


def test_links_of_the_cluster_are_its_network() -> None:
    lab = str(Path(__file__).parents[2] / "examples" / "lab.toml")
    assert answered(ScenarioOptions({"trace": "batch", "cluster": lab}), interactive=False).network == ""


def test_without_a_terminal_it_asks_nothing(jobs: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dally", "init", "--trace", jobs, "--network", "slow"],
        cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "dally: init asks questions and stdin is no terminal; answer by --cluster, --policy, or give --yes\n"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs.csv"]


def test_nobody_answers(jobs: str, tmp_path: Path) -> None:
    code, shown = at_a_terminal(tmp_path, "\x04", "--trace", jobs)
    assert code == 130
    assert shown.endswith("dally: interrupted; nothing was written\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs.csv"]
