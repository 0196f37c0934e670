"""The Ray engine, on this machine and with nothing but loopback: Ray advertises the network card's address."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from dally.errors import InputError
from dally.sweep.workers.ray import RayWorkers
from tests.sweep.sweeping import RUNS, keys, start, write_plan

ROOT = Path(__file__).parents[2]
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def on_loopback(*arguments: str) -> dict[str, Any]:
    """What tests/sweep/ray_nodes.py found, in a network namespace of its own."""
    for fine, reason in (
        (find_spec("ray") is not None, "Ray is not installed"),
        (os.geteuid() == 0, "a network namespace needs root"),
        (shutil.which("unshare") and shutil.which("ip"), "a network namespace needs unshare and ip"),
    ):
        if not fine:
            assert os.environ.get("CI") != "true", reason
            pytest.skip(reason)
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)]))
    script = 'ip link set lo up && exec "$0" -m tests.sweep.ray_nodes "$@"'
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c", script, sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    found = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert found, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(found[0].removeprefix("RESULT "))
    return result


def test_a_node_that_dies_loses_nothing(tmp_path: Path) -> None:
    write_plan(tmp_path)
    local = start(tmp_path, "local")
    found = on_loopback("killed", str(tmp_path))
    assert local.communicate(timeout=120)[1] is None
    assert local.returncode == 0
    assert found["code"] == 0, found["output"]
    assert found["at_work"] > 0, "the node that was killed had no part in it"
    assert found["left"] < RUNS, "it was killed after the end"
    made = keys(tmp_path / "ray")
    assert len(made) == len(set(made)) == RUNS
    assert (tmp_path / "ray" / "results.parquet").read_bytes() == (
        tmp_path / "local" / "results.parquet"
    ).read_bytes()
    assert found["fussy"] == {"1": 1, "2": 2, "3": "ValueError: 3 is a multiple of 3"}
    assert (found["deadly"]["2"], found["deadly"]["3"]) == (2, 3)
    assert found["deadly"]["1"].startswith("WorkerCrashedError: "), found["deadly"]


def test_a_cluster_of_our_own_listens_on_loopback_and_is_not_niced() -> None:
    found = on_loopback("alone")
    assert found["addresses"]
    assert set(found["addresses"]) <= LOOPBACK
    assert found["niceness"] == {"1": os.nice(0)}, "as its caller"


def test_without_ray_the_message_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dally.extras.find_spec", lambda name: None)
    with pytest.raises(InputError, match="--engine ray: ray is missing"):
        next(RayWorkers().map(abs, [1]))
