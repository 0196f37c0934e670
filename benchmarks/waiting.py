"""What a scheduling event costs `dally-paper` while 1,000, 10,000 and 100,000 jobs wait.

usage: python -m benchmarks.waiting     (compiled: `make install` first, and no PYTHONPATH to src/)

512 GPUs, a slow network, and once the queue is filled the same number of events is timed for each length:
  fresh      all jobs come at t = 0 and wait for their first GPUs; awkward sizes decline farther tiers
  returning  every job had its turn and was preempted: those who wait have ranks and clocks of their own
  timers     every machine has 2 GPUs free and the queue asks for more than all of them; small gangs trickle in,
             hold out for a machine, and take a rack when their timers end (order=fifo, so that nobody moves)
Exits with 1 when an event costs more than 1.5 times as much with 100,000 waiting as with 10,000.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from dally import is_compiled
from dally.engine.simulate import Simulation
from dally.model import PREEMPT, RENEW, START, TIMER
from dally.runs.assemble import assemble
from dally.runs.scenario import Scenario

LENGTHS = (1_000, 10_000, 100_000)
EVENTS = {"fresh": 300, "returning": 3_000, "timers": 3_000}
SIZES = (1, 2, 3, 5, 5, 6, 7, 8, 11, 13, 21, 27, 37, 64)  # GPUs
TRICKLE = 2_000  # small gangs, one a minute
ROUNDS = 3  # the fastest counts: others use this machine too
LIMIT = 1.5


@dataclass
class Measured:
    waiting: int  # when the clock stopped
    starts: int
    preemptions: int
    renewals: int
    timers: int
    event_us: float  # CPU per scheduling event


def rows(kind: str, jobs: int) -> list[str]:
    """The jobs of a trace, the first ones the same for every length."""
    found = []
    for i in range(jobs):
        mixed = i * 7919
        if kind == "fresh":
            found.append(f"{i},0,{SIZES[mixed % len(SIZES)]},{60 + mixed % 1800}")
        elif kind == "returning":
            found.append(f"{i},0,{SIZES[mixed % len(SIZES)]},{36000 + mixed % 864000}")
        else:
            found.append(f"{i},1,200,36000")
    if kind == "timers":
        held = [f"h{i},0,6,1e9" for i in range(64)]
        small = [f"s{i},{60 * i + 2},{3 + i * 7919 % 5},{300 + i * 7919 % 900}" for i in range(TRICKLE)]
        found = held + found + small
    return found


def filled(kind: str, jobs: int) -> Simulation:
    """The run at the moment from which events are timed."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "batch.csv"
        trace.write_text("job_id,submit_s,gpus,duration_s\n" + "\n".join(rows(kind, jobs)) + "\n")
        settings = {"floors": "1,2", "order": "fifo"} if kind == "timers" else {}
        simulation, _ = assemble(Scenario(str(trace), "4x16x8", "dally-paper", settings, network="slow"))
    while len(simulation.state.queue) < jobs // 2:
        simulation.step()  # they all come in
    while kind == "returning" and any(job.start_s < 0.0 for job in simulation.jobs):
        for _ in range(200):
            simulation.step()
    return simulation


def measure(kind: str, jobs: int) -> Measured:
    """Time a fixed number of events."""
    simulation = filled(kind, jobs)
    log = simulation.state.log
    first = len(log)
    begin_s = time.process_time()
    for _ in range(EVENTS[kind]):
        simulation.step()
    cpu_s = time.process_time() - begin_s
    kinds = [int(log.kinds[row]) for row in range(first, len(log))]
    return Measured(
        waiting=len(simulation.state.queue),
        starts=kinds.count(START),
        preemptions=kinds.count(PREEMPT),
        renewals=kinds.count(RENEW),
        timers=kinds.count(TIMER),
        event_us=cpu_s / EVENTS[kind] * 1e6,
    )


def measured(kind: str, jobs: int) -> Measured:
    """The same in processes of their own, the fastest of a few."""
    runs = []
    for _ in range(ROUNDS):
        command = [sys.executable, "-m", "benchmarks.waiting", kind, str(jobs)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        runs.append(Measured(**json.loads(done.stdout)))
    return min(runs, key=lambda run: run.event_us)


def compare(kind: str) -> bool:
    """Print the figures of one workload; whether they stay within the limit."""
    print(f"{kind}: CPU of {EVENTS[kind]:,} events")
    print(
        f"  {'jobs':>8} {'waiting':>8} {'starts':>7} {'preempted':>9} {'renewed':>8} {'timers':>7} {'µs/event':>9}"
    )
    costs: list[float] = []
    for jobs in LENGTHS:
        run = measured(kind, jobs)
        costs.append(run.event_us)
        counts = f"{run.starts:7,} {run.preemptions:9,} {run.renewals:8,} {run.timers:7,}"
        print(f"  {jobs:8,} {run.waiting:8,} {counts} {run.event_us:9.1f}")
    ratio = costs[2] / costs[1]
    verdict = "ok" if ratio <= LIMIT else "TOO MUCH"
    print(f"  10,000 ÷ 1,000: {costs[1] / costs[0]:.2f}")
    print(f"  100,000 ÷ 10,000: {ratio:.2f} (at most {LIMIT:g}) {verdict}")
    return ratio <= LIMIT


def main() -> None:
    """Measure every length and compare."""
    if not is_compiled():
        sys.exit("not compiled; run `make install` first and unset PYTHONPATH")
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1], int(sys.argv[2])).__dict__))
        return
    failures = [kind for kind in EVENTS if not compare(kind)]
    if failures:
        sys.exit(f"past the limit: {', '.join(failures)}")


if __name__ == "__main__":
    main()
