"""The benchmark: its cells under many policies, as runs, as a table for people and as a page of the docs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import dally
from dally.benchmark.cells import WORKLOADS, Cell, prepare
from dally.metrics.row import Row
from dally.sweep.figures import FULL, HOUR_S, Figure, Spread, by_label, of_seeds, spread
from dally.sweep.policy_list import Chosen
from dally.sweep.run import Run, make_run
from dally.sweep.tables import absolute, groups_of

PER_GPU = "1 s per GPU"
CPU = Figure("CPU of the run, s", "cpu_s", in_seconds=False)


def shared_folder() -> Path:
    """Where the traces lie unless told: $DALLY_SHARED, or `shared` beside the project."""
    stated = os.environ.get("DALLY_SHARED")
    if stated:
        return Path(stated)
    beside = [Path.cwd().parent / "shared", Path(dally.__file__).resolve().parents[3] / "shared"]
    return next((path for path in beside if path.exists()), beside[0])


def benchmark_runs(
    cells: Iterable[Cell],
    policies: Iterable[Chosen],
    shared: Path,
    folder: Path,
    flat_restart_s: float | None,
    changes: Mapping[str, Any] | None = None,
) -> list[Run]:
    """Every policy in every cell, with changed fields of its scenario. The traces are written into the folder."""
    cells, policies, changes = list(cells), list(policies), changes or {}
    pairs = dict.fromkeys((cell.workload, cell.seed) for cell in cells)
    ready = {pair: prepare(*pair, shared, folder) for pair in pairs}
    restart = PER_GPU if flat_restart_s is None else f"{flat_restart_s:g} s"
    digests: dict[str, str] = {}
    return [
        make_run(
            replace(
                cell.scenario(ready[cell.workload, cell.seed], chosen.name, chosen.settings, flat_restart_s),
                **changes,
            ),
            {
                "workload": cell.workload,
                "network": cell.network,
                "policy": chosen.label(),
                "restart": restart,
                **changes,
                "seed": cell.seed,
            },
            digests,
        )
        for cell in cells
        for chosen in policies
    ]


def unfinished(rows: Iterable[Row], *labels: str) -> list[str]:
    """The runs that left jobs waiting, in words."""
    return [
        f"{', '.join(str(row[name]) for name in labels)}: {row['jobs'] - row['finished']} jobs never finished"
        for row in rows
        if row["finished"] < row["jobs"]
    ]


def block_table(rows: list[Row], networks: list[str]) -> list[str]:
    """Lines of one workload's table: a block per figure, a line per policy, a column per network."""
    policies = groups_of(rows, "policy")
    figures = (*FULL, CPU)
    first = max(len(text) for text in [*policies, *(figure.heading for figure in figures)]) + 6
    lines = [*heading(rows), " " * first + "".join(f"{network:>18}" for network in networks)]
    for figure in figures:
        unit = HOUR_S if figure.in_seconds else 1.0
        lines.append(f"{figure.heading}, h" if figure.in_seconds else figure.heading)
        for policy, found in policies.items():
            values = [spread(row[figure.field] for row in found if row["network"] == name) for name in networks]
            lines.append(_line(policy, first, values, unit))
        if figure.bound:
            values = [of_seeds([row for row in rows if row["network"] == name], figure.bound) for name in networks]
            lines.append(_line("at least", first, values, unit))
    return lines


def _line(name: str, first: int, values: list[Spread | None], unit: float) -> str:
    return f"  {name:<{first - 2}}" + "".join(f"{one.shown(unit) if one else '-':>18}" for one in values)


def heading(rows: list[Row]) -> list[str]:
    """What is compared, in two lines."""
    sizes = sorted({row["jobs"] for row in rows})
    seeds = sorted({row["seed"] for row in rows})
    return [
        f"{rows[0]['workload']}: {WORKLOADS[rows[0]['workload']].about}",
        f"jobs {', '.join(f'{size:,}' for size in sizes)}; restart {rows[0]['restart']}; "
        f"seeds {', '.join(str(seed) for seed in seeds)}; dally {dally.__version__}",
    ]


def page(rows: list[Row], command: str) -> str:
    """The results as a page in Markdown, which the command writes again."""
    return f"# Benchmark\n\nWritten by `{command}`: run it again rather than change the page.\n\n{tables(rows)}"


def tables(rows: list[Row]) -> str:
    """A table in Markdown per workload and network, and how to read them."""
    parts = [
        "Times are hours: the mean over seeds, ± half the range. JCT is the job completion time, from\n"
        "submission to finish. The best in each column is bold; differences under 3 % are noise. Figures that\n"
        "have a lower bound, which no scheduler can beat, are followed by how many times the bound they are.\n"
        "Jobs are real, but no trace says which model a job trained: models are drawn by seed and size (mix\n"
        "`benchmark`), except in the paper's own workloads.\n",
    ]
    for (workload,), here in by_label(rows, "workload").items():
        about, what = heading(here)
        about = about.partition(": ")[2]
        parts.append(f"## {workload}\n\n{about[:1].upper()}{about[1:]}. {what[:1].upper()}{what[1:]}.\n")
        for (network,), found in by_label(here, "network").items():
            parts.append(
                f"### {workload}, {network}\n\n{absolute(groups_of(found, 'policy'), FULL, True).markdown()}"
            )
    return "\n".join(parts)
