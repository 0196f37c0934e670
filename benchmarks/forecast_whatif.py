"""What looking costs: a what-if from the present of a large cluster, and a month of trends.

usage: python -m benchmarks.forecast_whatif [--machines 1000] [--jobs 5000] [--cpu-s 60]

Racks of 25 machines of 8 GPUs on the network `slow`, under `dally`; all jobs came at once, and as many came in
each of the last days. Prints how long the daemon's lock is held, how far ahead how many futures go within the
CPU time, and what reading a month of trends takes.
"""

from __future__ import annotations

import random
import tempfile
import time
from dataclasses import replace

from sqlalchemy import insert

from benchmarks.command_line import options
from dally import is_compiled
from dally.cluster.topology import grid
from dally.engine.cycle import cycle
from dally.engine.executor import Executor
from dally.job_spec import JobSpec
from dally.live.config import Setup
from dally.live.forecast.future import dump_present
from dally.live.forecast.lifetimes import PastJob
from dally.live.forecast.whatif.from_now import USUAL_EFFORT, FutureQuestion
from dally.live.store import open_store
from dally.live.store.schema import TRENDS
from dally.live.store.trend_rows import read_points
from dally.metrics.trends import GAUGES
from dally.model import NEVER, SUBMIT, Event, Job
from dally.sweep.whatif.change import Change, changed, today

RACK = 25
SIZES = (1, 2, 4, 8, 8, 16, 32)
DAY_S = 86400.0
MONTH = 30 * 1440  # minutes


def main() -> None:
    """Print a line per figure."""
    given = options(__doc__, machines=1000, jobs=5000, cpu_s=60.0)
    print(f"{'compiled' if is_compiled() else 'not compiled'}, {given.machines} machines, {given.jobs} jobs")
    print_trends()
    print_whatif(given.machines, given.jobs, given.cpu_s)


def print_trends() -> None:
    """Reading 600 points of a month and of a day."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{folder}/dally.db")
        rows = [
            {"minute": minute, "at_s": 60.0 * minute, "timers": {"16": [0.0, 600.0]}}
            | {name: float(minute % 97) for name, _, _ in GAUGES}
            for minute in range(MONTH)
        ]
        with store.transaction() as connection:
            connection.execute(insert(TRENDS), rows)
        for words, days in (("month", 30), ("day", 1)):
            began_s = time.process_time()
            points = read_points(store, 60.0 * MONTH - days * DAY_S, 60.0 * MONTH, 600)[3]
            print(f"trends of a {words}: {len(points)} points, {1000 * (time.process_time() - began_s):.0f} ms")
        store.close()


def print_whatif(machines: int, count: int, cpu_s: float) -> None:
    """`fifo-backfill` and two racks more, instead of `dally`."""
    chance = random.Random(1)
    now = today(Setup("dally", network="slow"), grid(max(1, machines // RACK), min(machines, RACK), 8))
    state = now.config.world(now.topology).state()
    jobs = [
        Job(
            number,
            f"j{number}",
            0.0,
            chance.choice(SIZES),
            NEVER,
            "resnet50",
            JobSpec(chance.choice(SIZES), model="resnet50", user=f"u{number % 50}"),
        )
        for number in range(count)
    ]
    cycle(state, [Event(SUBMIT, job) for job in jobs], 0.0, Executor())
    past = [
        PastJob(
            -number,
            -7 * DAY_S * number / (7 * count),
            JobSpec(chance.choice(SIZES), model="resnet50", user=f"u{number % 50}"),
            chance.uniform(600, 30_000),
        )
        for number in range(7 * count, 0, -1)
    ]
    began_s = time.perf_counter()
    content = dump_present(state, jobs, 0.0, len(jobs))
    print(f"lock held: {1000 * (time.perf_counter() - began_s):.0f} ms, {len(content) / 1e6:.1f} MB")
    after = changed(Change("fifo-backfill", cluster_delta="+2 racks"), now)
    asked = FutureQuestion(content, replace(USUAL_EFFORT, cpu_s=cpu_s))
    found = asked.answer(now, after, past, lambda *_: None, copies=True)
    print(f"{found.samples} futures; {' '.join(found.notes)}")
    print(found.headline)


if __name__ == "__main__":
    main()
