"""Carrying out many runs: those that are not finished yet, each on its own, the table at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from dally.metrics.summary import Row
from dally.sweep.run import Run, make_row
from dally.sweep.store import Store
from dally.sweep.workers import Failure, Workers


class Headway(NamedTuple):
    """How far it is."""

    done: int  # failures included
    total: int
    failed: int
    resumed: int  # finished by an earlier call


class Outcome(NamedTuple):
    """The rows of finished runs in the order of the runs, and why the others have none."""

    rows: list[Row]
    failures: list[str]
    bad_input: str = ""  # what is wrong with it, where that and nothing else is why


def carry_out(
    runs: list[Run], engine: Workers, store: Store | None, report: Callable[[Headway], None] | None = None
) -> Outcome:
    """Every run's row, made now or kept by the store; runs that are the same are made once."""
    unique: dict[str, Run] = {}
    for run in runs:
        unique.setdefault(run.key, run)
    runs = list(unique.values())
    rows: dict[str, Row] = {}
    if store:
        rows = {run.key: store.rows[run.key] for run in runs if store.has(run)}
    todo = [run for run in runs if run.key not in rows]
    reasons: dict[str, str] = {}
    problems: set[str] = set()
    match = len(rows)
    if report:
        report(Headway(match, len(runs), 0, match))
    for run, result in engine.map(make_row, todo) if todo else ():
        if isinstance(result, Failure):
            reasons[run.key] = f"{run.name()}: {result.reason}"
            problems.add(result.bad_input)
        else:
            rows[run.key] = result
            if store:
                store.add(run, result)
        if report:
            report(Headway(len(rows) + len(reasons), len(runs), len(reasons), match))
    finished = [_labelled(run, rows[run.key]) for run in runs if run.key in rows]
    if store and finished:
        store.write_results(finished)
    # Replications that fail alike are told of once.
    failures = list(dict.fromkeys(reasons[run.key] for run in runs if run.key in reasons))
    return Outcome(finished, failures, problems.pop() if len(problems) == 1 else "")


def _labelled(run: Run, row: Row) -> Row:
    """The row as the table has it: what it is called first, and where it lies, then what came of it."""
    labels = {"policy": run.scenario.policy, **run.labels}
    labels.setdefault("seed", run.scenario.seed)
    if run.folder:
        labels["folder"] = f"{run.folder.parent.name}/{run.folder.name}"
    return labels | {name: value for name, value in row.items() if name not in labels}


def with_folders(runs: list[Run], parent: Path, report: bool = False) -> list[Run]:
    """The same runs, each with a folder of its own there, named by its labels, and maybe a report in it."""
    taken: dict[str, int] = {}
    result: list[Run] = []
    for run in runs:
        name = "-".join(_plain(str(value)) for value in run.labels.values() if value != "") or "run"
        name = name[:120]
        taken[name] = taken.get(name, 0) + 1
        folder = parent / (name if taken[name] == 1 else f"{name}~{taken[name]}")
        result.append(replace(run, folder=folder, report=report))
    return result


def _plain(text: str) -> str:
    """The text with what file systems and shells dislike replaced."""
    return "".join(one if one.isalnum() or one in "._=+-" else "_" for one in text)
