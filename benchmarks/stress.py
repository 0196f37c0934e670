"""How policies take a disturbance: what it costs the jobs that were there anyway, and how long it is felt.

usage: python -m benchmarks.stress [--cases …] [--policies …] [--network slow] [--day 6] [--days N]
                                   [--out DIR] [--markdown FILE] [--jobs N]

Cases: `overload`, `burst`, `rack`, `network` (benchmarks/stress_cases.py), on the cell venus80; on a generated
workload like it where the traces are absent. Each run is compared with the same policy's undisturbed one:
  mean JCT     of the jobs that are in both, with and without the disturbance
  peak         GPUs that waiting jobs ask for, the highest hour until the policy has recovered, and without
  recovered    hours from the end of the disturbance until, for three hours in a row, waiting jobs ask for no more
               GPUs than without it and 5 % of the cluster
  comm.        exposed communication ÷ what is reachable on the undisturbed network
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from benchmarks.kept_runs import add_options
from benchmarks.stress_cases import CASES, NONE, Ground
from dally.benchmark.cells import DAY_S, HOUR_S, WORKLOADS, Cell, prepare
from dally.benchmark.reproduction import percent
from dally.benchmark.tables_page import shared_folder
from dally.cli.runs.batch import Batch, names, open_store
from dally.cluster.spec import read_topology
from dally.errors import InputError, unknown
from dally.metrics.over_time import ALLOCATES, BEGINS_TO_WAIT, step_means
from dally.metrics.record import Record
from dally.metrics.summary import mean
from dally.report.text_table import TextCell, TextTable
from dally.runs.folder import FolderRecord
from dally.sweep.batch import with_folders
from dally.sweep.policy_list import read_policies
from dally.sweep.run import Prepared, Run, make_run
from dally.sweep.workers.local import LocalWorkers
from dally.traces import read_history
from dally.traces.changes import window
from dally.traces.generate import WorkloadRequest, find_recipe, generate, write_workload
from dally.traces.writing import text_of
from dally.whole_file import write_whole

WORKLOAD: Final = "venus80"
POLICIES: Final = (
    "dally,dally-paper,dally-paper-consolidated,tiresias-gittins,las:tier=closest,kueue-required,"
    "fifo-backfill,fifo-backfill:tier=closest,easy-backfill:tier=closest,slurm-switches"
)
SLACK: Final = 0.05  # of the cluster's GPUs
IN_A_ROW: Final = 3  # hours
HEADINGS: Final = [
    "policy", "mean JCT without, h", "with, h", "change", "p99 with (without), h",
    "peak GPUs waiting (without)", "recovered after, h", "comm. ÷ reachable",
]  # fmt: skip


PAGE: Final = """# Stress tests

Written by `{command}`: run it again rather than change the page.

{workload} on the network `{network}`, seed 1, disturbed on day {day}, beside the same policy's undisturbed
run. Mean JCT is over the jobs that are in both runs. "GPUs waiting" is the number that waiting jobs ask for: the
highest hour from the beginning of the disturbance until the policy has recovered, in brackets without it.
Recovered: hours from the end of the disturbance until, for three hours in a row, waiting jobs ask for no more GPUs
than they would have without it and 5 % of the cluster. Communication is the exposed
communication ÷ what is unavoidable on the undisturbed network.

A disturbance adds work that has to be done: where jobs keep arriving as fast as they can be served, no policy can
recover soon, so compare policies with each other. A policy that collapses on this network anyway varies by tens of
percent either way.

