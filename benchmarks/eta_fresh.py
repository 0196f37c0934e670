"""How often the first estimates of a daemon that knows nothing hold, on a cluster of short jobs.

usage: python -m benchmarks.eta_fresh [SEEDS]

Users submit bursts of like jobs that last seconds to minutes; the daemon is asked about each as it comes, which is
the first answer about that job, and learns only from what has happened by then. Scored are these first answers.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from random import Random

from benchmarks.eta import holds, raw_of, told
from benchmarks.eta_replay import Asked, Replay
from dally.live.forecast.conformal import FEWEST
from dally.live.forecast.estimator import Effort
from dally.model import INFINITY
from dally.runs.assemble import assemble
from dally.runs.scenario import Scenario

JOBS = 240
USUAL_S = (5.0, 20.0, 60.0, 240.0)  # of the jobs of a burst, drawn once for each burst
LARGEST = 4  # bursts have jobs of 1, 2 or 4 GPUs


def trace(path: Path, seed: int) -> str:
    """Bursts of 5 to 30 like jobs, one user after the other, on 16 GPUs."""
    draw = Random(seed)
    lines = ["job_id,submit_s,gpus,duration_s,user"]
    at_s = 0.0
    while len(lines) <= JOBS:
        usual_s, gpus, user = draw.choice(USUAL_S), draw.choice((1, 2, LARGEST)), draw.randint(1, 6)
        count = draw.randint(5, 30)
        for _ in range(count):
            duration_s = usual_s * draw.lognormvariate(0.0, 0.5)
            lines.append(f"j{len(lines)},{at_s:.1f},{gpus},{duration_s:.1f},u{user}")
            at_s += draw.uniform(0.2, 2.0)
        at_s += count * usual_s * gpus / 16.0 * draw.uniform(0.3, 1.5)
    path.write_text("\n".join(lines[: JOBS + 1]) + "\n")
    return str(path)


def first_answers(policy: str, seed: int) -> list[Asked]:
    """A question for each job that has to wait, asked as it comes."""
    with tempfile.TemporaryDirectory() as folder:
        scenario = Scenario(trace(Path(folder) / "short.csv", seed), "1x2x8", policy, {})
        simulation, _ = assemble(scenario)
    run = Replay(simulation)
    effort = Effort(most=20, cpu_s=INFINITY)
    rows: list[Asked] = []
    asked: set[int] = set()
    while run.pending() or (len(asked) < JOBS and simulation.now < INFINITY):
        began = run.step()
        for job in began:
            if int(job.index) not in asked:
                run.ask([job], job, effort)
        asked |= {int(job.index) for job in simulation.jobs if job.submit_s <= simulation.now}
        rows += run.answered()
    return sorted(rows, key=lambda one: (one.asked_s, one.job))


def main(arguments: list[str]) -> None:
    seeds = range(1, int(arguments[0] if arguments else "3") + 1)
    print(f"| policy | first answers | held | held, raw | the first {FEWEST} held | open |")
    print("|---|---|---|---|---|---|")
    for policy in ("dally", "fifo-backfill"):
        hits: list[tuple[bool, bool, bool, bool]] = []
        for seed in seeds:
            rows = first_answers(policy, seed)
            for place, (one, interval) in enumerate(zip(rows, told(rows), strict=True)):
                hits.append(
                    (holds(interval, one), holds(raw_of(one), one), place < FEWEST, interval.high_s == INFINITY)
                )
        early = [hit for hit, _, first, _ in hits if first]
        cells = [sum(column) / len(hits) for column in list(zip(*hits, strict=True))[:2]]
        left_open = sum(open_ended for *_, open_ended in hits) / len(hits)
        print(
            f"| {policy} | {len(hits)} | {cells[0]:.0%} | {cells[1]:.0%} | {sum(early) / len(early):.0%} "
            f"| {left_open:.0%} |",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])
