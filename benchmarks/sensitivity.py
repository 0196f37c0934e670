"""What it costs `dally` not to know what jobs train: mean JCT of jobs that come after two days of learning.

usage: python -m benchmarks.sensitivity [--cells venus80,…] [--networks slow,congested] [--seeds 1,2,3] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import polars as pl

from benchmarks.own_process import in_own_process
from dally.benchmark.cells import DAY_S, Cell, cells, prepare
from dally.benchmark.tables_page import shared_folder
from dally.runs.execute import execute

CASES: Final = ("known", "hidden", "resnet50")
WARM_UP_S: Final = 2.0 * DAY_S


def figures(cell: Cell, sensitivity: str) -> dict[str, Any]:
    """Mean JCT in seconds, of all jobs and of those that came after the warm-up, and what the run did."""
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare(cell.workload, cell.seed, shared_folder(), Path(folder))
        record = execute(replace(cell.scenario(prepared, "dally", {}), sensitivity=sensitivity))
    jobs = record.jobs.sort("submit_s")
    later = jobs.filter(pl.col("submit_s") >= jobs["submit_s"][0] + WARM_UP_S)
    return {
        "jobs_later": len(later),
        "later_s": (later["finish_s"] - later["submit_s"]).mean() or 0.0,
        **{name: record.summary[name] for name in ("jct_mean_s", "jct_p99_s", "makespan_s", "migrations", "cpu_s")},
    }


def rows(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for every cell and case, as they come."""
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    for cell in cells(arguments.cells.split(","), arguments.networks.split(","), seeds):
        for case in arguments.only.split(","):
            yield cell._asdict() | {"case": case} | in_own_process(partial(figures, cell, case))


def main() -> None:
    """Run them, print a line for each, and means over the seeds at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", default="venus80,itp72,lingjun")
    parser.add_argument("--networks", default="slow,congested")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--only", default=",".join(CASES), help="cases: known, hidden or a model's name")
    parser.add_argument("--out", type=Path, help="add a JSON line for each run to this file")
    arguments = parser.parse_args()
    by_case: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows(arguments):
        by_case[row["workload"], row["network"]][row["case"]].append(row["later_s"])
        print(json.dumps(row), file=sys.stderr, flush=True)
        if arguments.out:
            with arguments.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    print("| cell | network | case | mean JCT, h | against known | seeds |\n|---|---|---|---|---|---|")
    for (workload, network), cases in by_case.items():
        base = sum(cases["known"]) / len(cases["known"]) if cases["known"] else 0.0
        for case, values in cases.items():
            mean = sum(values) / len(values)
            against = f"{100.0 * (mean / base - 1.0):+.1f} %" if base > 0.0 else "–"
            print(f"| {workload} | {network} | {case} | {mean / 3600.0:.2f} | {against} | {len(values)} |")


if __name__ == "__main__":
    main()
