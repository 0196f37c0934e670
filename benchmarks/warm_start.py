"""What history is worth: a batch of Venus, cold and with a table learnt from the long jobs that are not in it.

usage: python -m benchmarks.warm_start [--networks slow,congested] [--seeds 1,2,3] [--shared DIR]

Other jobs of the same weeks are learnt from, later ones too: what to expect on a cluster that has run for long, not
a replay of what could have been known that day.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import mean
from typing import Final

from dally.benchmark.cells import VENUS, Cell, prepare
from dally.benchmark.tables_page import shared_folder
from dally.cli.runs.batch import names, whole_numbers
from dally.policies.prediction.hazard import HazardTable
from dally.policies.prediction.learned import ended_jobs, learn, table_text
from dally.report.text_table import TextCell, TextTable
from dally.runs.execute import execute
from dally.traces import read_history

WORKLOAD: Final = "batch32"
LONG_S: Final = 1800.0  # as the batch is drawn from


def learnt(shared: Path, batch: Path, out: Path) -> Path:
    """A table of what the trace's long jobs tell that are not in the batch."""
    drawn = {row.job_id for row in read_history(batch).rows}
    history = read_history(shared / "traces" / VENUS, format="csv")
    table = HazardTable()
    learn(table, [job for job in ended_jobs(history) if job.duration_s >= LONG_S and job.job_id not in drawn])
    out.write_text(table_text(table), encoding="utf-8")
    return out


def mean_jct_ks(network: str, seed: int, shared: Path, folder: Path) -> tuple[float, float]:
    """Mean JCT in 1,000 s, cold and with history."""
    prepared = prepare(WORKLOAD, seed, shared, folder)
    table = learnt(shared, prepared.trace, folder / f"learnt-{seed}.json")
    cell = Cell(WORKLOAD, network, seed)
    runs = [execute(cell.scenario(prepared, "dally", given)) for given in ({}, {"learned": str(table)})]
    cold, warm = [run.summary["jct_mean_s"] / 1000.0 for run in runs]
    return cold, warm


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default="slow,congested")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--shared", type=Path)
    given = parser.parse_args()
    shared = given.shared or shared_folder()
    rows: list[list[TextCell]] = []
    with tempfile.TemporaryDirectory() as folder:
        for network in names(given.networks):
            found = {
                str(seed): mean_jct_ks(network, seed, shared, Path(folder))
                for seed in whole_numbers("--seeds", given.seeds)
            }
            found["mean"] = (mean(cold for cold, _ in found.values()), mean(warm for _, warm in found.values()))
            for seed, (cold, warm) in found.items():
                rows.append([TextCell(text) for text in (network, seed, f"{cold:.1f}", f"{warm:.1f}")])
    print(TextTable(["network", "seed", "cold, ks", "with history, ks"], rows).aligned())


if __name__ == "__main__":
    main()
