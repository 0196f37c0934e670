"""Policies side by side on the benchmark's cells.

usage: python -m benchmarks.policies [--cells …] [--networks …] [--policies …] [--seeds …] [--out FILE]

A policy may carry settings: `las:lease_s=1800`, several separated by commas. With --out, every finished run
is kept as a line of JSON, and runs that stand there already are not made again; delete the file, or name
another, after a change to the code that keeps dally's version.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

from dally import __version__, is_compiled
from dally.cluster.network_spec import read_settings
from dally.errors import InputError
from dally.policies.registry import build
from dally.sweep.cells import NETWORKS, WORKLOADS, Cell, Prepared, cells, prepare
from dally.sweep.row import row_of

SHARED = Path(__file__).resolve().parents[2] / "shared"
PROCESSES = 2
KEY = ("cell", "network", "policy", "settings", "restart", "seed", "dally")
PER_GPU = "1 s per GPU"

HOUR = 3600.0
# Heading, field, unit in seconds or 1 for counts, and the field that bounds it from below.
FIGURES = (
    ("makespan, h", "makespan_s", HOUR, "makespan_bound_s"),
    ("mean JCT, h", "jct_mean_s", HOUR, "jct_bound_s"),
    ("p50 JCT, h", "jct_p50_s", HOUR, ""),
    ("p99 JCT, h", "jct_p99_s", HOUR, ""),
    ("mean JCT of 1-GPU jobs, h", "jct_1_gpu_s", HOUR, ""),
    ("mean JCT of 2-8-GPU jobs, h", "jct_2_to_8_gpus_s", HOUR, ""),
    ("mean JCT of larger jobs, h", "jct_over_8_gpus_s", HOUR, ""),
    ("exposed communication, h", "comm_s", HOUR, "comm_floor_s"),
    ("preemptions", "preemptions", 1.0, ""),
    ("migrations", "migrations", 1.0, ""),
    ("CPU of the run, s", "cpu_s", 1.0, ""),
)
Row = dict[str, Any]


class Run(NamedTuple):
    """One simulation to make."""

    cell: Cell
    policy: str
    settings: dict[str, str]
    flat_restart_s: float | None

    def key(self) -> Row:
        """What tells this run from others in the file."""
        settings = ",".join(f"{name}={value}" for name, value in sorted(self.settings.items()))
        restart = PER_GPU if self.flat_restart_s is None else f"{self.flat_restart_s:g} s"
        workload, network, seed = self.cell
        return dict(zip(KEY, (workload, network, self.policy, settings, restart, seed, __version__), strict=True))


def read_policy(text: str) -> tuple[str, dict[str, str]]:
    """Name and settings of `las` or `las:lease_s=1800`, checked against the registry."""
    name, _, given = text.partition(":")
    settings = read_settings(f"--policies {name}:", given.split(",")) if given else {}
    build(name, settings)
    return name, settings


def simulate(run: Run, prepared: Prepared) -> Row:
    """The run's row, in a worker process."""
    began = process_time()
    gc.collect()
    gc.disable()  # as `dally simulate` does: all that a run makes lives to its end
    simulation, _ = run.cell.scenario(prepared, run.policy, run.settings, run.flat_restart_s).simulation()
    simulation.run()
    return run.key() | row_of(simulation, process_time() - began)


def read_rows(path: Path | None) -> list[Row]:
    """The finished runs in the file; a last line that was cut short is taken off it."""
    if path is None:
        return []
    try:
        path.touch()  # find out now rather than after the first run whether it can be written
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    rows: list[Row] = []
    for line, part in enumerate(whole.splitlines(), 1):
        try:
            row = json.loads(part)
            rows.append({**{name: row[name] for name in KEY}, **row})
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{path}:{line}: is not a row of this benchmark") from None
    return rows


def identity(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in KEY)


def sweep(runs: list[Run], out: Path | None) -> tuple[list[Row], list[str]]:
    """Rows of all these runs, made now or found in the file; and what went wrong."""
    found = {identity(row): row for row in read_rows(out)}
    todo = [run for run in runs if identity(run.key()) not in found]
    failures: list[str] = []
    if len(todo) < len(runs):
        print(f"{len(runs) - len(todo)} of {len(runs)} runs stand in {out} already", flush=True)
    for count, (run, row) in enumerate(made(todo), 1):
        if isinstance(row, BaseException):
            failures.append(f"{label(run.key())}: {type(row).__name__}: {row}")
            print(f"[{count}/{len(todo)}] {failures[-1]}", flush=True)
            continue
        keep(row, out)
        found[identity(row)] = row
        print(f"[{count}/{len(todo)}] {label(row)}: {row['cpu_s']:.2f} s CPU", flush=True)
    rows = [found[key] for run in runs if (key := identity(run.key())) in found]
    left = [(row, row["jobs"] - row["finished"]) for row in rows]
    return rows, failures + [f"{label(row)}: {jobs} jobs never finished" for row, jobs in left if jobs]


