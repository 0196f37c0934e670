"""How well the time that jobs have left is estimated: replayed step times with pauses, moves and early ends.

usage: python -m benchmarks.progress_remaining [--jobs 2000] [--seed 1] [--steps FILE]

Step times are those of ../shared/reference/straggler_steps.csv, in blocks of consecutive steps around their job's
mean; without the file, drawn with a spread of 5 %. Everything else is drawn by seed: a slow start after each
placement, evaluation every so many steps, stalls, moves to places of another speed, of which the speed model is off
by up to 5 %, steps lost since the latest checkpoint, and jobs that stop early. The truth is what the rest takes at
the present place. Each estimate is made from what was known then; jobs come one after the other, and intervals
learn from those that ended before.
"""

from __future__ import annotations

import argparse
import csv
import random
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from dally.progress.line_progress import LineProgress
from dally.progress.step_times import StepTimes
from dally.progress.time_left import Left, RemainingTime

ASKED: Final = (0.05, 0.1, 0.25, 0.5, 0.75)  # shares of the steps after which the time left is estimated
LINES: Final = 400  # that a job prints


class Made(NamedTuple):
    """A job: seconds of every step at the best place, evaluation included, and where it was when."""

    steps_s: list[float]
    total: int  # as it prints it
    moves: dict[int, tuple[float, float, int]]  # by step: true and modelled slowdown, steps lost


def ratios(path: Path) -> list[list[float]]:
    """Step times ÷ their mean, by job."""
    if not path.exists():
        return []
    rows: dict[str, list[float]] = defaultdict(list)
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            rows[row["job"]].append(float(row["step_s"]))
    return [[value / (sum(values) / len(values)) for value in values] for values in rows.values()]


def made(draw: random.Random, real: list[list[float]]) -> Made:
    """A job drawn at random."""
    total = int(10 ** draw.uniform(2.3, 4.0))
    base_s = 10 ** draw.uniform(-1.0, 1.3)
    steps = total if draw.random() < 0.95 else int(total * draw.uniform(0.3, 1.0))
    values: list[float] = []
    while len(values) < steps:
        if real:
            source = draw.choice(real)
            at = draw.randrange(len(source))
            values += source[at : at + draw.randint(3, 20)]
        else:
            values.append(max(0.5, draw.gauss(1.0, 0.05)))
    steps_s = [base_s * value for value in values[:steps]]
    if draw.random() < 0.6:  # evaluation
        every = max(5, int(total / draw.choice((10, 20, 50, 100))))
        for step in range(every - 1, steps, every):
            steps_s[step] += base_s * every * draw.uniform(0.01, 0.04)
    for _ in range(draw.choice((0, 0, 0, 1, 2))):  # stalls
        steps_s[draw.randrange(steps)] += base_s * total * draw.uniform(0.001, 0.01)
    moves: dict[int, tuple[float, float, int]] = {0: (1.0, 1.0, 0)}
    for _ in range(draw.choice((0, 0, 1, 2, 3))):
        slowdown = draw.choice((1.0, 1.0, draw.uniform(1.0, 2.5)))
        at = draw.randrange(1, steps)
        moves[at] = (slowdown, slowdown * draw.uniform(0.95, 1.05), min(at, int(draw.uniform(0.0, 0.02) * total)))
    return Made(steps_s, total, moves)


class Asked(NamedTuple):
    """An estimate and what then happened."""

    share: float
    raw_s: float
    left: Left
    true_s: float


def run(job: Made, estimator: RemainingTime, draw: random.Random) -> list[Asked]:
    """The job from its first step to its last, and what was estimated on its way."""
    course, result = StepTimes(), []
    every = max(1, job.total // LINES)
    due = list(ASKED)
    worked_s, slowdown, step, warm = 0.0, 1.0, 0, 0
    moves = dict(job.moves)
    while step < len(job.steps_s):
        if step in moves:
            slowdown, modelled, lost = moves.pop(step)
            course.moved(modelled)
            worked_s, warm, step = 0.0, draw.randint(2, 12), step - lost
        seconds = job.steps_s[step] * slowdown
        if warm > 0:
            seconds *= 1.0 + draw.uniform(0.2, 2.0)
            warm -= 1
        worked_s += seconds
        step += 1
        if step % every == 0:
            course.observe(worked_s, LineProgress(step, job.total))
        if due and step >= due[0] * job.total:
            share = due.pop(0)
            left, raw_s = estimator.left(course), estimator.raw_s(course)
            if left is not None and raw_s is not None:
                result.append(Asked(share, raw_s, left, slowdown * sum(job.steps_s[step:])))
    return result


def main() -> None:
    """Print median errors and coverage by share of the steps done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    shared = Path(__file__).parents[2] / "shared" / "reference" / "straggler_steps.csv"
    parser.add_argument("--steps", type=Path, default=shared)
    arguments = parser.parse_args()
    draw, real, estimator = random.Random(arguments.seed), ratios(arguments.steps), RemainingTime()
    every: list[Asked] = []
    for _ in range(arguments.jobs):
        answers = run(made(draw, real), estimator, draw)
        for row in answers:
            estimator.learn(row.share, row.raw_s, row.left, row.true_s)
        every += answers
    print(f"{arguments.jobs} jobs, step times of {len(real)} real jobs")
    print("| steps done | median error | 90 % of errors below | intervals that hold | median high ÷ low |")
    print("|---|---|---|---|---|")
    for share in ASKED:
        rows = [row for row in every if row.share == share and row.true_s > 0.0]
        errors = sorted(abs(row.left.middle_s / row.true_s - 1.0) for row in rows)
        held = sum(row.left.low_s <= row.true_s <= row.left.high_s for row in rows) / len(rows)
        wide = median(row.left.high_s / row.left.low_s for row in rows)
        most = errors[int(0.9 * len(errors))]
        print(f"| {share:.0%} | {median(errors):.1%} | {most:.0%} | {held:.1%} | {wide:.2f} |")
    held = sum(row.left.low_s <= row.true_s <= row.left.high_s for row in every) / len(every)
    print(f"all: intervals hold {held:.1%}")


if __name__ == "__main__":
    main()
