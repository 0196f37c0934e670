"""The nightly trial over a month of drifting work: what it chose, beside what it could have left as it was.

usage: python -m benchmarks.nights [--nights 30] [--seeds 1,2,3]

Work changes every ten days: jobs of like durations, then a heavy tail, then like durations again. The cluster
runs the champion; every night the trial judges the candidates on the jobs of the last days, and a promoted one
takes over the running cluster. Every hour it is seen whether the work has changed since. Exits with 1 if a month is
more than 1 % worse than under the policy in use at first, not better than what the first night would have chosen
for good, or if the planted bad candidate was ever the champion.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

from dally.learning.nightly import DAY_S, TrialRules, evidence_of, judge_night
from dally.learning.replaying import Replays
from dally.learning.trial_record import TrialRecord
from dally.model import Job
from dally.policies.choices.model_file import model_text
from dally.policies.choices.order_choices import COLUMNS
from dally.policies.registry import build
from dally.runs.scenario import Scenario
from dally.sweep.policy_list import Chosen, read_policies

FIRST: Final = "fifo-backfill:tier=closest"
CANDIDATES: Final = f"{FIRST},las:lease_s=600,tier=closest"
BAD: Final = "learned"  # planted: a model that lets all others wait while a job runs
GPUS: Final = 32
GPUS_A_JOB: Final = 2.6  # on average
HEAVY_S: Final = 3916.0  # the mean of durations with a heavy tail, cut at a day
LOAD: Final = 0.75
HEAVY_LOAD: Final = 0.95
HOUR_S: Final = 3600.0
RULES: Final = TrialRules(days=3, held_out=1)  # work changes fast here


class Month(NamedTuple):
    """What a month came to."""

    record: TrialRecord
    champions: list[str]  # by night
    actual_s: float  # mean JCT with the trial
    fixed_s: dict[str, float]  # under each candidate from the first day to the last


def drifting_jobs(path: Path, nights: int, seed: int) -> None:
    """Jobs of like durations at 75 % of the GPUs, or with a heavy tail at 95 %, ten days each."""
    drawn = random.Random(seed)
    now = 0.0
    lines = ["job_id,submit_s,gpus,duration_s"]
    while now < nights * DAY_S:
        heavy = int(now / DAY_S) // 10 % 2 == 1
        gpus = drawn.choices((1, 2, 4, 8), (4, 3, 2, 1))[0]
        duration_s = min(drawn.lognormvariate(6.5, 2.0), DAY_S) if heavy else drawn.uniform(6600.0, 7800.0)
        work = GPUS_A_JOB * (HEAVY_S if heavy else 7200.0)
        now += drawn.expovariate((HEAVY_LOAD if heavy else LOAD) * GPUS / work)
        lines.append(f"j{len(lines)},{now:.3f},{gpus},{duration_s:.3f}")
    path.write_text("\n".join(lines) + "\n")


def bad_model(path: Path) -> Chosen:
    """A policy that runs well and schedules badly."""
    weights = [1.0 if name == "decline" else 0.0 for name in COLUMNS]
    path.write_text(model_text("order", {}, [([weights], [0.0])], {"planted": True}))
    return Chosen(BAD, {"model": str(path)})


def month(nights: int, seed: int, rules: TrialRules = RULES) -> Month:
    """The month with the trial, and under each candidate alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "month.csv"
        drifting_jobs(path, nights, seed)
        replays = Replays(Scenario(str(path), "2x2x8", "fifo", restart_per_gpu_s=5.0))
        chosen = {one.label(): one for one in read_policies([CANDIDATES])}
        chosen[BAD] = bad_model(Path(folder) / "bad.json")
        return _month(nights, replays, chosen, rules)


def _month(nights: int, replays: Replays, chosen: dict[str, Chosen], rules: TrialRules) -> Month:
    record = TrialRecord(FIRST)
    simulation = replays.simulation(replays.jobs, chosen[FIRST])
    by_label = {one.label(): one for one in chosen.values()}
    champions = []
    for hour in range(1, 24 * (nights - 1) + 1):
        now_s = hour * HOUR_S
        simulation.go_on(now_s)
        before = record.champion
        if record.has_drifted(simulation.jobs, now_s):
            record.go_home(now_s, True)
        if hour % 24 == 0:
            champion = by_label[record.champion]
            verdict = judge_night(
                simulation.jobs, now_s, champion, list(chosen.values()), replays, rules, home=FIRST,
                before=record.streak(),
            )  # fmt: skip
            record.add(now_s, verdict, True, evidence_of(simulation.jobs, now_s, rules))
            champions.append(by_label[record.champion].name if BAD in record.champion else record.champion)
        if record.champion != before:
            one = by_label[record.champion]
            simulation.change_policy(build(one.name, one.settings))
    simulation.run()
    fixed = {}
    for label, one in chosen.items():
        if label == BAD:
            continue
        alone = replays.simulation(replays.jobs, one)
        alone.run()
        fixed[label] = _mean_of(alone.jobs)
    return Month(record, champions, _mean_of(simulation.jobs), fixed)


def _mean_of(jobs: list[Job]) -> float:
    return sum(job.finish_s - job.submit_s for job in jobs) / len(jobs)


def first_choice(result: Month) -> str:
    """What the first night with enough jobs, and no later one, would have chosen for good."""
    first = next(night for night in result.record.nights if night["challenger"])
    return str(first["challenger"] if first["promoted"] else first["champion"])


def problems(result: Month) -> list[str]:
    """What of the promises is broken."""
    found = []
    if result.actual_s > 1.01 * result.fixed_s[FIRST]:
        found.append("the month is more than 1 % worse than under the first policy")
    if result.actual_s >= result.fixed_s.get(first_choice(result), float("inf")):
        found.append("the month is not better than under the choice of the first night")
    if BAD in result.champions:
        found.append("the planted bad candidate became champion")
    return found


def say(seed: int, result: Month, verbose: bool) -> None:
    """Print a month: its changes, or every verdict."""
    for night in result.record.nights:
        changed = f" -> {night['challenger']}" if night["applied"] else ""
        if verbose or changed:
            print(f"  day {night['now_s'] / DAY_S:5.2f}  {night['champion']}{changed}  ({night['why']})")
    against = ", ".join(
        f"{result.actual_s / mean_s - 1.0:+.1%} against {label} alone" for label, mean_s in result.fixed_s.items()
    )
    print(f"seed {seed}: mean JCT {result.actual_s / 3600:.3f} h; {against}", flush=True)


def main() -> None:
    """Print the months."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--seeds", default="1", help="such as 1,2,3")
    parser.add_argument("--verbose", action="store_true", help="every verdict, not only changes")
    given = parser.parse_args()
    broken = []
    for seed in map(int, given.seeds.split(",")):
        result = month(given.nights, seed)
        say(seed, result, given.verbose)
        broken += [f"seed {seed}: {problem}" for problem in problems(result)]
    if broken:
        sys.exit("\n".join(broken))


if __name__ == "__main__":
    main()
