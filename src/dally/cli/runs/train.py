"""`dally train`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dally.cli.commands import examples
from dally.cli.runs.batch import PROGRESS
from dally.cli.runs.scenario_options import ScenarioOptions, require, takes_scenario
from dally.cluster.spec import read_settings
from dally.extras import need
from dally.parsed_text import is_on
from dally.runs.scenario import Scenario

if TYPE_CHECKING:
    from dally.learning.trainer import Trainer
    from dally.learning.training_plan import TrainingPlan

OWN = (
    "trace",
    "cluster",
    "policy",
    "settings",
    "seed",
)  # of a scenario: what a training has of its own, or not at all
NO_POLICY = "a training learns a policy; --baseline names the one that it is rewarded against"


@examples(
    "dally train --trace jobs.csv --cluster 8x8x8 --out model",
    "dally train --env PlaceJobs-v0 --trace jobs.csv --cluster 8x8x8 --network slow --out model --workers 2",
    "dally train --env InspectDecision-v0 --option base=dally --trace jobs.csv --cluster 8x8x8 --out model",
    "dally train --trace jobs.csv --cluster 8x8x8 --option preempt=on --option visible=32 --seed 3 --out model",
    "dally simulate --trace jobs.csv --cluster 8x8x8 --policy learned --set model=model/policy.json",
)
@takes_scenario(
    without={
        "policy": NO_POLICY, "settings": NO_POLICY, "seeds": "a training has one seed: --seed",
        "scenario": "state the options", "snapshot": "episodes begin with an empty cluster",
        "until_s": "episodes end with their jobs",
    }
)  # fmt: skip
def train(
    options: ScenarioOptions,
    out: Path = typer.Option(
        ..., metavar="DIR",
        help="For policy.json, curve.csv, and the checkpoint from which the same command goes on.",
    ),
    env: str = typer.Option(
        "OrderJobs-v0", metavar="NAME",
        help="OrderJobs-v0, PlaceJobs-v0, InspectDecision-v0 or TunePolicy-v0 (docs/learning.md).",
    ),
    decision_options: list[str] = typer.Option(
        [], "--option", metavar="KEY=VALUE", help="An option of the decisions, such as visible, knows or preempt."
    ),
    baseline: str = typer.Option(
        "fifo-backfill:tier=closest", metavar="POLICY", help="Rewards are gains over it."
    ),
    window_jobs: int = typer.Option(256, metavar="N", help="Jobs of an episode."),
    iterations: int = typer.Option(50, metavar="N", help="Updates in all."),
    episodes: int = typer.Option(16, metavar="N", help="Episodes for each update."),
    hidden: int = typer.Option(32, metavar="N", help="Width of the two hidden layers."),
    rate: float = typer.Option(4e-3, help="Learning rate at first; it falls to a tenth."),
    entropy: float = typer.Option(0.01, help="Weight of entropy at first; it falls to 0."),
    decay: float = typer.Option(0.5, help="Decay of generalised advantages by step."),
    workers: int = typer.Option(
        1, metavar="N", min=1, help="Processes that play episodes; the curve is the same for any number."
    ),
    engine: str = typer.Option("local", help="Where they are: local or ray."),
    address: str = typer.Option(
        "", metavar="HOST:PORT", help="Of the Ray cluster; without it, one on this machine."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the outcome as JSON."),
    progress: bool = PROGRESS,
) -> None:  # fmt: skip
    """Learn a policy on the first 60 % of a trace's jobs.

    The next 20 % choose the best update, and the last 20 % are held out to judge it.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # matrices are small: threads would wait for each other
    need("numpy", "dally train")
    from dally.learning.training_plan import TrainingPlan

    scenario = options.scenario()
    require(scenario, "train", "trace", "cluster")
    plan = TrainingPlan(
        env=env, trace=scenario.trace, cluster=scenario.cluster, fields=stated_fields(scenario),
        options=read_options(decision_options), window_jobs=window_jobs, seed=scenario.seed, iterations=iterations,
        episodes=episodes, hidden=hidden, rate=rate, entropy=entropy, decay=decay,
        baseline=baseline,
    )  # fmt: skip
    outcome = run_training(plan, out, workers, engine, address, progress)
    typer.echo(json.dumps(outcome, indent=2) if as_json else outcome_text(plan, outcome))


def outcome_text(plan: TrainingPlan, outcome: dict[str, Any]) -> str:
    """What a training came to, for people."""
    gain = outcome["gain"]
    return (
        f"On {outcome['windows']} held-out windows: mean JCT {abs(gain):.1%} {'below' if gain >= 0.0 else 'above'} "
        f"{plan.baseline}, {outcome['over_bound']:.3f} times the lower bound; {outcome['cpu_s']:.1f} s CPU\n"
        f"Written to {outcome['out']}: --policy learned --set model={Path(outcome['out']) / 'policy.json'}"
    )


def run_training(
    plan: TrainingPlan, out: Path, workers: int, engine: str, address: str, progress: bool | None
) -> dict[str, Any]:
    """Go on to the end, and what the best policy reaches on the held-out windows."""
    from dally.learning.collecting import collector
    from dally.learning.trainer import Trainer, judged

    training = Trainer(plan, out)
    players = collector(plan, workers, engine, address)
    try:
        with _bar(plan.iterations, progress) as show:
            training.run(players, show)
    finally:
        players.close()
    held_out = judged(plan.make("test"), training.best, training.scale)
    return {
        "out": str(out), "iterations": training.iteration, "validation_gain": training.best_gain,
        "gain": held_out.gain, "over_bound": held_out.over_bound, "windows": held_out.windows,
        "cpu_s": round(training.cpu_s, 2),
    }  # fmt: skip


def stated_fields(scenario: Scenario) -> dict[str, Any]:
    """What the scenario says other than its defaults, beside what a training has of its own."""
    values, usual = asdict(scenario), asdict(Scenario("", ""))
    return {
        item.name: values[item.name]
        for item in fields(Scenario)
        if item.name not in OWN and values[item.name] != usual[item.name]
    }


def read_options(texts: list[str]) -> dict[str, Any]:
    """KEY=VALUE as numbers, switches or text, whichever can be read first."""
    result: dict[str, Any] = {}
    for key, text in read_settings("--option", texts).items():
        for read in (int, float, is_on, str):
            try:
                result[key] = read(text)
                break
            except ValueError:
                continue
    return result


@contextmanager
def _bar(iterations: int, desired: bool | None) -> Iterator[Callable[[Trainer], None] | None]:
    """A bar of updates on stderr, with the latest gain; by default if stderr is a terminal."""
    if not (sys.stderr.isatty() if desired is None else desired):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    count = TextColumn("{task.completed:,.0f}/{task.total:,.0f} updates")
    gain = TextColumn("gain {task.fields[gain]:+.1%}")
    with Progress(count, BarColumn(), gain, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=iterations, gain=0.0)

        def report(training: Trainer) -> None:
            bar.update(task, completed=training.iteration, gain=training.curve[-1][2])

        yield report
