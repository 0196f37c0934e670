"""`dally whatif`."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import typer

from dally.cli.commands import examples
from dally.cli.output import print_parts
from dally.cli.runs.batch import JOBS, PROGRESS, Batch, end, open_store
from dally.cli.runs.scenario_options import ScenarioOptions, option, require, takes_scenario, with_values
from dally.cli.trace.trace_options import TraceOptions
from dally.cluster.spec import read_settings
from dally.errors import InputError
from dally.metrics.summary import Row
from dally.report.question_text import buying_parts, saving_parts, three_parts
from dally.report.whatif_text import whatif_parts
from dally.runs.scenario import Scenario
from dally.sweep.batch import Outcome
from dally.sweep.run import Run
from dally.sweep.whatif.calibration import Carry
from dally.sweep.whatif.change import Change, Replay
from dally.sweep.whatif.from_history import HistoryQuestion, HistoryWhatIf
from dally.sweep.whatif.questions import purchases, three_questions
from dally.sweep.whatif.smaller import Trials
from dally.sweep.whatif.smaller import save_gpus as smallest
from dally.sweep.workers.local import LocalWorkers
from dally.whole_file import write_whole

SEEDS = 3
MANY_JOBS = 5000  # from here on one seed, as draws of models even out, and progress without a terminal too
NEW_TOPOLOGY = typer.Option(
    "", metavar="RxMxG|FILE", help="Try another cluster, on the new side only.", show_default=False
)
CLUSTER_DELTA = typer.Option(
    "",
    metavar="CHANGE",
    help="Try another size of cluster, on the new side only: '+2 racks', '-1 machine'.",
    show_default=False,
)
NEW_QUEUES = typer.Option(
    "", metavar="FILE", help="Try these queues, on the new side only; --queues are today's.", show_default=False
)
QUOTAS = typer.Option(
    [],
    "--quota",
    metavar="QUEUE.KEY=VALUE",
    help="Try another guarantee, limit, lend_limit, weight or priority, on the new side only: "
    "research.limit=64; research.guarantee=+64 adds to what is there.",
)
NEW_ELASTIC = typer.Option(
    "", metavar="KEY=VALUE,…",
    help="Let jobs run on other numbers of GPUs, on the new side only: share=0.5,min=0.5,max=2 (docs/elastic.md).",
    show_default=False,
)  # fmt: skip
SAVE_GPUS = typer.Option(
    False, "--save-gpus", help="Find the smallest cluster on which the mean job waits no longer than today."
)
BUY = typer.Option(False, "--buy", help="Compare more machines, faster links and spare machines side by side.")
TRACE = typer.Argument("", metavar="TRACE", help="The same as --trace.", show_default=False)
SET_CURRENT = typer.Option([], "--set-current", metavar="KEY=VALUE", help="Set a parameter of --current.")


@examples(
    "dally whatif sacct.txt --topology topology.conf",
    "dally whatif sacct.txt --topology topology.conf --save-gpus",
    "dally whatif sacct.txt --topology topology.conf --buy --failure-rate 0.01",
    "dally whatif --trace sacct.txt --topology topology.conf --policy dally",
    "dally whatif --trace sacct.txt --topology topology.conf --current slurm-switches --network slow --out answer",
    "dally whatif --trace sacct.txt --topology topology.conf --policy fifo-backfill --cluster-delta '+2 racks'",
    "dally whatif --trace sacct.txt --topology topology.conf --new-topology planned.conf"
    " --set-new-network nic_gbps=50",
    "dally whatif --trace sacct.txt --topology topology.conf --queues queues.toml --quota research.guarantee=+64",
    "dally whatif --scenario run1/scenario.toml --policy dally --seeds 1,2,3",
)
@takes_scenario(
    without={"snapshot": "recorded jobs are replayed from the first on; `dally compare --from` takes one"}
)
def whatif(
    options: ScenarioOptions,
    record: str = TRACE,
    policy: str = typer.Option(
        None, metavar="NAME",
        help="The policy to try: its name or FILE.py:Class.  [default: dally; for other queues the one in use]",
    ),
    settings: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="Set a parameter of --policy."),
    network: str = option(
        "network", "as the topology states, else the one that fits the record", "Or none: places do not matter."
    ),
    current: str = typer.Option(
        None, metavar="NAME",
        help="The policy in use, or the one closest to it.  [default: the one whose replay fits the record best]",
    ),
    current_settings: list[str] = SET_CURRENT,
    calibrate: bool = typer.Option(
        True, "--calibrate/--no-calibrate",
        help="Search for the policy in use and its network, as far as they are not stated.",
    ),
    new_topology: str = NEW_TOPOLOGY,
    cluster_delta: str = CLUSTER_DELTA,
    new_network: str = typer.Option(
        "", metavar="NAME", help="Try this network instead, on the new side only.", show_default=False
    ),
    new_network_settings: list[str] = typer.Option(
        [], "--set-new-network", metavar="KEY=VALUE", help="Override one value of the new side's network."
    ),
    new_queues: str = NEW_QUEUES,
    quotas: list[str] = QUOTAS,
    new_elastic: str = NEW_ELASTIC,
    save_gpus: bool = SAVE_GPUS,
    buy: bool = BUY,
    top: int = typer.Option(10, metavar="N", min=1, help="Users and jobs that tables name."),
    out: Path = typer.Option(
        None, metavar="DIR", help="Leave whatif.json, report.html, results.parquet and a folder per run there."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print whatif.json instead of tables."),
    jobs: int = JOBS,
    progress: bool = PROGRESS,
) -> None:  # fmt: skip
    """Replay recorded jobs under the policy in use and under another, and show what changes, by user and job."""
    base = in_use(options.with_trace(record), current, current_settings)
    history = TraceOptions(base.trace_format, base.strict, base.zone).read(Path(base.trace))
    links = read_settings("--set-new-network", new_network_settings)
    change = Change(
        policy or "", read_settings("--set", settings), new_topology, cluster_delta.strip(), new_network, links,
        new_queues, tuple(quotas), new_elastic,
    )  # fmt: skip
    kind = _kind(change, save_gpus, buy)
    many = len(history.rows) > MANY_JOBS
    question = HistoryQuestion(
        base, change, options.seeds([base.seed + more for more in range(1 if many else SEEDS)]),
        bool(current) or options.start is not None, network or "", calibrate,
    )  # fmt: skip
    workers = LocalWorkers(jobs)
    with workers.reused():
        more = More(kind, change, question.seeds)
        replay = carried_out(HistoryWhatIf(question, history), out, Batch(workers, progress, many), top, more)
    show(replay, top, out, as_json, kind)


def _kind(change: Change, save_gpus: bool, buy: bool) -> str:
    """Which question is asked beside the comparison: empty, if none."""
    if save_gpus and buy:
        raise InputError("--save-gpus and --buy: ask one of them at a time")
    if not (save_gpus or buy):
        return "" if change != Change() else "questions"
    if change.changes_cluster() or change.changes_queues():
        raise InputError(f"--{'buy' if buy else 'save-gpus'} changes the cluster itself: give --policy at most")
    return "buy" if buy else "save_gpus"


class More(NamedTuple):
    """A question beside the comparison: its name among the values, the policy that is named, the seeds."""

    kind: str
    change: Change  # of the policy and its settings alone
    seeds: Sequence[int]

    def ask(self, request: HistoryWhatIf, rows: Sequence[Row], folder: Path, carry: Carry) -> dict[str, Any]:
        """Its values, by the name of the question."""
        if self.kind == "questions":
            return {self.kind: three_questions(request, rows, self.seeds, folder, carry)}
        trials = Trials(request, self.seeds, folder / self.kind, carry)
        if self.kind == "buy":
            return {self.kind: purchases(trials, self.change)}
        return {self.kind: smallest(trials, self.change)}


def carried_out(request: HistoryWhatIf, out: Path | None, batch: Batch, top: int, more: More) -> Replay:
    """The answer, by runs of the batch; `out` keeps them."""
    with tempfile.TemporaryDirectory() as temporary, open_store(out) as store:

        def carry(runs: list[Run]) -> list[Row]:
            return _rows(batch.run(runs, store))

        def carry_beside(runs: list[Run]) -> list[Row]:  # results.parquet holds the comparison's runs alone
            return _rows(batch.run(runs, None))

        folder = out or Path(temporary)
        replay = request.answer(folder, carry, top, report=out is not None).replay
        assert replay is not None
        if more.kind:
            replay.values.update(more.ask(request, replay.rows, folder, carry_beside))
    return replay


def _rows(outcome: Outcome) -> list[Row]:
    if outcome.bad_input:
        raise InputError(outcome.bad_input)
    end(outcome)
    return outcome.rows


PARTS = {"questions": three_parts, "save_gpus": saving_parts, "buy": buying_parts}


def show(replay: Replay, top: int, out: Path | None, as_json: bool, kind: str = "") -> None:
    """Print the answer, and leave it in `out`."""
    text = json.dumps(replay.values, indent=2)
    if out:
        write_whole(out / "whatif.json", f"{text}\n".encode())
        from dally.report.html.build import write_whatif

        write_whatif(out)
    if as_json:
        typer.echo(text)
        return
    parts = PARTS.get(kind)
    print_parts(parts(replay.values) if parts else whatif_parts(replay.values, replay.top_users, top))
    if out:
        typer.echo(f"Written to {out}; open {out / 'report.html'}")


def in_use(options: ScenarioOptions, policy: str | None, settings: list[str]) -> Scenario:
    """How the recorded jobs run today, but for the network; the policy counts if it is named."""
    values = {f"set.{key}": value for key, value in read_settings("--set-current", settings).items()}
    if values and policy is None and options.start is None:
        raise InputError(f"--set-current {settings[0]}: say of which policy with --current NAME")
    if options.start is None:
        values["durations"] = options.values.get("durations", "recorded")
    base = with_values(options.scenario(), values if policy is None else {"policy": policy, **values})
    require(base, "whatif", "trace", "cluster")
    return base
