"""What jobs that say how long they take are worth to `dally`: mean JCT, p99 and makespan with and without.

usage: python -m benchmarks.progress_reports [--cells venus80,…] [--seeds 1,2,3] [--only NAME,…] [--out FILE]
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

from benchmarks.own_process import in_own_process
from dally.benchmark.cells import Cell, cells, prepare
from dally.benchmark.tables_page import shared_folder
from dally.runs.execute import execute

CASES: Final = {
    "none": "",
    "half": "share=0.5,after=300,noise=0.1",
    "80 %": "share=0.8,after=300,noise=0.1",
    "all": "share=1,after=300,noise=0.1",
    "all, noise 50 %": "share=1,after=300,noise=0.5",
    "all lie": "share=1,after=300,noise=0.1,wrong=1,factor=5",
}
FIELDS: Final = ("jct_mean_s", "jct_p99_s", "makespan_s", "cpu_s", "preemptions")


def measured(cell: Cell, progress: str) -> dict[str, Any]:
    """The figures of a run."""
    with tempfile.TemporaryDirectory() as folder:
        prepared = prepare(cell.workload, cell.seed, shared_folder(), Path(folder))
        scenario = replace(cell.scenario(prepared, "dally", {}), job_progress=progress)
        summary = execute(scenario).summary
    return {name: summary[name] for name in FIELDS}


def rows(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for every cell and case, as they come."""
    seeds = [int(seed) for seed in arguments.seeds.split(",")]
    for cell in cells(arguments.cells.split(","), ["congested"], seeds):
        for name in arguments.only.split(";"):
            yield {"cell": cell.workload, "seed": cell.seed, "case": name} | in_own_process(
                partial(measured, cell, CASES[name])
            )


def main() -> None:
    """Run them, print a line for each, and means over the seeds at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cells", default="venus80,itp72,batch32,lingjun")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--only", default=";".join(CASES), help="cases, with ; between them")
    parser.add_argument("--out", type=Path, help="add a JSON line for each run to this file")
    arguments = parser.parse_args()
    by_case: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows(arguments):
        by_case[row["cell"], row["case"]].append(row)
        print(json.dumps(row), file=sys.stderr, flush=True)
        if arguments.out:
            with arguments.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
    print("| cell | case | mean JCT, h | p99, h | makespan, h | seeds |\n|---|---|---|---|---|---|")
    for (cell, case), every in by_case.items():
        mean = {name: sum(row[name] for row in every) / len(every) / 3600.0 for name in FIELDS}
        figures = f"{mean['jct_mean_s']:.2f} | {mean['jct_p99_s']:.0f} | {mean['makespan_s']:.1f}"
        print(f"| {cell} | {case} | {figures} | {len(every)} |")


if __name__ == "__main__":
    main()
