"""Learned policies against every heuristic that earlier jobs would have chosen, on held-out jobs.

usage: python -m benchmarks.leaderboard --out DIR [--cells …] [--networks …] [--seeds 5] [--markdown FILE]

Each trace is cut in time into five windows of equally many jobs. Heuristics are chosen on the first four. Learned
policies train on the first three, choose their best update on the fourth, and all are judged on the fifth. Results
are stored in --out, and a cell that is there is not run again; --markdown writes the page of all that are there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from statistics import mean, stdev
from time import process_time
from typing import Any, Final, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy comes: its threads would wait for each other

from dally.benchmark.cells import MIX, prepare
from dally.benchmark.tables_page import shared_folder
from dally.gym.windows import TraceWindows
from dally.learning.collecting import CollectHere
from dally.learning.evaluation import outcome_of
from dally.learning.settings_search import DALLY_RANGES, search
from dally.learning.trainer import Trainer
from dally.learning.training_plan import TrainingPlan
from dally.report.text_table import TextCell, TextTable
from dally.runs.scenario import Scenario
from dally.sweep.policy_list import Chosen, read_policies
from dally.whole_file import write_whole

CELLS: Final = ("venus80", "itp72", "philly200", "lingjun")
HEURISTICS: Final = (
    "fifo,fifo-backfill:tier=closest,las:tier=closest,tiresias:tier=closest,tiresias-gittins:tier=closest,gavel,"
    "gandiva,themis:tier=closest,easy-backfill:tier=closest,slurm-switches,kueue-required,dally-paper,dally"
)
WINDOWS: Final = 5
T_95: Final = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}
LEARNED: Final[dict[str, dict[str, Any]]] = {
    "order": {"env": "OrderJobs-v0"},
    "preempting order": {"env": "OrderJobs-v0", "options": {"preempt": True}},
    "place": {"env": "PlaceJobs-v0"},
}
PACE: Final[dict[str, Any]] = {"iterations": 6, "episodes": 1, "validate_every": 2}  # a few seconds of CPU a seed
TUNED: Final = "dally, settings searched"
PAGE: Final = """# Learned policies on held-out jobs

