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


def dally(arguments: list[str], uncompiled: bool, hash_seed: str = "0") -> str:
    """Run the command line of one build, away from the checkout."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"PYTHONHASHSEED": hash_seed} | ({"PYTHONPATH": str(SRC)} if uncompiled else {})
    done = subprocess.run(
        [sys.executable, "-P", "-m", "dally", *arguments],
        env=env,
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first jobs of the demo, for two builds of which one is compiled."""
    have_both_builds()
    path = write_demo(tmp_path_factory.mktemp("trace"))
    path.write_text("".join(path.read_text().splitlines(keepends=True)[: JOBS + 1]))
    return path


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
    assert "(not compiled)" in dally(["--version"], uncompiled=True)


@pytest.mark.parametrize("policy", POLICIES)
def test_jobs_csv_is_the_same_to_the_byte(trace: Path, tmp_path: Path, policy: str) -> None:
    runs = {"compiled": (False, "1"), "again": (False, "2"), "plain": (True, "3")}
    for name, (uncompiled, hash_seed) in runs.items():
        dally(
            ["simulate", "--trace", str(trace), "--cluster", "2x9x8", "--policy", policy, "--seed", "11",
             "--failure-rate", "0.05", "--checkpoint-every", "900.5", "--network", "congested",
             "--no-report", "--out", str(tmp_path / name)],
            uncompiled, hash_seed,
        )  # fmt: skip
    for file in ("jobs.csv", "events.parquet", "decisions.parquet", "slots.parquet", "scenario.toml"):
        assert len({(tmp_path / name / file).read_bytes() for name in runs}) == 1, file
    assert (tmp_path / "plain" / "jobs.csv").read_bytes().count(b"finished") == JOBS
