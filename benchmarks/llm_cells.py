"""Large models on their fabrics: policies and rivals, and what the alignment of ranks is worth.

`python -m benchmarks.llm_cells` runs the cells `llm-pod` and `nvl72` under each policy and seed: mean and p99 JCT
as means over seeds, exposed communication, and each against the best. Then policies once more with ranks along
machines in their order, and in an order that knows nothing of the fabric. Held out are `--seeds 11 12 13` and other
loads: `--load 0.7` and `--load 1.2` move the same jobs' arrivals apart and together.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.held_out_loads import Source, loaded
from dally.benchmark.cells import FABRIC_WORKLOADS, cells, prepare
from dally.benchmark.tables_page import shared_folder
from dally.cluster.links import ALIGNED, BY_MACHINE, SHUFFLED
from dally.runs.execute import execute

POLICIES = (
    "dally", "monkeytree", "arnold", "fifo-backfill", "easy-backfill", "kueue-preferred",
    "kueue-preferred:tier=2", "tiresias", "tiresias:tier=closest", "tiresias-gittins:tier=closest", "gandiva",
    "themis:tier=closest", "a-srpt", "easy-backfill:predictor=history", "arnold:predictor=history",
    "dally:objective=p99",
)  # fmt: skip
UNALIGNED = ("dally", "arnold", "fifo-backfill")
HOUR_S = 3600.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables, or rows as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.llm_cells", description=__doc__)
    parser.add_argument("--cells", nargs="+", default=list(FABRIC_WORKLOADS))
    parser.add_argument("--policies", nargs="+", default=list(POLICIES), metavar="NAME[:KEY=VALUE]")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument(
        "--load", type=float, default=0.0, help="share of the GPUs that jobs ask for; 0: as in the cell"
    )
    parser.add_argument("--unaligned", nargs="*", default=list(UNALIGNED), metavar="NAME")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in options.cells:
            aligned = [(policy, ALIGNED) for policy in options.policies]
            others = [(policy, ranks) for policy in options.unaligned for ranks in (BY_MACHINE, SHUFFLED)]
            for policy, ranks in aligned + others:
                setting = (name, policy, ranks, Path(folder), options.load)
                here = [run(seed, *setting) for seed in options.seeds]
                rows.append(mean_row(here))
                print(shown(rows[-1]), file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps(rows, indent=2))
        return
    for name in options.cells:
        print_cell(name, [row for row in rows if row["cell"] == name])


def run(seed: int, cell_name: str, policy: str, ranks: str, folder: Path, load: float) -> dict[str, Any]:
    """The figures of one run; `load`: share of the GPUs that its jobs ask for, 0 as in the cell."""
    name, _, setting = policy.partition(":")
    key, _, value = setting.partition("=")
    [cell] = cells([cell_name], [], [seed])
    ready = prepare(cell_name, seed, shared_folder(), folder)
    if load:
        changed = loaded(load)(Source(shared_folder(), folder), cell_name, seed)
        assert changed is not None
        ready = changed
    scenario = cell.scenario(ready, name, {key: value} if key else {})
    if ranks != ALIGNED:
        scenario = replace(scenario, network_settings={"ranks": ranks})
    summary = execute(scenario).summary
    return {"cell": cell_name, "policy": policy, "ranks": ranks, "seed": seed, **summary}


FIGURES = (
    "jct_mean_s", "jct_p50_s", "jct_p99_s", "queue_mean_s", "makespan_s", "comm_gpu_s", "preemptions", "migrations",
    "unfinished", "cpu_s",
)  # fmt: skip


def mean_row(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The mean over seeds of each figure."""
    for row in rows:
        row["unfinished"] = row["jobs"] - row["finished"]
    means = {key: sum(row[key] for row in rows) / len(rows) for key in FIGURES}
    each = {f"{key}_by_seed": [row[key] for row in rows] for key in ("jct_mean_s", "jct_p99_s")}
    return {**{key: rows[0][key] for key in ("cell", "policy", "ranks")}, **means, **each}


def print_cell(name: str, rows: list[dict[str, Any]]) -> None:
    """A cell's table; excess over the best of the aligned rows."""
    aligned = [row for row in rows if row["ranks"] == ALIGNED and not row["unfinished"]]
    least = {key: min(row[key] for row in aligned) for key in ("jct_mean_s", "jct_p99_s")}
    print(f"\n{name}: {FABRIC_WORKLOADS[name].about}")
    print(f"{'policy':<32}{'mean JCT, h':>12}{'':>8}{'p99, h':>9}{'':>8}{'median, h':>11}{'comm, GPU-h':>13}")
    for row in rows:
        excess = [row[key] / least[key] - 1.0 for key in ("jct_mean_s", "jct_p99_s")]
        label = row["policy"] + ("" if row["ranks"] == ALIGNED else f", {row['ranks']}")
        print(
            f"{label:<32}{row['jct_mean_s'] / HOUR_S:>12.2f}{excess[0]:>+8.1%}{row['jct_p99_s'] / HOUR_S:>9.1f}"
            f"{excess[1]:>+8.1%}{row['jct_p50_s'] / HOUR_S:>11.3f}{row['comm_gpu_s'] / HOUR_S:>13,.0f}"
            + (f"  {row['unfinished']:g} jobs did not finish" if row["unfinished"] else "")
        )


def shown(row: dict[str, Any]) -> str:
    """One line of progress."""
    label = row["policy"] + ("" if row["ranks"] == ALIGNED else f", {row['ranks']}")
    figures = f"mean {row['jct_mean_s']:.0f} s, p99 {row['jct_p99_s']:.0f} s, {row['cpu_s']:.1f} s CPU"
    return f"{row['cell']} {label}: {figures}"


if __name__ == "__main__":
    main()