"""


class Felt(NamedTuple):
    """What a disturbance did to one policy."""

    without_h: float
    with_h: float
    peak_gpus: float
    peak_without_gpus: float
    recovered_h: int | None  # None: not before the run ended
    comm: float | None
    left: int  # jobs that never finished
    p99_h: float  # of all jobs, disturbed
    p99_without_h: float

    def cells(self, policy: str) -> list[TextCell]:
        """The line of the table."""
        texts = [
            policy + (f" ({self.left} unfinished)" if self.left else ""),
            f"{self.without_h:.2f}",
            f"{self.with_h:.2f}",
            percent(self.with_h / self.without_h - 1.0) if self.without_h else "–",
            f"{self.p99_h:.0f} ({self.p99_without_h:.0f})",
            f"{self.peak_gpus:,.0f} ({self.peak_without_gpus:,.0f})",
            "never" if self.recovered_h is None else f"{self.recovered_h}",
            "–" if self.comm is None else f"{self.comm:.2f}",
        ]
        return [TextCell(text) for text in texts]


def hourly(record: Record, edges_s: list[float]) -> list[float]:
    """GPUs that waiting jobs ask for, the mean of each hour."""
    rows = record.events.filter(pl.col("kind").is_in([*ALLOCATES, *BEGINS_TO_WAIT])).join(
        record.jobs.select("job_id", "gpus"), on="job_id", how="left", maintain_order="left"
    )
    steps = pl.col("gpus") * pl.when(pl.col("kind").is_in(ALLOCATES)).then(-1).otherwise(1)
    return step_means(rows["time_s"], rows.select(steps.cast(int).cum_sum()).to_series(), edges_s)


def recovery(disturbed: Sequence[float], usual: Sequence[float], slack: float) -> int | None:
    """The first hour from which so many in a row, or all there are, ask for no more than usual."""
    fine = [with_it <= without + slack for with_it, without in zip(disturbed, usual, strict=True)]
    return next((hour for hour in range(len(fine)) if all(fine[hour : hour + IN_A_ROW])), None)


def mean_jcts_h(usual: pl.DataFrame, disturbed: pl.DataFrame) -> tuple[float, float]:
    """Mean completion times of the jobs that finished in both runs, in hours."""
    pairs = usual.select("job_id", "jct_s").join(disturbed.select("job_id", with_s="jct_s"), on="job_id")
    pairs = pairs.filter(pl.col("jct_s").is_not_null(), pl.col("with_s").is_not_null())
    return mean(pairs["jct_s"].to_list()) / HOUR_S, mean(pairs["with_s"].to_list()) / HOUR_S


def felt(disturbed: Record, usual: Record, begin_s: float, end_s: float) -> Felt:
    """What the disturbance from `begin_s` to `end_s` did."""
    last_s = max(disturbed.end_s, usual.end_s, end_s + HOUR_S)
    hours = int((last_s - begin_s) // HOUR_S) + 1
    edges_s = [begin_s + hour * HOUR_S for hour in range(hours + 1)]
    waits, usually = hourly(disturbed, edges_s), hourly(usual, edges_s)
    over = round((end_s - begin_s) / HOUR_S)  # hours that it lasts; a burst lasts none
    gpus = read_topology(disturbed.scenario.cluster).total_gpus()
    recovered = recovery(waits[over:], usually[over:], SLACK * gpus)
    until = hours if recovered is None else over + recovered + 1
    summary = disturbed.summary
    floor_s = summary["comm_floor_s"]
    return Felt(
        *mean_jcts_h(usual.jobs, disturbed.jobs),
        max(waits[:until]),
        max(usually[:until]),
        recovered,
        summary["comm_s"] / floor_s if floor_s else None,
        summary["jobs"] - summary["finished"],
        summary["jct_p99_s"] / HOUR_S,
        usual.summary["jct_p99_s"] / HOUR_S,
    )


def is_real(shared: Path) -> bool:
    """Whether the trace is there; if not, one like it is generated."""
    return (shared / "traces" / WORKLOADS[WORKLOAD].trace).exists()


def ground_of(given: argparse.Namespace, folder: Path) -> Ground:
    """The workload, undisturbed: of the traces, or generated."""
    folder.mkdir(parents=True, exist_ok=True)
    shared = given.shared or shared_folder()
    cluster = WORKLOADS[WORKLOAD].cluster
    if is_real(shared):
        made = prepare(WORKLOAD, 1, shared, folder)
    else:
        made = Prepared(folder / "venus-like.csv", cluster)
        gpus = int(read_topology(cluster).total_gpus())
        write_workload(made.trace, generate(find_recipe("venus-like"), WorkloadRequest(1, None, 20.0, 1.1, gpus)))
    history = read_history(made.trace, format="csv")
    if given.days:
        history = window(history, 0.0, given.days * DAY_S)
    path = folder / f"undisturbed-{given.days:g}.csv"
    path.write_text("".join(text_of(history, "csv")), encoding="utf-8")
    scenario = Cell(WORKLOAD, given.network, 1).scenario(Prepared(path, made.cluster), "", {})
    return Ground(history, scenario, given.day, folder)


def runs_of(ground: Ground, cases: Sequence[str], policies: str) -> list[Run]:
    """Every policy undisturbed, then in every case."""
    scenarios = {NONE: ground.scenario} | {name: CASES[name].scenario(ground) for name in cases}
    digests: dict[str, str] = {}
    found = []
    for name, scenario in scenarios.items():
        for chosen in read_policies([policies]):
            run = replace(scenario, policy=chosen.name, settings=chosen.settings)
            found.append(make_run(run, {"case": name, **chosen.labels()}, digests))
    return found


def report(
    ground: Ground, cases: Sequence[str], records: dict[tuple[str, str], Record]
) -> list[tuple[str, TextTable]]:
    """A heading and a table per case, from the records by case and policy."""
    found = []
    for name in cases:
        begin_s, end_s = CASES[name].span_s(ground)
        lines = [
            felt(record, records[NONE, policy], begin_s, end_s).cells(policy)
            for (case, policy), record in records.items()
            if case == name and (NONE, policy) in records
        ]
        found.append((f"{name}: {CASES[name].about}", TextTable(HEADINGS, lines)))
    return found


def arguments() -> argparse.Namespace:
    """What the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--policies", default=POLICIES)
    parser.add_argument("--network", default="slow")
    parser.add_argument("--day", type=int, default=6, help="of the trace, from 0, on which it happens")
    add_options(parser)
    return parser.parse_args()


