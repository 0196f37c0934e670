"""What a replay costs: reading a run, and the status, the map and the trends of a moment, in CPU time.

usage: python -m benchmarks.replay [--machines 1000] [--jobs 5000] [RUN_DIR]

Without a folder, a run is simulated first: racks of 25 machines of 8 GPUs, all jobs submitted within an hour, so
that nearly all of them wait or run at every moment looked at.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from dally.runs.execute import execute
from dally.runs.folder import FolderRecord
from dally.runs.scenario import Scenario
from dally.web.auth.tokens import VIEWER, Caller
from dally.web.dashboard.event_streams import map_state
from dally.web.replay.replay_app import ReplayScene

RACK = 25
MOMENTS = 40
UNTIL_S = 4 * 3600.0
SIZES = (1, 2, 4, 8, 8, 16, 32)


def main() -> None:
    """Print a line per figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", nargs="?", type=Path)
    parser.add_argument("--machines", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=5000)
    given = parser.parse_args()
    if given.run is not None:
        measure(given.run)
        return
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.csv"
        trace.write_text("\n".join(["job_id,submit_s,gpus,duration_s", *rows(given.jobs)]) + "\n")
        cluster = f"{max(1, given.machines // RACK)}x{min(given.machines, RACK)}x8"
        execute(Scenario(str(trace), cluster, "fifo", network="slow", until_s=UNTIL_S), out=Path(folder) / "run")
        measure(Path(folder) / "run")


def rows(jobs: int) -> list[str]:
    """A trace's, by submission."""
    chance = random.Random(1)
    moments = sorted(chance.randint(0, 3600) for _ in range(jobs))
    return [
        f"j{place},{at_s},{chance.choice(SIZES)},{chance.randint(9_000, 90_000)}"
        for place, at_s in enumerate(moments)
    ]


def measure(folder: Path) -> None:
    """All figures of a run."""
    began = time.process_time()
    scene = ReplayScene(FolderRecord(folder), folder.name)
    print(f"reading it           {time.process_time() - began:8.2f} s CPU")
    gc.collect()
    gc.freeze()  # as the server does
    first_s, last_s = scene.span()
    moments = [first_s + (last_s - first_s) * (place + 0.5) / MOMENTS for place in range(MOMENTS)]
    counts = sorted(len(scene.statuses.at(at_s).jobs) for at_s in moments)
    print(f"jobs on the status    {counts[len(counts) // 2]:8,} in the middle, at most {counts[-1]:,}")
    tell("a status", [spent(partial(scene.statuses.at, at_s)) for at_s in moments])
    tell("map/state.json", [spent(partial(state, scene, at_s)) for at_s in moments])
    print(f"trends, first        {1000 * spent(lambda: scene.trends(first_s, last_s, 600)):8.1f} ms CPU")
    print(f"trends               {1000 * spent(lambda: scene.trends(first_s, last_s, 600)):8.1f} ms CPU")


def state(scene: ReplayScene, at_s: float) -> str:
    """What the map asks for."""
    return json.dumps(map_state(scene, Caller("", VIEWER), at_s).to_json(""))


def spent(work: Callable[[], object]) -> float:
    """CPU seconds."""
    began = time.process_time()
    work()
    return time.process_time() - began


def tell(name: str, cpu_s: list[float]) -> None:
    """The middle one and the longest."""
    ranked = sorted(cpu_s)
    print(f"{name:20} {1000 * ranked[len(ranked) // 2]:8.1f} ms CPU, at most {1000 * ranked[-1]:.1f}")


if __name__ == "__main__":
    main()
