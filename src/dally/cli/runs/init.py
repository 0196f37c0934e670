"""`dally init`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import NamedTuple

import typer

from dally.cli.commands import examples
from dally.cli.output import print_table
from dally.cli.runs.compare import leave_report
from dally.cli.runs.scenario_options import ScenarioOptions, flag_of, takes_scenario, with_values
from dally.cluster.links import has_links
from dally.cluster.presets import find_preset
from dally.cluster.spec import read_topology
from dally.errors import InputError
from dally.policies.registry import build
from dally.report.run_summary import summary_table
from dally.runs.execute import execute
from dally.runs.folder import prepare_folder
from dally.runs.scenario import Scenario
from dally.sweep.batch import bar_of_run
from dally.traces import History, read_history
from dally.traces.generate import RECIPE_NAMES, WorkloadRequest, find_recipe, generate, write_workload
from dally.whole_file import write_whole

SLURM_TOPOLOGY = Path("/etc/slurm/topology.conf")
MADE_UP = WorkloadRequest(jobs=500, load=0.9)
USUAL_CLUSTER = "3x6x8"  # racks × machines × GPUs, for jobs that are made up
BUSY = 0.85  # the share of a cluster that jobs are taken to keep busy, where nothing says how large it is
GPUS, MACHINES = 8, 16  # of a machine, of a rack
IN_USE = {"sacct": "slurm-backfill", "kubernetes": "kueue-preferred"}  # what most run where such traces come from


class SetupQuestion(NamedTuple):
    """One question: what it asks, what it takes if the answer is empty, and what it makes of an answer."""

    field: str  # of a scenario
    text: str
    usual: Callable[[Scenario], str]
    check: Callable[[str, Scenario], str]  # what there is to say of it; InputError if it will not do


@examples(
    "dally init",
    "dally init lab --trace sacct.txt --cluster /etc/slurm/topology.conf",
    "dally init --yes --trace philly-like --cluster 2x8x8 --network slow --policy fifo-backfill",
)
@takes_scenario(
    without={"seeds": "one run has one seed: --seed", "snapshot": "a new scenario starts at the first job"}
)
def init(
    options: ScenarioOptions,
    folder: Path = typer.Argument(Path("first"), metavar="DIR", help="Where to leave it all."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Ask nothing: use defaults where no option answers."),
    as_json: bool = typer.Option(False, "--json", help="Print the run's summary as JSON."),
    progress: bool = typer.Option(
        None, "--progress/--no-progress", help="Show a progress bar.  [default: if stderr is a terminal]"
    ),
) -> None:
    """Ask four questions, write a scenario and run it: a first try in a minute.

    The questions are about the trace, the cluster, the network and the policy in use. Options answer them, too.
    """
    path, run = folder / "scenario.toml", folder / "run"
    if path.exists():
        raise InputError(f"{path}: is there already; name another folder, or repeat it: {repeated(path)}")
    scenario = answered(options, not yes)
    prepare_folder(folder)
    if scenario.trace in RECIPE_NAMES:
        scenario = _with_made_up(scenario, folder / "trace.csv")
    write_whole(path, scenario.to_toml().encode())
    with bar_of_run(progress) as show:
        record = execute(scenario, show, run)
    leave_report(run, "")
    if as_json:
        typer.echo(json.dumps(record.summary | {"scenario": str(path), "run": str(run)}, indent=2))
        return
    table = summary_table(record.summary)
    print_table(table.headings, table.texts(), table.numbers_from)
    for what, count in record.notes.items():
        typer.echo(f"{count:,} jobs {what}")
    typer.echo("\n".join(_next(scenario, path, run)))


def answered(options: ScenarioOptions, interactive: bool) -> Scenario:
    """The scenario of the options, its open questions asked; each answer is checked at once."""
    scenario = options.scenario()
    open_fields = [question.field for question in QUESTIONS if question.field not in options.values]
    if options.start:
        open_fields = [field for field in open_fields if not getattr(scenario, field)]
    if interactive and open_fields and not sys.stdin.isatty():
        flags = ", ".join(flag_of(field) for field in open_fields)
        raise InputError(f"init asks questions and stdin is no terminal; answer by {flags}, or give --yes")
    for place, question in enumerate(QUESTIONS, 1):
        if question.field not in open_fields:
            question.check(getattr(scenario, question.field), scenario)
        elif interactive:
            scenario = _answered(question, place, scenario)
        else:
            answer = question.usual(scenario)
            record = question.check(answer, scenario)
            about = f"  ({record})" if record else ""
            typer.echo(f"{flag_of(question.field)} {answer or 'as the cluster states'}{about}", err=True)
            scenario = with_values(scenario, {question.field: answer})
    return scenario


def _answered(question: SetupQuestion, place: int, scenario: Scenario) -> Scenario:
    """The scenario with the answer, asked for until it will do."""
    usual = question.usual(scenario)
    while True:
        text = f"{place}/{len(QUESTIONS)} {question.text}"
        answer = str(typer.prompt(text, default=usual, err=True, show_default=bool(usual))).strip()
        try:
            record = question.check(answer, scenario)
        except InputError as error:
            typer.echo(f"    {error}", err=True)
            continue
        if record:
            typer.echo(f"    {record}", err=True)
        return with_values(scenario, {question.field: answer})


def _history(trace: str, scenario: Scenario) -> History:
    return read_history(Path(trace), scenario.trace_format, scenario.strict, scenario.zone)


def _trace(answer: str, scenario: Scenario) -> str:
    if answer in RECIPE_NAMES:
        return find_recipe(answer).about
    if not Path(answer).exists():
        raise InputError(f"{answer}: no such file, and no workload of {', '.join(RECIPE_NAMES)}")
    result = _history(answer, scenario)
    return f"{result.format}: {len(result.rows):,} jobs of up to {max(row.spec.gpus for row in result.rows):,} GPUs"


def _cluster(answer: str, scenario: Scenario) -> str:
    topology = read_topology(answer)
    if scenario.trace not in RECIPE_NAMES and not scenario.skip_impossible:
        largest = max(row.spec.gpus for row in _history(scenario.trace, scenario).rows)
        if largest > topology.total_gpus():
            problem = f"{answer}: has {topology.total_gpus():,} GPUs and the largest job asks for {largest:,}"
            raise InputError(f"{problem}; --skip-impossible leaves such jobs out")
    return f"{topology.total_gpus():,} GPUs in {len(topology.names[0]):,} machines"


def _network(answer: str, scenario: Scenario) -> str:
    if answer:
        find_preset(answer)
    return ""


def _policy(answer: str, scenario: Scenario) -> str:
    build(answer, scenario.settings)
    return ""


def _usual_cluster(scenario: Scenario) -> str:
    """Slurm's own file; else one that the trace would keep busy, in racks of up to 16 machines of 8."""
    if SLURM_TOPOLOGY.is_file():
        return str(SLURM_TOPOLOGY)
    if scenario.trace in RECIPE_NAMES:
        return USUAL_CLUSTER
    result = _history(scenario.trace, scenario)
    span_s = result.rows[-1].submit_s - result.rows[0].submit_s
    gpu_s = sum(row.spec.gpus * row.stated for row in result.rows) if result.length == "duration_s" else 0.0
    desired = max(max(row.spec.gpus for row in result.rows), gpu_s / span_s / BUSY if span_s else 0.0)
    machines = ceil(desired / GPUS)
    racks = ceil(machines / MACHINES)
    return f"{racks}x{ceil(machines / racks)}x{GPUS}"