def run_all(given: argparse.Namespace, folder: Path) -> tuple[list[tuple[str, TextTable]], list[str]]:
    """The tables, and why runs failed."""
    cases = names(given.cases)
    for name in cases:
        if name not in CASES:
            raise unknown("case", name, CASES)
    ground = ground_of(given, folder / "traces")
    runs = with_folders(runs_of(ground, cases, given.policies), folder / "runs")
    with open_store(folder) as store:
        outcome = Batch(LocalWorkers(given.jobs)).run(runs, store)
    records: dict[tuple[str, str], Record] = {
        (run.labels["case"], run.labels["policy"]): FolderRecord(run.folder)
        for run in runs
        if run.folder and (run.folder / "summary.json").exists()
    }
    return report(ground, cases, records), outcome.failures


def main() -> None:
    """Run what is missing, then print the tables."""
    given = arguments()
    with tempfile.TemporaryDirectory() as temporary:
        try:
            tables, failures = run_all(given, given.out or Path(temporary))
        except InputError as error:
            sys.exit(f"stress: {error}")
    for title, table in tables:
        print(f"{title}\n\n{table.aligned()}\n")
    if given.markdown:
        command = shlex.join(["python", "-m", "benchmarks.stress", *sys.argv[1:]])
        sections = [f"## {title[:1].upper()}{title[1:]}\n\n{table.markdown()}" for title, table in tables]
        workload = "The cell venus80" if is_real(given.shared or shared_folder()) else "A workload like venus80's"
        head = PAGE.format(command=command, workload=workload, network=given.network, day=given.day)
        write_whole(given.markdown, (head + "\n".join(sections)).encode())
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