def made(runs: list[Run]) -> Iterator[tuple[Run, Row | BaseException]]:
    """Each run and its row, or what it raised, as they finish."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = dict.fromkeys((run.cell.workload, run.cell.seed) for run in runs)
        ready = {pair: prepare(*pair, SHARED, Path(folder)) for pair in wanted}
        with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
            jobs = {pool.submit(simulate, run, ready[run.cell.workload, run.cell.seed]): run for run in runs}
            try:
                for job in as_completed(jobs):
                    yield jobs[job], job.exception() or job.result()
            finally:
                pool.shutdown(cancel_futures=True)  # after Ctrl-C: what is kept stays, the rest is for next time


def keep(row: Row, out: Path | None) -> None:
    """Add the row to the file."""
    if out:
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


def label(row: Row) -> str:
    """A run in words."""
    return f"{row['cell']} {row['network']} {named(row)}, restart {row['restart']}, seed {row['seed']}"


def shown(values: Iterable[float | None], unit: float) -> str:
    """Mean over seeds, and half the range around it; - where there is nothing."""
    known = [value / unit for value in values if value is not None]
    if not known:
        return "-"
    mean = sum(known) / len(known)
    digits = 0 if mean >= 1000 or all(value == int(value) for value in known) else 1 if mean >= 100 else 2
    spread = f" ±{(max(known) - min(known)) / 2:,.{digits}f}" if len(known) > 1 else ""
    return f"{mean:,.{digits}f}{spread}"


def named(row: Row) -> str:
    """The policy as the command line names it."""
    return f"{row['policy']}:{row['settings']}" if row["settings"] else str(row["policy"])


def table(rows: list[Row], networks: list[str]) -> list[str]:
    """Lines of one workload's table: a block per figure, a line per policy, a column per network."""
    policies = list(dict.fromkeys(named(row) for row in rows))
    first = max(len(text) for text in [*policies, *(heading for heading, *_ in FIGURES)]) + 4
    seeds = sorted({row["seed"] for row in rows})
    sizes = sorted({row["jobs"] for row in rows})
    lines = [
        f"{rows[0]['cell']}: {WORKLOADS[rows[0]['cell']].about}",
        f"jobs {', '.join(f'{size:,}' for size in sizes)}; restart {rows[0]['restart']}; "
        f"seeds {', '.join(str(seed) for seed in seeds)}; dally {__version__}",
        " " * first + "".join(f"{network:>18}" for network in networks),
    ]
    for heading, field, unit, bound in FIGURES:
        lines.append(heading)
        for policy in policies:
            lines.append(_line(policy, first, [row for row in rows if named(row) == policy], networks, field, unit))
        if bound:
            lines.append(_line("at least", first, rows, networks, bound, unit, once=True))
    return lines


def _line(
    name: str, first: int, rows: list[Row], networks: list[str], field: str, unit: float, once: bool = False
) -> str:
    """A line of the table; `once`: the figure is the seed's, not the policy's."""
    texts: list[str] = []
    for network in networks:
        here = [row for row in rows if row["network"] == network]
        if once:
            here = list({row["seed"]: row for row in here}.values())
        texts.append(shown((row[field] for row in here), unit))
    return f"  {name:<{first - 2}}" + "".join(f"{text:>18}" for text in texts)


def main() -> None:
    """Run what is asked for and print the tables."""
    parser = argparse.ArgumentParser(description="Policies side by side on the benchmark's cells.")
    parser.add_argument("--cells", nargs="+", default=list(WORKLOADS), metavar="NAME", help=", ".join(WORKLOADS))
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), metavar="NAME", help=", ".join(NETWORKS))
    parser.add_argument("--policies", nargs="+", default=["fifo-backfill", "las"], metavar="NAME[:KEY=VALUE,…]")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], metavar="N")
    parser.add_argument("--flat-restart-s", type=float, metavar="SECONDS", help="instead of 1 s per GPU")
    parser.add_argument("--out", type=Path, metavar="FILE", help="keep finished runs here, as lines of JSON")
    given = parser.parse_args()
    if not is_compiled():
        print("dally is not compiled here: this takes long; run `make install` first", file=sys.stderr)
    try:
        policies = [read_policy(text) for text in given.policies]
        chosen = cells(given.cells, given.networks, given.seeds)
        runs = [Run(cell, name, settings, given.flat_restart_s) for cell in chosen for name, settings in policies]
        runs = list({identity(run.key()): run for run in runs}.values())
        rows, failures = sweep(runs, given.out)
    except InputError as error:
        sys.exit(f"error: {error}")
    for workload in dict.fromkeys(given.cells):
        here = [row for row in rows if row["cell"] == workload]
        if here:
            print("", *table(here, given.networks), sep="\n")
    print(f"\n{len(rows)} runs, {sum(row['cpu_s'] for row in rows):.1f} s CPU")
    if failures:
        sys.exit("went wrong:\n  " + "\n  ".join(failures))


if __name__ == "__main__":
    main()
