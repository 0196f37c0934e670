"""`dally whatif`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import typer

from dally.cli import many, trace_options
from dally.cli.compare import leave_report
from dally.cli.given import Given, require, takes_scenario, with_values
from dally.cli.scenario_options import option
from dally.cli.whatif_tables import show
from dally.cluster.links import has_links
from dally.cluster.network_spec import read_settings
from dally.cluster.spec import read_topology
from dally.errors import InputError
from dally.runs.assemble import assemble
from dally.runs.scenario import Scenario
from dally.sweep.batch import with_folders
from dally.sweep.policy_list import Chosen
from dally.sweep.whatif import NO_NETWORK, Question, answer, both_sides, known_network
from dally.whole_file import write_whole

EXAMPLES = """Examples:

  dally whatif --trace sacct.txt --topology topology.conf --policy dally

  dally whatif --trace sacct.txt --topology topology.conf --current slurm-switches --network slow --out answer

  dally whatif --trace sacct.txt --topology topology.conf --policy fifo-backfill --cluster-delta '+2 racks'

  dally whatif --scenario run1/scenario.toml --policy dally --seeds 1,2,3
"""


@takes_scenario()
def whatif(
    given: Given,
    policy: str = typer.Option("dally", metavar="NAME", help="The policy to try, by name or as FILE.py:Class."),
    settings: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="Set a parameter of --policy."),
    network: str = option("network", "as the topology states, else normal", "Or none: places do not matter."),
    current: str = typer.Option(
        None, metavar="NAME", help="The policy in use, or the one closest to it.  [default: fifo-backfill]"
    ),
    current_settings: list[str] = typer.Option(
        [], "--set-current", metavar="KEY=VALUE", help="Set a parameter of --current."
    ),
    new_network: str = typer.Option("", metavar="NAME", help="Try this network instead, on the new side only."),
    cluster_delta: str = typer.Option(
        "", metavar="CHANGE", help="Try another size of cluster, on the new side only: '+2 racks', '-1 machine'."
    ),
    top: int = typer.Option(10, metavar="N", min=1, help="Users and jobs that tables name."),
    out: Path = typer.Option(
        None, metavar="DIR", help="Leave whatif.json, report.html, results.parquet and a folder per run there."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print whatif.json instead of tables."),
    jobs: int = many.JOBS,
    progress: bool = many.PROGRESS,
) -> None:  # fmt: skip
    """Replay recorded jobs under the policy in use and under another, and say what would change for whom."""
    base = in_use(given, current, current_settings)
    tree = read_topology(base.cluster)
    preset, assumed = known_network(tree, network or base.network)
    if network == NO_NETWORK and base.network_settings:
        raise InputError("--network none and --set-network: give one of them")
    base.network = preset
    chosen = Chosen(policy, read_settings("--set", settings))
    question = Question(base, chosen, given.seeds([base.seed]), cluster_delta.strip(), new_network)
    assemble(base)  # what is wrong with the input is said before anything is run or written
    history = trace_options.read(Path(base.trace), base.trace_format, base.strict, base.zone)

    with tempfile.TemporaryDirectory() as temporary:
        folder = out or Path(temporary)
        runs = with_folders(both_sides(question, tree, folder), folder / "runs", report=out is not None)
        with many.open_store(out) as store:
            outcome = many.run_many(runs, many.workers_of("local", "", jobs), store, progress)
        many.end(outcome)
        new_gpus = read_topology(runs[-1].scenario.cluster).total_gpus()
        found = answer(question, history, runs, outcome.rows, top)
    names = question.labels()
    values: dict[str, Any] = {
        "current": names[0],
        "new": names[1],
        "network": preset,
        "network_assumed": assumed,
        "mix": base.mix,
        "seeds": question.seeds,
        "models_assumed": sum(not row.model for row in history.rows) if preset or has_links(tree) else 0,
        "gpus": [tree.total_gpus(), new_gpus],
        "skipped": outcome.rows[0]["skipped"],
        "no_longer_fit": outcome.rows[-1]["skipped"] if question.changes_cluster() else 0,
        **found.to_values(),
    }
    text = json.dumps(values, indent=2)
    if out:
        write_whole(out / "whatif.json", f"{text}\n".encode())
        leave_report(out, names[0])
    if as_json:
        typer.echo(text)
        return
    show(found, values, top)
    if out:
        typer.echo(f"Written to {out}; open {out / 'report.html'}")


def in_use(given: Given, policy: str | None, settings: list[str]) -> Scenario:
    """How the recorded jobs run today, but for the network."""
    values = {f"set.{key}": value for key, value in read_settings("--set-current", settings).items()}
    base = with_values(given.scenario(), values if policy is None else {"policy": policy, **values})
    require(base, "whatif", "trace", "cluster")
    return base
