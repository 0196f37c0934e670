"""`dally whatif`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import typer

from dally.cli import many, trace_options
from dally.cli.compare import leave_report
from dally.cli.given import Given, require, takes_scenario, with_values
from dally.cli.output import print_table
from dally.cli.scenario_options import option
from dally.cluster.network_spec import read_settings
from dally.policies.registry import USUAL_POLICY
from dally.runs.scenario import Scenario
from dally.sweep.batch import with_folders
from dally.sweep.policy_list import Chosen
from dally.sweep.whatif import answer, both_sides
from dally.sweep.whatif_posed import pose, values_of
from dally.sweep.whatif_tables import told
from dally.whole_file import write_whole

EXAMPLES = """Examples:

  dally whatif --trace sacct.txt --topology topology.conf --policy dally

  dally whatif --trace sacct.txt --topology topology.conf --current slurm-switches --network slow --out answer

  dally whatif --trace sacct.txt --topology topology.conf --policy fifo-backfill --cluster-delta '+2 racks'

  dally whatif --scenario run1/scenario.toml --policy dally --seeds 1,2,3
"""

CURRENT = "fifo-backfill"  # most clusters run something like it


@takes_scenario(
    without={"snapshot": "recorded jobs are replayed from the first on; `dally compare --from` takes one"}
)
def whatif(
    given: Given,
    policy: str = typer.Option(USUAL_POLICY, metavar="NAME", help="The policy to try: its name or FILE.py:Class."),
    settings: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="Set a parameter of --policy."),
    network: str = option("network", "as the topology states, else normal", "Or none: places do not matter."),
    current: str = typer.Option(
        None, metavar="NAME", help=f"The policy in use, or the one closest to it.  [default: {CURRENT}]"
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
    chosen = Chosen(policy, read_settings("--set", settings))
    posed = pose(base, network or "", chosen, given.seeds([base.seed]), cluster_delta, new_network)
    question = posed.question
    history = trace_options.read(Path(base.trace), base.trace_format, base.strict, base.zone)

    with tempfile.TemporaryDirectory() as temporary:
        folder = out or Path(temporary)
        runs = with_folders(both_sides(question, posed.topology, folder), folder / "runs", report=out is not None)
        with many.open_store(out) as store:
            outcome = many.run_many(runs, many.workers_of("local", "", jobs), store, progress)
        many.end(outcome)
        found = answer(question, history, runs, outcome.rows, top)
        values = values_of(posed, history, runs, outcome.rows, found)
    text = json.dumps(values, indent=2)
    if out:
        write_whole(out / "whatif.json", f"{text}\n".encode())
        leave_report(out, question.labels()[0])
    if as_json:
        typer.echo(text)
        return
    for part in told(found, values, top):
        if isinstance(part, str):
            typer.echo(part)
        else:
            print_table(part.headings, part.texts(), part.numbers_from)
    if out:
        typer.echo(f"Written to {out}; open {out / 'report.html'}")


def in_use(given: Given, policy: str | None, settings: list[str]) -> Scenario:
    """How the recorded jobs run today, but for the network."""
    values = {f"set.{key}": value for key, value in read_settings("--set-current", settings).items()}
    if policy is None and given.start is None and "snapshot" not in given.values:
        policy = CURRENT
    if given.start is None:
        values["durations"] = given.values.get("durations", "recorded")
    base = with_values(given.scenario(), values if policy is None else {"policy": policy, **values})
    require(base, "whatif", "trace", "cluster")
    return base
