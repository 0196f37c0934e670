"""The benchmark: its cells under many policies, as runs, as a table for people and as a page of the docs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import dally
from dally.benchmark.cells import Cell, find_workload, prepare
from dally.metrics.comparison import Contest
from dally.metrics.metric_list import CPU, FULL, MEANING, SPAN, Metric
from dally.report.comparison_tables import (
    ALONE,
    BOUND,
    BOUNDED,
    HOUR_S,
    NOTHING,
    UNFINISHED,
    UNFINISHED_NOTE,
    absolute,
    as_good,
)
from dally.sweep.policy_list import Chosen
from dally.sweep.run import Run, make_run

PER_GPU = "1 s per GPU"
HOW_TO_READ = f"""\
Times are hours: the mean over seeds, ± {MEANING}. JCT is the job completion
time, from submission to finish. The best values of each column, {{as_good}}, are bold.
Makespan and mean JCT are followed by how many times their lower bound they are, which no scheduler can beat.
Communication is followed by how many times what jobs would lose alone at their closest placement it is: a
reference, which an even split over machines may stay below.
{UNFINISHED_NOTE}.
Policies that can hold gangs at their closest tier were run in both forms; the table has the better one, and
`:tier=closest` says that it is that.
Jobs are real, but no trace says which model a job trained: models are drawn by seed and size (mix
`benchmark`), except in the paper's own workloads."""


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
                **chosen.labels(),
                "restart": restart,
                **changes,
                "seed": cell.seed,
            },
            digests,
        )
        for cell in cells
        for chosen in policies
    ]


def block_table(contests: Sequence[Contest], networks: list[str]) -> list[str]:
    """Lines of one workload's table: a block per figure, a line per policy, a column per network."""
    here = {contest.network: contest for contest in contests}
    if here.keys().isdisjoint(networks):  # a workload that has its own
        networks = list(here)
    columns = [here.get(name) for name in networks]
    labels = list(dict.fromkeys(entry.label for contest in contests for entry in contest.entries))
    metrics = (*FULL, CPU)
    first = max(len(text) for text in [*labels, *(metric.title for metric in metrics)]) + 6
    lines = [*heading(contests), " " * first + "".join(f"{network:>18}" for network in networks)]
    for metric in metrics:
        lines.append(f"{metric.title}, h" if metric.unit == SPAN else metric.title)
        lines += [_line(label, first, [_mean(one, label, metric) for one in columns]) for label in labels]
        if metric.bound:
            label = BOUND if metric.divisor == BOUNDED else ALONE
            lines.append(_line(label, first, [_bound(one, metric) for one in columns]))
    return lines


def _mean(contest: Contest | None, label: str, metric: Metric) -> str:
    entry = contest.entry(label) if contest else None
    result = entry.standings.get(metric.key) if entry else None
    return result.spread.shown(_unit(metric)) + UNFINISHED * bool(entry.unfinished) if entry and result else NOTHING


def _bound(contest: Contest | None, metric: Metric) -> str:
    result = contest.bounds.get(metric.key) if contest else None
    return result.shown(_unit(metric)) if result else NOTHING


def _unit(metric: Metric) -> float:
    return HOUR_S if metric.unit == SPAN else 1.0


def _line(name: str, first: int, texts: list[str]) -> str:
    return f"  {name:<{first - 2}}" + "".join(f"{text:>18}" for text in texts)


def heading(contests: Sequence[Contest]) -> list[str]:
    """What is compared, in two lines."""
    rows = [row for contest in contests for row in contest.rows()]
    sizes = sorted({row["jobs"] for row in rows})
    seeds = sorted({row["seed"] for row in rows})
    return [
        f"{rows[0]['workload']}: {find_workload(rows[0]['workload']).about}",
        f"jobs {', '.join(f'{size:,}' for size in sizes)}; restart {rows[0]['restart']}; "
        f"seeds {', '.join(str(seed) for seed in seeds)}; {_replications(contests)}dally {dally.__version__}",
    ]


def _replications(contests: Sequence[Contest]) -> str:
    most = max(contest.replications() for contest in contests)
    return f"{most} replications; " if most > 1 else ""


def page(contests: Sequence[Contest], command: str) -> str:
    """The results as a page in Markdown, which the command writes again."""
    return f"# Benchmark\n\nWritten by `{command}`: run it again rather than change the page.\n\n{tables(contests)}"


def tables(contests: Sequence[Contest]) -> str:
    """A table in Markdown per workload and network, and how to read them."""
    parts = [HOW_TO_READ.format(as_good=as_good(contests)) + "\n"]
    for workload, here in by_workload(contests).items():
        about, what = heading(here)
        about = about.partition(": ")[2]
        parts.append(f"## {workload}\n\n{about[:1].upper()}{about[1:]}. {what[:1].upper()}{what[1:]}.\n")
        for contest in here:
            parts.append(f"### {contest.name()}\n\n{absolute(contest, FULL, in_hours=True).markdown()}")
    return "\n".join(parts)


def by_workload(contests: Iterable[Contest]) -> dict[str, list[Contest]]:
    """The contests of each workload, in their order."""
    result: dict[str, list[Contest]] = {}
    for contest in contests:
        result.setdefault(contest.workload, []).append(contest)
    return result
