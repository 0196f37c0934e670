"""Engines: every item gets a result or a reason, whatever becomes of its process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from dally.sweep.workers import Failure
from dally.sweep.workers.local import LocalWorkers
from tests.sweep import worker_functions


def test_every_item_gets_its_result() -> None:
    assert dict(LocalWorkers(2).map(worker_functions.double, range(7))) == {n: 2 * n for n in range(7)}
    assert list(LocalWorkers(2).map(worker_functions.double, [])) == []


def test_results_come_as_they_finish() -> None:
    order = [item for item, _ in LocalWorkers(2).map(worker_functions.slow_first, range(5))]
    assert order[0] != 0
    assert sorted(order) == [0, 1, 2, 3, 4]


def test_what_one_item_raises_harms_no_other() -> None:
    found = dict(LocalWorkers(2).map(worker_functions.fussy, range(1, 7)))
    assert [n for n, result in found.items() if isinstance(result, Failure)] != []
    assert {n: found[n] for n in (1, 2, 4, 5)} == {1: 1, 2: 2, 4: 4, 5: 5}
    assert found[3] == Failure("ValueError: 3 is a multiple of 3")


def test_a_killed_worker_fails_its_own_item_only() -> None:
    found = dict(LocalWorkers(2).map(worker_functions.deadly, range(5)))
    assert found[1] == Failure("its process died 2 times (signal 9; out of memory?)")
    assert {n: found[n] for n in (0, 2, 3, 4)} == {0: 0, 2: 2, 3: 3, 4: 4}
    assert dict(LocalWorkers(1).map(worker_functions.quits, [1])) == {
        1: Failure("its process died 2 times (exit code 7)")
    }


def test_a_worker_killed_once_is_replaced_and_its_item_tried_again(tmp_path: Path) -> None:
    item = str(tmp_path / "been-here")
    assert list(LocalWorkers(1).map(worker_functions.dies_once, [item])) == [(item, item)]


def test_workers_end_when_the_parent_is_killed(tmp_path: Path) -> None:
    """A SIGKILL of the parent alone must leave no process behind."""
    code = """
        import os, signal, sys, time
        from dally.sweep.workers.local import LocalWorkers
        from tests.sweep.worker_functions import double
        if __name__ == "__main__":
            done = LocalWorkers(2).map(double, range(100))
            next(done)
            import multiprocessing
            print(*(child.pid for child in multiprocessing.active_children()), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
    """
    script = tmp_path / "parent.py"
    script.write_text(textwrap.dedent(code))
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; sys.path.insert(0, {str(root)!r}); exec(open({str(script)!r}).read())",
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
    )
    children = [int(text) for text in done.stdout.split()]
    assert len(children) == 2, done.stderr
    deadline = time.monotonic() + 20
    while any(map(alive, children)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [child for child in children if alive(child)] == []


def alive(pid: int) -> bool:
    """Whether it runs; one that nobody has buried yet does not."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_reused_processes_serve_call_after_call() -> None:
    workers = LocalWorkers(1)
    with workers.reused():
        first, second = (dict(workers.map(worker_functions.process_id, [0]))[0] for _ in range(2))
        assert first == second
        assert dict(workers.map(worker_functions.double, [3])) == {3: 6}, "another function, another process"
    assert dict(workers.map(worker_functions.process_id, [0]))[0] != first


def test_reused_processes_end_with_the_last_call() -> None:
    workers = LocalWorkers(1)
    with workers.reused():
        process = dict(workers.map(worker_functions.process_id, [0]))[0]
        assert isinstance(process, int)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
