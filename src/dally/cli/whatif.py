"""`dally whatif`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import typer

from dally.cli import many, trace_options
from dally.cli.compare import leave_report
from dally.cli.whatif_tables import show
from dally.cluster.links import has_links
from dally.cluster.network_spec import read_settings
from dally.cluster.spec import read_topology
from dally.errors import InputError
from dally.runs.assemble import assemble
from dally.runs.scenario import Scenario
from dally.sweep.batch import with_folders
from dally.sweep.policy_list import Chosen
from dally.sweep.whatif import Question, answer, both_sides, known_network
from dally.whole_file import write_whole

EXAMPLES = """Examples:

  dally whatif --trace sacct.txt --topology topology.conf --policy dally

  dally whatif --trace sacct.txt --topology topology.conf --current slurm-switches --network slow --out answer

  dally whatif --trace sacct.txt --topology topology.conf --policy fifo-backfill --cluster-delta '+2 racks'
"""


def whatif(
    trace: str = typer.Option(None, help="Recorded jobs: sacct's output or another format of docs/formats.md."),
    topology: str = typer.Option(
        None, "--topology", "--cluster", help="topology.conf with gres.conf beside it, another topology, or RxMxG."
    ),
    policy: str = typer.Option("dally", help="The policy to try: a name from `dally policies`."),
    current: str = typer.Option("fifo-backfill", help="The policy in use, or the one closest to it."),
    settings: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="Set a parameter of --policy."),
    current_settings: list[str] = typer.Option(
        [], "--set-current", metavar="KEY=VALUE", help="Set a parameter of --current."
    ),
    network: str = typer.Option(
        None, metavar="NAME",
        help="The network in use: a preset, or none: places do not matter.  [default: as the topology states, "
        "else normal]",
    ),
    new_network: str = typer.Option("", metavar="NAME", help="Try this network instead, on the new side only."),
    cluster_delta: str = typer.Option(
        "", metavar="CHANGE", help="Try another size of cluster, on the new side only: '+2 racks', '-1 machine'."
    ),
    seeds: str = typer.Option("1", metavar="N,…", help="Seeds of everything drawn at random."),
    mix: str = typer.Option("benchmark", help="Models for jobs that name none."),
    restart_s: float = typer.Option(0.0, help="Seconds a gang that lost its GPUs needs before it works again."),
    restart_per_gpu_s: float = typer.Option(1.0, help="The same, per GPU of the gang."),
    trace_format: str = trace_options.FORMAT,
    strict: bool = trace_options.STRICT,
    zone: str = trace_options.ZONE,
    skip_impossible: bool = typer.Option(
        False, "--skip-impossible", help="Leave out, and count, jobs larger than the cluster."
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
    for option, value in (("--trace", trace), ("--topology", topology)):
        if not value:
            raise InputError(f"{option} is missing; see `dally whatif --help`")
    tree = read_topology(topology)
    preset, assumed = known_network(tree, network)
    base = Scenario(
        trace=trace, cluster=topology, policy=current, settings=read_settings("--set-current", current_settings),
        network=preset, mix=mix, trace_format=trace_format, strict=strict, zone=zone,
        skip_impossible=skip_impossible, restart_s=restart_s, restart_per_gpu_s=restart_per_gpu_s,
    )  # fmt: skip
    chosen = Chosen(policy, read_settings("--set", settings))
    question = Question(base, chosen, many.whole_numbers("--seeds", seeds), cluster_delta.strip(), new_network)
    assemble(base)  # what is wrong with the input is said before anything is run or written
    history = trace_options.read(Path(trace), trace_format, strict, zone)

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
        "mix": mix,
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
