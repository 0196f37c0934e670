"""How often estimated starts hold on a replayed week of Venus, and what an estimate costs while 2,000 jobs wait.

usage: python -m benchmarks.eta [FOLDER [POLICY[+reports] ...]]   (compiled: `make install` first, no PYTHONPATH)

FOLDER (default artifacts/eta) keeps what was asked and what came, one file a policy: those that are there are not
asked again. Policies: dally and fifo-backfill, unless others are named; with +reports, 80 % of the jobs say after 5
minutes how long they take, with 10 % noise. Days 5 to 14 of the trace are asked about;
the first two of them only teach how well answers hold. CPU: about three minutes a policy.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import median

from benchmarks.eta_replay import Asked, replay
from benchmarks.standing_queue import RAMP_S, write_trace
from dally import is_compiled
from dally.benchmark.cells import DAY_S
from dally.benchmark.tables_page import shared_folder
from dally.live.forecast.conformal import Interval, Margins, Observation
from dally.live.forecast.estimator import HORIZON_S, Effort, Estimator, cpu_s
from dally.live.forecast.future import dump_present, quantile
from dally.live.forecast.lifetimes import past_of
from dally.model import FINISHED, INFINITY, NEVER
from dally.runs.assemble import assemble
from dally.runs.scenario import Scenario

EVERY = {"dally": 8, "fifo-backfill": 16}  # jobs that begin to wait between two questions
FUTURES = 40
REPORTS = "share=0.8,after=300,noise=0.1"
LEARN_S = 2 * DAY_S  # of questions that are not scored


def asked_and_answered(policy: str, folder: Path) -> list[Asked]:
    """The questions in the order in which they were asked, from the folder if they are there."""
    path = folder / f"{policy}.jsonl"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        effort = Effort(most=FUTURES, cpu_s=INFINITY)
        name, _, reports = policy.partition("+")
        progress = REPORTS if reports else ""
        with tempfile.TemporaryDirectory() as cells, path.with_suffix(".part").open("w") as file:
            for one in replay(name, shared_folder(), Path(cells), EVERY.get(name, 8), effort, progress):
                file.write(json.dumps(asdict(one)) + "\n")
                file.flush()
        path.with_suffix(".part").rename(path)
    rows = [Asked(**json.loads(line)) for line in path.read_text().splitlines()]
    return sorted(rows, key=lambda one: (one.asked_s, one.job))


def raw_of(one: Asked) -> Interval:
    """The futures' own interval."""
    low_s, middle_s, high_s = (quantile(one.starts_s, share) for share in (0.1, 0.5, 0.9))
    return Interval(min(low_s, HORIZON_S), middle_s, high_s)  # as `raw_interval` has it


def told(rows: list[Asked]) -> list[Interval]:
    """What each was told, knowing no more than what had come by then."""
    margins = Margins()
    by_start = sorted(range(len(rows)), key=lambda place: rows[place].asked_s + rows[place].wait_s)
    known = 0
    found: list[Interval] = []
    for place, one in enumerate(rows):
        while (came := rows[by_start[known]]).asked_s + came.wait_s <= one.asked_s:
            margins.learn(Observation(raw_of(came), came.wait_s, found[by_start[known]], came.asked_s))
            known += 1
        waiting = [other for other in rows[:place] if other.asked_s + other.wait_s > one.asked_s]
        overdue = [Observation(raw_of(other), one.asked_s - other.asked_s) for other in waiting]
        found.append(margins.interval(raw_of(one), overdue))
    return found


def holds(interval: Interval, one: Asked) -> bool:
    return interval.low_s - 1e-6 <= one.wait_s <= interval.high_s + 1e-6


def table(rows: list[Asked]) -> list[str]:
    """Day by day, and all of them."""
    intervals = told(rows)
    begin_s = rows[0].asked_s
    by_day: dict[str, list[int]] = {}
    for place, one in enumerate(rows):
        day = int((one.asked_s - begin_s) // DAY_S) - int(LEARN_S // DAY_S) + 1
        if day >= 1:
            by_day.setdefault(str(day), []).append(place)
    by_day["week"] = [place for places in list(by_day.values()) for place in places]
    lines = [
        "| day | questions | held | held, raw | median wait | error | Slurm's plan | mean wait | open |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, places in by_day.items():
        these = [(rows[place], intervals[place]) for place in places]
        errors = (
            median(one.wait_s for one, _ in these),
            median(abs(one.wait_s - min(interval.middle_s, 30 * DAY_S)) for one, interval in these),
            median(abs(one.wait_s - one.slurm_s) for one, _ in these),
            median(abs(one.wait_s - one.mean_s) for one, _ in these),
        )
        held = sum(holds(interval, one) for one, interval in these) / len(these)
        raw = sum(holds(raw_of(one), one) for one, _ in these) / len(these)
        left_open = sum(interval.high_s == INFINITY for _, interval in these) / len(these)
        cells = [name, str(len(these)), f"{held:.0%}", f"{raw:.0%}", *(in_minutes(error) for error in errors)]
        lines.append(f"| {' | '.join([*cells, f'{left_open:.0%}'])} |")
    return lines


def in_minutes(seconds: float) -> str:
    return f"{seconds / 60.0:.1f} min"


def crowded(policy: str) -> list[str]:
    """What an estimate costs while more than 2,000 jobs wait for 1,024 GPUs."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "standing.csv"
        write_trace(trace, 1024, 2000, 1000)
        simulation, _ = assemble(Scenario(str(trace), "16x8x8", policy, {}, network="normal", mix="benchmark"))
    simulation.go_on(RAMP_S + 1800.0)
    state, now = simulation.state, simulation.now
    estimator = Estimator(copies=True)
    came = [job for job in simulation.jobs if job.submit_s <= now]
    estimator.learn([past_of(job, job.duration_s if job.status == FINISHED else NEVER) for job in came], now)
    waiting = list(state.queue)
    lines = []
    for what, asked in (("the job in the middle", waiting[len(waiting) // 2 :][:1]), ("all of them", waiting)):
        began_s = cpu_s()
        live = [*waiting, *state.cluster.running.values()]
        content = dump_present(state, live, now, len(simulation.jobs), secret=True)
        fates = estimator.fates(content, [int(job.index) for job in asked], Effort()).values()
        spent_s = cpu_s() - began_s
        futures = next(iter(fates)).futures()
        seen = sum(len(one.started) for one in fates) / sum(one.futures() for one in fates)
        lines.append(f"| {policy} | {len(waiting)} | {what} | {futures} | {seen:.0%} | {spent_s:.2f} s |")
    return lines


def main(arguments: list[str]) -> None:
    assert is_compiled(), "times are of the compiled engine"
    folder = Path(arguments[0] if arguments else "artifacts/eta")
    policies = arguments[1:] or list(EVERY)
    for policy in policies:
        print(f"\n### `{policy}`\n")
        print("\n".join(table(asked_and_answered(policy, folder))), flush=True)
    print("\n| policy | waiting | asked about | futures | starts seen | CPU |\n|---|---|---|---|---|---|")
    for policy in policies:
        if "+" not in policy:  # what jobs report does not change the cost
            print("\n".join(crowded(policy)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
