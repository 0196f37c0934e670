"""`dally evaluate`."""

from __future__ import annotations

import json
from typing import Any

import typer

from dally.cli.commands import examples
from dally.cli.output import print_table
from dally.cli.runs.scenario_options import ScenarioOptions, require, takes_scenario
from dally.errors import InputError
from dally.extras import need

OWN_POLICY = "policies are arguments"


@examples(
    "dally evaluate my_policy.py:Longest --trace jobs.csv --cluster 8x8x8",
    "dally evaluate learned:model=model/policy.json dally --trace jobs.csv --cluster 8x8x8 --split test --json",
)
@takes_scenario(
    without={
        "policy": OWN_POLICY, "settings": OWN_POLICY, "seeds": "one evaluation has one seed: --seed",
        "scenario": "state the options", "snapshot": "windows begin with an empty cluster",
        "until_s": "windows end with their jobs",
    }
)  # fmt: skip
def evaluate(
    options: ScenarioOptions,
    policies: list[str] = typer.Argument(..., metavar="POLICY…", help="Names or FILE.py:Class, with settings."),
    baseline: str = typer.Option("fifo-backfill:tier=closest", metavar="POLICY", help="Scores are gains over it."),
    split: str = typer.Option("validation", help="train, validation, test or all: parts of the trace in time."),
    window_jobs: int = typer.Option(256, metavar="N", help="Jobs of a window."),
    most_cpu_s: int = typer.Option(60, metavar="SECONDS", min=1, help="CPU time of each policy."),
    most_memory_mb: int = typer.Option(4096, metavar="MB", min=256, help="Address space of each policy."),
    as_json: bool = typer.Option(False, "--json", help="Print the scores as JSON."),
) -> None:  # fmt: skip
    """Score policies on windows of a trace, each in a process with a budget.

    The score is the gain: 1 − mean JCT ÷ the baseline's on the same jobs. A policy that fails, or that takes more
    than its budget, has none, and the command ends with 1.
    """
    need("numpy", "dally evaluate")
    from dally.learning.evaluation import Examination, PolicyScore, examined
    from dally.sweep.policy_list import read_policies

    scenario = options.scenario()
    require(scenario, "evaluate", "trace", "cluster")
    chosen = read_policies(policies)
    rival = read_policies([baseline])[0]
    test = Examination(scenario, window_jobs, split, rival, most_cpu_s, most_memory_mb)
    results = examined(chosen, test)
    rows: list[dict[str, Any]] = []
    for one, result in zip(chosen, results, strict=True):
        if isinstance(result, PolicyScore):
            rows.append(result.values())
        else:
            if result.bad_input:
                raise InputError(result.bad_input)
            rows.append({"policy": one.label(), "gain": None, "reason": result.reason})
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    else:
        headings = ["policy", "gain", "mean JCT, h", "p99, h", "÷ bound", "preemptions", "CPU, s"]
        print_table(headings, [_texts(row) for row in rows], 1)
    if any(row["gain"] is None for row in rows):
        raise typer.Exit(1)


def _texts(row: dict[str, Any]) -> list[str]:
    if row["gain"] is None:
        return [row["policy"], row["reason"], "", "", "", "", ""]
    return [
        row["policy"], f"{row['gain']:+.1%}", f"{row['jct_mean_s'] / 3600:.3f}", f"{row['jct_p99_s'] / 3600:.2f}",
        f"{row['over_bound']:.3f}", f"{row['preemptions']:.0f}", f"{row['cpu_s']:.2f}",
    ]  # fmt: skip
