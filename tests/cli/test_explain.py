"""`dally explain` from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run

# One rack of two machines of 8 GPUs, a lease of 10 s, T_1 = 4 s, T_2 = 8 s. job-a and job-b take 5 GPUs of a
# machine each. job-c finds 3 + 3 at 3 and takes them at 7, until 16. job-d finds no 8 GPUs at 5 and takes those
# of job-a and job-b at 10, when their leases end, until 15.
TRACE = "job_id,submit_s,gpus,duration_s\njob-a,0,5,12\njob-b,0,5,22\njob-c,3,6,9\njob-d,5,8,5\n"
POLICY = ["--policy", "dally-paper", "--set", "tuner=off", "--set", "lease_s=10", "--set", "floors=0.4,0.8"]


@pytest.fixture
def run(dally: Run, tmp_path: Path) -> str:
    (tmp_path / "t.csv").write_text(TRACE)
    done = dally("simulate", "--trace", "t.csv", "--cluster", "1x2x8", *POLICY, "--restart-per-gpu-s", "0",
                 "--out", "one")  # fmt: skip
    assert done.returncode == 0, done.stderr
    return "one"


def test_a_story_for_people(dally: Run, run: str) -> None:
    done = dally("explain", "job-c", "--run", run)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "Job job-c",
        "  day 0 00:00:03 (3 s)  submitted: 6 GPUs",
        "  day 0 00:00:03 (3 s)  first in the queue; waits for a closer placement than one rack, "
        "which it accepts at day 0 00:00:07",
        "  day 0 00:00:07 (7 s)  started on one rack after waiting 4 s, its delay of 4 s for that had passed: "
        "rack0-m[0-1] (3 GPUs each)",
        "  day 0 00:00:16 (16 s)  finished 13 s after submission: waited 4 s, ran 9 s",
    ]


def test_a_story_as_json(dally: Run, run: str) -> None:
    told = json.loads(dally("explain", "job-a", "--run", run, "--json").stdout)
    assert list(told) == ["job_id", "history", "slowdowns", "outcome", "waiting"]
    assert (told["job_id"], told["slowdowns"], told["waiting"]) == ("job-a", {}, None)
    assert [(event["time_s"], event["kind"]) for event in told["history"]] == [
        (0, "submit"), (0, "start"), (10, "preempt"), (10, "wait"), (15, "start"), (17, "finish"),
    ]  # fmt: skip
    assert told["history"][2]["text"] == "preempted for job-d; waits again"
    outcome = told["outcome"]
    assert (outcome["finish_s"], outcome["queue_s"], outcome["run_s"], outcome["preemptions"]) == (17, 5, 12, 1)


def test_how_things_stand_at_an_instant(dally: Run, run: str) -> None:
    lines = dally("explain", "job-d", "--run", run, "--at", "6").stdout.splitlines()
    why = "1 job ahead of it: job-c; it needs 8 GPUs and 6 are free (in use by job-a (5), job-b (5))"
    assert lines[-1] == f"  Waits at that instant: {why}."
    told = json.loads(dally("explain", "job-d", "--run", run, "--at", "6", "--json").stdout)
    assert [event["kind"] for event in told["history"]] == ["submit", "wait"]
    assert told["waiting"] == {
        "job_id": "job-d", "gpus": 8, "since_s": 5, "place": 2, "why": why, "reason": "gpus", "until_s": None,
    }  # fmt: skip
    # At 12 it runs.
    running = json.loads(dally("explain", "job-d", "--run", run, "--at", "12", "--json").stdout)
    assert ([event["kind"] for event in running["history"]][-1], running["waiting"]) == ("start", None)


def test_not_submitted_yet(dally: Run, run: str) -> None:
    done = dally("explain", "job-d", "--run", run, "--at", "2")
    assert done.stdout.splitlines() == [
        "Job job-d",
        "  day 0 00:00:05 (5 s)  not submitted yet",
    ]


def test_all_that_wait(dally: Run, run: str) -> None:
    # When most waited: 2 at 5, and again from 10 on; the first of these.
    busiest = json.loads(dally("explain", "--waiting", "--run", run, "--json").stdout)
    assert busiest["at_s"] == 5
    assert [(wait["place"], wait["job_id"]) for wait in busiest["waiting"]] == [(1, "job-c"), (2, "job-d")]
    later = json.loads(dally("explain", "--waiting", "--run", run, "--at", "14", "--json").stdout)
    assert [(wait["job_id"], wait["reason"], wait["until_s"]) for wait in later["waiting"]] == [
        ("job-a", "gpus", None),
        ("job-b", "gpus", None),
    ]
    text = dally("explain", "--waiting", "--run", run).stdout
    assert text.startswith("Waiting on day 0 00:00:05 (5 s): 2\n")
    rows = [" ".join(line.split()) for line in text.splitlines() if "job-" in line]
    assert rows == [
        "1 job-c 6 day 0 00:00:03 (3 s) first in the queue; waits for a closer placement than one rack, "
        "which it accepts at day 0 00:00:07",
        "2 job-d 8 day 0 00:00:05 (5 s) 1 job ahead of it: job-c; it needs 8 GPUs and 6 are free "
        "(in use by job-a (5), job-b (5))",
    ]
    nobody = json.loads(dally("explain", "--waiting", "--run", run, "--at", "100", "--json").stdout)
    assert nobody == {"at_s": 100, "waiting": []}


def test_slowdowns_to_expect(dally: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "job_id,submit_s,gpus,duration_s,model\na,0,4,1000,bert-large\nb,0,12,9,vgg16\n"
    )
    done = dally("simulate", "--trace", "t.csv", "--cluster", "2x2x8", "--network", "slow", "--policy",
                 "dally-paper", "--out", "one")  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(dally("explain", "a", "--run", "one", "--json").stdout)
    assert told["history"][0]["text"] == "submitted: 4 GPUs, model bert-large"
    by_tier = told["slowdowns"]
    assert list(by_tier) == ["machine", "rack", "network"]
    assert by_tier["machine"] == 1.0
    assert 1.0 < by_tier["rack"] <= by_tier["network"]
    text = dally("explain", "a", "--run", "one").stdout.splitlines()[-1]
    shown = ", ".join(f"{tier} {value:.2f}" for tier, value in by_tier.items())
    assert text == f"  Slowdown to expect, alone: {shown}."
    # 12 GPUs do not fit a machine.
    larger = json.loads(dally("explain", "b", "--run", "one", "--json").stdout)["slowdowns"]
    assert list(larger) == ["rack", "network"]
    assert larger["rack"] == 1.0


def test_a_run_without_timers(dally: Run, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(TRACE)
    assert dally("simulate", "--trace", "t.csv", "--cluster", "1x1x8", "--out", "one").returncode == 0
    done = dally("explain", "job-b", "--run", "one")
    assert (done.returncode, done.stderr) == (0, "")
    # fifo-backfill: job-a until 12, job-b after it.
    assert (
        "  day 0 00:00:12 (12 s)  started on one machine after waiting 12 s, as close as it can be: " in done.stdout
    )
    waiting = dally("explain", "--waiting", "--run", "one", "--at", "1")
    assert (waiting.returncode, waiting.stdout.splitlines()[0]) == (0, "Waiting on day 0 00:00:01 (1 s): 1")
    assert "first in the queue; it needs 5 GPUs and 3 are free (in use by job-a (5))" in waiting.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["job-cc", "--run", "one"], "job 'job-cc': not in one/jobs.csv; did you mean 'job-c'?"),
        (["zzz", "--run", "one"], "job 'zzz': not in one/jobs.csv\n"),
        (["job-a", "--run", "."], "holds no jobs.csv; give the folder that `dally simulate --out` wrote"),
        (["job-a", "--run", "nowhere"], "nowhere: holds no jobs.csv; give the folder"),
        (["job-a", "--run", "t.csv"], "t.csv: holds no jobs.csv; give the folder"),
        (["--run", "one"], "give a job, or --waiting; see `dally explain --help`"),
        (["job-a", "--waiting", "--run", "one"], "give a job, or --waiting; see `dally explain --help`"),
        (["job-a", "--server", "http://127.0.0.1:1"], "http://127.0.0.1:1: no server answers"),
        (["job-a", "--run", "one", "--at", "noon"], "Invalid value for '--at'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(dally: Run, run: str, arguments: list[str], message: str) -> None:
    done = dally("explain", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    if done.stderr.startswith("dally:"):
        assert done.stderr.count("\n") == 1
