"""Same seed, same bytes: twice, compiled and not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dally.policies.registry import POLICIES
from tests.demo_workload import write_demo

SRC = Path(__file__).resolve().parents[2] / "src"
pytestmark = pytest.mark.once  # it runs both builds itself
JOBS = 400  # of the demo's: enough for queues, preemption and failures


# Every policy in one process: to start one for each would take as long as all of the runs.
SCRIPT = """
import sys
from dally.cli.main import exit_code
folder, policies, *options = sys.argv[1:]
for policy in policies.split():
    code = exit_code(["simulate", *options, "--policy", policy, "--out", f"{folder}/{policy}"])
    if code:
        sys.exit(f"{policy}: exit code {code}")
"""


def python(arguments: list[str], uncompiled: bool, hash_seed: str = "0") -> str:
    """Run the Python of one build, away from the checkout."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"PYTHONHASHSEED": hash_seed} | ({"PYTHONPATH": str(SRC)} if uncompiled else {})
    done = subprocess.run(
        [sys.executable, "-P", *arguments],
        env=env,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The first jobs of the demo under every policy, by two builds of which one is compiled.

    The second time in another order: what one run leaves behind must not change the next.
    """
    have_both_builds()
    folder = tmp_path_factory.mktemp("builds")
    trace = write_demo(folder)
    trace.write_text("".join(trace.read_text().splitlines(keepends=True)[: JOBS + 1]))
    options = [
        "--trace", str(trace), "--cluster", "2x9x8", "--seed", "11", "--failure-rate", "0.05", "--checkpoint-every",
        "900.5", "--network", "congested", "--no-report",
    ]  # fmt: skip
    policies = list(POLICIES)
    ways = (("compiled", policies, False), ("again", policies[::-1], False), ("plain", policies, True))
    for hash_seed, (name, order, uncompiled) in enumerate(ways, start=1):
        python(["-c", SCRIPT, str(folder / name), " ".join(order), *options], uncompiled, str(hash_seed))
    return [folder / name for name, _, _ in ways]


def have_both_builds() -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "dally", "--version"],
        env=env,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    if "(compiled)" not in done.stdout:
        reason = "the compiled build is not installed: make install"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    assert "(not compiled)" in python(["-m", "dally", "--version"], uncompiled=True)


@pytest.mark.parametrize("policy", POLICIES)
def test_jobs_csv_is_the_same_to_the_byte(runs: list[Path], policy: str) -> None:
    for file in ("jobs.csv", "events.parquet", "decisions.parquet", "slots.parquet", "scenario.toml"):
        assert len({(run / policy / file).read_bytes() for run in runs}) == 1, file
    assert (runs[-1] / policy / "jobs.csv").read_bytes().count(b"finished") == JOBS
