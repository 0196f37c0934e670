"""`dally simulate`."""

from __future__ import annotations

import gc
import json
from dataclasses import replace
from math import exp
from pathlib import Path
from time import perf_counter
from typing import Any

import typer

from dally.cli.output import print_table, progress_of
from dally.cluster.network_spec import read_settings
from dally.errors import InputError
from dally.metrics.summary import summarize
from dally.report.cost import cost
from dally.report.run_folder import prepare_folder, write_run
from dally.report.time_text import span
from dally.scenario import Scenario, read_scenario
from dally.traces.rows import told

EXAMPLES = """Examples:

  dally simulate --trace jobs.csv --cluster 4x16x8 --policy fifo-backfill

  dally simulate --trace jobs.csv.gz --cluster lab.toml --policy las --set lease_s=1800 --out run1

  dally simulate --trace jobs.csv --cluster 4x16x8 --network slow --congestion 0.5

  dally simulate --scenario run1/scenario.toml --json
"""
MOST_EVENTS = 200_000  # up to here a report takes well under a second; longer runs say --report


def simulate(
    trace: str = typer.Option(
        None, help="Jobs: csv with job_id, submit_s, gpus, duration_s, or another format of docs/formats.md."
    ),
    cluster: str = typer.Option(
        None, help="RxMxG (racks x machines x GPUs, e.g. 4x16x8; MxG and PxRxMxG work too) or a topology file."
    ),
    policy: str = typer.Option(None, help="A name from `dally policies`.  [default: fifo-backfill]"),
    settings: list[str] = typer.Option([], "--set", metavar="KEY=VALUE", help="Set a parameter of the policy."),
    scenario: Path = typer.Option(
        None, help="Repeat the run that left this scenario.toml; other options change it."
    ),
    seed: int = typer.Option(None, help="Seed of everything drawn at random.  [default: 1]"),
    until: float = typer.Option(None, metavar="SECONDS", help="Stop the clock then, on the trace's own clock."),
    network: str = typer.Option(
        None, help="How fast links are: fast, normal, slow, congested, a100-nvswitch-8x200g and others."
    ),
    network_settings: list[str] = typer.Option(
        [], "--set-network", metavar="KEY=VALUE", help="Override one value of the network."
    ),
    congestion: str = typer.Option(
        None, help="Background load on every link above the machine: a share, or TIER=SHARE,…"
    ),
    mix: str = typer.Option(
        None, help="Models for jobs that name none: benchmark, uniform, lingjun, paper.  [default: benchmark]"
    ),
    gpu: str = typer.Option(None, metavar="TYPE", help="GPU type of the models' times.  [default: a100]"),
    profiles: str = typer.Option(None, metavar="FILE", help="Models of your own, in TOML."),
    out: Path = typer.Option(
        None, metavar="DIR",
        help="For summary.json, jobs.csv, report.html, scenario.toml, and tables of events, decisions, slots.",
    ),
    report: bool | None = typer.Option(
        None, "--report/--no-report",
        help="Write report.html too.  [default: with --out, up to 200,000 events]",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the summary as JSON instead of a table."),
    progress: bool = typer.Option(
        None, "--progress/--no-progress", help="Show a progress bar.  [default: if stderr is a terminal]"
    ),
    skip_impossible: bool = typer.Option(
        None, "--skip-impossible", help="Leave out, and count, jobs larger than the cluster."
    ),
    trace_format: str = typer.Option(
        None, "--format", help="Format of the trace.  [default: auto, told by its content]"
    ),
    strict: bool = typer.Option(
        None, "--strict", help="Refuse a trace with rows that cannot be used, instead of counting them."
    ),
    zone: str = typer.Option(None, help="Time zone of local times in the trace, as Asia/Shanghai.  [default: UTC]"),
    restart_s: float = typer.Option(
        None, help="Seconds a gang that lost its GPUs needs before it works again.  [default: 0]"
    ),
    restart_per_gpu_s: float = typer.Option(None, help="The same, per GPU of the gang.  [default: 1]"),
    checkpoint_every: float = typer.Option(
        None, metavar="SECONDS",
        help="Work between checkpoints: what a machine failure undoes.  [default: it undoes nothing]",
    ),
    failures: str = typer.Option(
        None, metavar="FILE", help="Machine outages: csv with machine, fail_s, repair_s."
    ),
    failure_rate: float = typer.Option(None, help="Random failures per machine and day.  [default: 0]"),
    repair_s: float = typer.Option(None, help="Seconds until such a machine is back.  [default: 3600]"),
) -> None:  # fmt: skip
    """Run a trace on a cluster under a policy, and say how it went."""
    began = perf_counter()
    gc.disable()  # all that a run makes lives to its end: looking for garbage in it finds none, ever slower
    base = read_scenario(scenario) if scenario else Scenario(trace="", cluster="", policy="fifo-backfill")
    given: dict[str, Any] = {
        "trace": trace, "cluster": cluster, "policy": policy, "seed": seed, "until_s": until,
        "skip_impossible": skip_impossible, "restart_s": restart_s, "restart_per_gpu_s": restart_per_gpu_s,
        "checkpoint_every_s": checkpoint_every, "failures": failures, "failure_rate": failure_rate,
        "repair_s": repair_s, "network": network, "congestion": congestion, "mix": mix, "gpu": gpu,
        "profiles": profiles, "trace_format": trace_format, "strict": strict, "zone": zone,
    }  # fmt: skip
    chosen = replace(base, **{name: value for name, value in given.items() if value is not None})
    if policy and policy != base.policy:
        chosen.settings = {}  # another policy's parameters
    chosen.settings = {**chosen.settings, **read_settings("--set", settings)}
    chosen.network_settings = {
        **chosen.network_settings, **read_settings("--set-network", network_settings),
    }  # fmt: skip
    chosen.digests = {name: digest for name, digest in base.digests.items() if name in chosen.files()}
    if report and not out:
        raise InputError("--report: say where with --out DIR")
    for name in ("trace", "cluster"):
        if not getattr(chosen, name):
            raise InputError(f"--{name} is missing; see `dally simulate --help`")

    simulation, jobs = chosen.prepare()
    if out:
        prepare_folder(out)
    with progress_of(len(simulation.jobs), progress) as show:
        simulation.run(chosen.until_s, show)
    summary = {"policy": chosen.policy, "seed": chosen.seed, **summarize(simulation), "skipped": jobs.skipped}
    summary["unused"] = jobs.unused
    if jobs.epoch_s is not None:
        summary["epoch_s"] = jobs.epoch_s
    summary |= cost(began)
    if out:
        write_run(out, simulation, summary, chosen.to_toml())
        if report or (report is None and summary["events"] <= MOST_EVENTS):
            _report(out)
        summary |= cost(began)
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
    else:
        print_summary(summary)
        for what, count in jobs.notes.items():
            typer.echo(f"{count:,} jobs {what}")
        if simulation.stuck:
            left = summary["jobs"] - summary["finished"]
            typer.echo(f"Jobs still waiting when nothing more could happen: {left}")
        if out:
            typer.echo(f"Written to {out}")


def _report(folder: Path) -> None:
    """Write report.html about the run that the folder holds."""
    from dally.report.explain import RunRecords
    from dally.report.html.build import write_page
    from dally.report.html.run_page import run_page

    try:
        write_page(run_page(RunRecords(folder)), folder / "report.html")
    except KeyboardInterrupt:
        typer.echo(f"dally: interrupted; {folder} holds everything but report.html", err=True)
        raise typer.Exit(1) from None


def print_summary(summary: dict[str, Any]) -> None:
    """Print one run for people."""
    tiers = ", ".join(f"{count:,} {tier}" for tier, count in summary["tier_starts"].items())
    finished = [
        ("makespan", f"{span(summary['makespan_s'])}  (at least {span(summary['makespan_bound_s'])})"),
        ("mean JCT", f"{span(summary['jct_mean_s'])}  (at least {span(summary['jct_bound_s'])})"),
        ("JCT p50 / p95 / p99", " / ".join(span(summary[f"jct_p{p}_s"]) for p in (50, 95, 99))),
        ("waiting, mean / p99", f"{span(summary['queue_mean_s'])} / {span(summary['queue_p99_s'])}"),
    ]
    communication = [
        ("exposed communication", f"{span(summary['comm_s'])}  (at least {span(summary['comm_floor_s'])})")
    ]
    factor = exp(summary["prediction_log_error"])
    off = f"median {summary['prediction_error_p50']:.0%}, on average a factor of {factor:.1f}"
    predictions = [("predicted durations are off by", off)] if summary["prediction_log_error"] else []
    rows = [
        ("policy", summary["policy"]),
        ("jobs finished", f"{summary['finished']:,} of {summary['jobs']:,}"),
        *([("too large, left out", f"{summary['skipped']:,}")] if summary["skipped"] else []),
        *([("rows left out", told(summary["unused"]))] if summary["unused"] else []),
        *(finished if summary["finished"] else []),
        *(communication if summary["comm_s"] else []),
        ("GPUs held / computing", f"{summary['utilization']:.1%} / {summary['goodput']:.1%}"),
        (
            "preemptions, renewals, migrations",
            ", ".join(f"{summary[name]:,}" for name in ("preemptions", "renewals", "migrations")),
        ),
        ("placements by tier", tiers),
        *predictions,
        ("events", f"{summary['events']:,} in {summary['cpu_s']:.2f} s CPU, {summary['peak_rss_mb']:.0f} MB"),
    ]
    print_table(["", ""], rows)
