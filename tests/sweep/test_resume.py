"""A sweep that is killed and resumed loses nothing, repeats nothing and ends with the same table."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from dally.sweep.batch import RowStore
from tests.sweep.sweeping import RUNS, kept, keys, start, wait_for, write_plan


@pytest.mark.parametrize("seed", [1])
def test_killed_three_times_and_resumed(tmp_path: Path, seed: int) -> None:
    write_plan(tmp_path)
    whole = start(tmp_path, "whole")
    output = whole.communicate(timeout=240)[0]
    assert whole.returncode == 0, output
    assert len(set(keys(tmp_path / "whole"))) == RUNS

    rng = random.Random(seed)
    out = tmp_path / "cut"
    seen: list[str] = []
    for lines in sorted(rng.sample(range(1, RUNS - 80), 3)):
        running = start(tmp_path, "cut")
        wait_for(out, lines, running)
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        assert kept(out) < RUNS
        assert not (out / "results.parquet").exists()
        assert keys_whole(out)[: len(seen)] == seen, "what was finished stays"
        seen = keys_whole(out)
    last = start(tmp_path, "cut")
    output = last.communicate(timeout=240)[0]
    assert last.returncode == 0, output
    made = keys(out)
    assert made[: len(seen)] == seen
    assert len(made) == len(set(made)) == RUNS, "none lost, none made twice"
    assert set(made) == set(keys(tmp_path / "whole"))
    assert (out / "results.parquet").read_bytes() == (tmp_path / "whole" / "results.parquet").read_bytes()


def keys_whole(out: Path) -> list[str]:
    """Keys of the lines that were written to the end: the next start takes off one that was not."""
    journal = out / "runs.jsonl"
    text = journal.read_bytes()
    journal.write_bytes(text[: text.rfind(b"\n") + 1])
    found = keys(out)
    journal.write_bytes(text)
    return found


def test_two_sweeps_do_not_share_a_folder(tmp_path: Path) -> None:
    write_plan(tmp_path)
    with RowStore(tmp_path / "out"):
        second = start(tmp_path, "out")
        output = second.communicate(timeout=60)[0]
    assert second.returncode == 2
    assert output == "dally: out: another dally is at work in it; wait, or name another --out\n"


def test_ctrl_c_while_workers_start_leaves_no_traceback(tmp_path: Path) -> None:
    write_plan(tmp_path)
    running = start(tmp_path, "out")
    while not (tmp_path / "out" / "runs.jsonl").exists() and running.poll() is None:
        time.sleep(0.005)
    time.sleep(0.1)
    os.killpg(running.pid, signal.SIGINT)
    output = running.communicate(timeout=60)[0]
    assert running.returncode == 130, output
    assert output.startswith("dally: interrupted; ")
    assert output.count("\n") == 1


def test_ctrl_c_says_what_is_kept(tmp_path: Path) -> None:
    write_plan(tmp_path)
    running = start(tmp_path, "out")
    wait_for(tmp_path / "out", 3, running)
    os.killpg(running.pid, signal.SIGINT)
    output = running.communicate(timeout=60)[0]
    assert running.returncode == 130, output
    expected = (
        f"dally: interrupted; {kept(tmp_path / 'out')} of 200 runs are stored in out: the same command goes on"
    )
    assert output == f"{expected} from there\n"
