"""What the recorder of benchmarks/slurm_day.py counts as starved; needs no Slurm."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.live.slurm_recorder import SlurmRecorder

STEPS = 40  # looks, a second apart


class NoSlurm:
    """Its thread finds nothing to look at."""

    def run(self, *_: str) -> str:
        return ""


def node(name: str) -> dict[str, Any]:
    return {
        "name": name, "gres": "gpu:2", "state": "mixed", "cpus": 64, "real_memory": 1000, "alloc_memory": 0,
        "features": "ib",
    }  # fmt: skip


def waiting(job_id: int, **changes: Any) -> dict[str, Any]:
    return {"job_id": job_id, "job_state": "PENDING", "partition": "gpu", **changes}


def recorded(monkeypatch: pytest.MonkeyPatch, asks: tuple[int, int], taken: list[set[tuple[str, int]]]) -> Any:
    """A recorder after a look a second with these GPUs taken, while job 1 waits."""
    recorder = SlurmRecorder(NoSlurm())  # type: ignore[arg-type]
    recorder.stop()
    recorder.asks["1"] = asks
    for second, gpus in enumerate(taken):
        monkeypatch.setattr(time, "monotonic", lambda second=second: float(second))
        recorder._see_waiting([waiting(1)], [node("n01"), node("n02")], gpus)
    return recorder


def test_a_job_whose_gpus_stand_idle_is_starved(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = recorded(monkeypatch, (1, 1), [{("n01", 0), ("n02", 0), ("n02", 1)}] * STEPS)
    assert recorder.idle_s["1"] == STEPS - 1
    assert recorder.room_s["1"] == STEPS - 1


def test_a_job_behind_others_who_get_what_falls_free_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """In each look a GPU is free, and never the same one for long."""
    every = [("n01", 0), ("n01", 1), ("n02", 0), ("n02", 1)]
    recorder = recorded(monkeypatch, (1, 1), [{*every} - {every[second % 4]} for second in range(STEPS)])
    assert recorder.idle_s["1"] == 0.0
    assert recorder.room_s["1"] == STEPS - 1


@pytest.mark.parametrize(("nodes", "each", "idle_s"), [(2, 1, STEPS / 2 - 1), (2, 2, 0.0), (1, 2, STEPS - 1)])
def test_all_gpus_of_a_gang_count(monkeypatch: pytest.MonkeyPatch, nodes: int, each: int, idle_s: float) -> None:
    """n01 is free all the time, one GPU of n02 from the middle on."""
    half = STEPS // 2
    taken = [{("n02", 0), ("n02", 1)}] * half + [{("n02", 0)}] * half
    recorder = recorded(monkeypatch, (nodes, each), taken)
    assert recorder.idle_s.get("1", 0.0) == idle_s