Written by `python -m benchmarks.leaderboard --out DIR --markdown docs/learned-results.md`: run it again rather
than change the page. What is compared is on [Learned scheduling](learning.md#the-leaderboard).

{verdict}

{table}
PPO had {iterations} updates of {episodes} episode each, an episode being a fifth of the trace: a small training.

Mean JCT in hours of the last fifth of each trace's jobs, from an empty cluster. *Chosen* is the heuristic with the
lowest mean ratio on the four fifths before, *best* the one that came out best on the last. Changes are against
*chosen*: the mean over {seeds} training seeds, and its 95 % interval (of seeds, not of jobs). CPU time is that of
the training of all seeds of a policy in a cell.
"""


class Line(NamedTuple):
    """A learned policy in a cell."""

    cell: str
    policy: str
    change: float
    low: float
    high: float
    cpu_s: float


def run_cell(cell: str, network: str, seeds: int, names: list[str], out: Path) -> dict[str, Any]:
    """Every heuristic and every learned policy in one cell."""
    prepared = prepare(cell, 1, shared_folder(), out / "traces")
    scenario = Scenario(str(prepared.trace), prepared.cluster, "fifo", network=network, mix=MIX)
    whole = TraceWindows(scenario, 1, "all")
    jobs = whole.count // WINDOWS
    windows = TraceWindows(scenario, jobs, "all")
    times = {
        chosen.label(): [outcome_of(windows, number, chosen).mean_s for number in range(WINDOWS)]
        for chosen in read_policies([HEURISTICS])
    }
    learned: dict[str, list[dict[str, float]]] = {}
    for name in names:
        learned[name] = [
            _trained(scenario, jobs, LEARNED[name], seed, out) | {"seed": seed} for seed in range(1, seeds + 1)
        ]
        _say(f"{cell} {network} {name}: {[round(row['mean_s'] / 3600, 2) for row in learned[name]]} h")
    usual = times["dally"]
    learned[TUNED] = [_searched(windows, usual, seed) | {"seed": seed} for seed in range(1, seeds + 1)]
    _say(f"{cell} {network} {TUNED}: {[round(row['mean_s'] / 3600, 2) for row in learned[TUNED]]} h")
    return {"cell": cell, "network": network, "jobs": jobs, "heuristics": times, "learned": learned}


def _trained(scenario: Scenario, jobs: int, more: dict[str, Any], seed: int, out: Path) -> dict[str, float]:
    """A training by `dally train`'s own plan, and its policy on the last window."""
    plan = TrainingPlan(
        trace=scenario.trace, cluster=scenario.cluster, fields={"network": scenario.network, "mix": MIX},
        env=more["env"], options=more.get("options", {}), window_jobs=jobs, seed=seed, **PACE,
    )  # fmt: skip
    folder = (
        out / "models" / f"{Path(scenario.trace).stem}-{scenario.network}-{plan.env}-{len(plan.options)}-{seed}"
    )
    training = Trainer(plan, folder)
    training.run(CollectHere(plan))
    held_out = plan.make("test")
    model = Chosen("learned", {"model": str(folder / "policy.json")})
    return {"mean_s": outcome_of(held_out.windows, 0, model).mean_s, "cpu_s": training.cpu_s}


def _searched(windows: TraceWindows, usual: list[float], seed: int) -> dict[str, Any]:
    """The flagship with constants that the earlier windows choose, on the last window."""
    began_s = process_time()

    def ratio(chosen: Chosen, numbers: range) -> float:
        return mean(outcome_of(windows, number, chosen).mean_s / usual[number] for number in numbers)

    last = WINDOWS - 1
    earlier, validation = range(last - 1), range(last - 1, last)
    result = search(
        "dally", DALLY_RANGES, lambda one: ratio(one, earlier), lambda one: ratio(one, validation), seed, 2, 5
    )
    cpu_s = process_time() - began_s
    mean_s = outcome_of(windows, last, result.chosen).mean_s
    return {"mean_s": mean_s, "cpu_s": cpu_s, "settings": result.chosen.label()}


def chosen_of(result: dict[str, Any]) -> str:
    """The heuristic of the lowest mean ratio to the flagship on all windows but the last."""
    times = result["heuristics"]
    usual = times["dally"]
    return min(
        list(map(str, times)),
        key=lambda name: mean(times[name][place] / usual[place] for place in range(WINDOWS - 1)),
    )


def lines_of(result: dict[str, Any]) -> list[Line]:
    """Each learned policy's change against the chosen heuristic."""
    rival_s = result["heuristics"][chosen_of(result)][-1]
    lines = []
    for name, rows in result["learned"].items():
        changes = [row["mean_s"] / rival_s - 1.0 for row in rows]
        middle = mean(changes)
        reach = T_95[len(changes)] * stdev(changes) / len(changes) ** 0.5 if len(changes) > 1 else float("nan")
        cpu_s = sum(row["cpu_s"] for row in rows)
        lines.append(
            Line(f"{result['cell']} {result['network']}", name, middle, middle - reach, middle + reach, cpu_s)
        )
    return lines


def verdict(lines: list[Line]) -> str:
    """In how many cells what was wanted is reached, by learned policy; null results included."""
    texts = [
        "Wanted: at least 3 % below the mean JCT of the heuristic chosen on earlier jobs in a third of the cells, "
        "and more than 1 % above it in none.\n"
    ]
    for name in dict.fromkeys(line.policy for line in lines):
        rows = [line for line in lines if line.policy == name]
        won = sum(line.change <= -0.03 for line in rows)
        lost = sum(line.change > 0.01 for line in rows)
        even = len(rows) - won - lost
        reached = won * 3 >= len(rows) and lost == 0
        cost = sum(line.cpu_s for line in rows) / 3600.0
        texts.append(
            f"- {name}: {'reached' if reached else 'not reached'}. 3 % better in {won} of {len(rows)} cells, "
            f"more than 1 % worse in {lost}, neither in {even}. {cost:.3f} CPU hours of training in all."
        )
    return "\n".join(texts)


def page(results: list[dict[str, Any]]) -> str:
    """The page of all cells."""
    lines = [line for result in results for line in lines_of(result)]
    headings = ["cell", "chosen, h", "best, h", "learned", "against chosen", "95 % interval", "CPU, s"]
    rows = []
    for result in results:
        times = result["heuristics"]
        rival, best = chosen_of(result), min(times, key=lambda name: times[name][-1])
        for line in lines_of(result):
            texts = [
                line.cell, f"`{rival}` {times[rival][-1] / 3600:.2f}", f"`{best}` {times[best][-1] / 3600:.2f}",
                line.policy, f"{line.change:+.1%}", f"{line.low:+.1%} … {line.high:+.1%}", f"{line.cpu_s:.0f}",
            ]  # fmt: skip
            rows.append([TextCell(text) for text in texts])
    seeds = len(next(iter(results[0]["learned"].values())))
    return PAGE.format(verdict=verdict(lines), table=TextTable(headings, rows).markdown(), seeds=seeds, **PACE)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Run the cells that are missing, then print the page or write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cells", default=",".join(CELLS))
    parser.add_argument("--networks", default="congested", help="such as slow,congested")
    parser.add_argument("--learned", default="order,place", help=f"of {', '.join(LEARNED)}, beside {TUNED}")
    parser.add_argument("--seeds", type=int, default=5, choices=sorted(T_95))
    parser.add_argument("--markdown", type=Path)
    given = parser.parse_args()
    (given.out / "traces").mkdir(parents=True, exist_ok=True)
    names = [name for name in given.learned.split(",") if name]
    results = []
    for cell in given.cells.split(","):
        for network in given.networks.split(","):
            stored = given.out / f"{cell}-{network}.json"
            if not stored.exists():
                result = run_cell(cell, network, given.seeds, names, given.out)
                write_whole(stored, json.dumps(result).encode())
            results.append(json.loads(stored.read_text()))
    text = page(results)
    print(text)
    if given.markdown:
        write_whole(given.markdown, text.encode())


if __name__ == "__main__":
    main()