def _usual_network(scenario: Scenario) -> str:
    return "" if has_links(read_topology(scenario.cluster)) else "normal"


def _usual_policy(scenario: Scenario) -> str:
    recorded = scenario.trace not in RECIPE_NAMES
    return IN_USE.get(_history(scenario.trace, scenario).format if recorded else "", "fifo-backfill")


QUESTIONS = (
    SetupQuestion(
        "trace",
        f"Where is your trace (sacct, kubectl, csv, …)? Or make one up: {', '.join(RECIPE_NAMES)}",
        lambda _: "venus-like",
        _trace,
    ),
    SetupQuestion(
        "cluster",
        "Your cluster: a file (topology.conf, nodes.json, …), or racks x machines x GPUs",
        _usual_cluster,
        _cluster,
    ),
    SetupQuestion(
        "network",
        "Its network: fast, normal, slow, congested, or a preset such as a100-nvswitch-8x200g",
        _usual_network,
        _network,
    ),
    SetupQuestion(
        "policy",
        "The policy in use, or the one nearest to it; `dally policies` lists them",
        _usual_policy,
        _policy,
    ),
)


def _with_made_up(scenario: Scenario, path: Path) -> Scenario:
    """The scenario with a trace made by its recipe, for its cluster."""
    gpus = int(read_topology(scenario.cluster).total_gpus())
    write_workload(path, generate(find_recipe(scenario.trace), MADE_UP._replace(seed=scenario.seed, gpus=gpus)))
    return replace(scenario, trace=str(path))


def repeated(path: Path) -> str:
    """The command that runs the scenario again."""
    return f"dally simulate --scenario {path}"


def _next(scenario: Scenario, path: Path, run: Path) -> list[str]:
    """What to do next, as commands."""
    other = "fifo-backfill" if scenario.policy == "dally" else "dally"
    commands = {
        "see how it went": f"open {run / 'report.html'}",
        "why did jobs wait": f"dally explain --waiting --run {run}",
        "repeat it, with changes": f"{repeated(path)} --congestion 0.5",
        "try other policies": f"dally compare --scenario {path} --policies {scenario.policy},{other}",
        "who would gain": f"dally whatif --scenario {path} --current {scenario.policy} --policy {other}",
    }
    width = max(map(len, commands))
    lines = [f"  {what.ljust(width)}  {command}" for what, command in commands.items()]
    return ["", f"Written to {path.parent}. Next:", *lines]
