"""What failures cost, and what to do about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer

from dally.cli.commands import group, in_group
from dally.cli.live.server_client import AS_JSON
from dally.cli.output import print_table
from dally.errors import InputError

app = group(__doc__)
DAY_S = 86400.0


@in_group(
    app,
    "plan",
    "dally health plan --machines 63 --rate 0.0065 --restart-s 600 --checkpoint-s 60",
    "dally health plan --history outages.csv --cluster lab.toml --days 90",
    "dally health plan --machines 2048 --rate 0.0065 --gpus 512,4096,16384 --simulate --json",
)
def plan(
    machines: int = typer.Option(64, "--machines", metavar="N", help="Machines of the cluster."),
    rate: float = typer.Option(0.0065, "--rate", metavar="NUMBER", help="Failures per machine and day."),
    history: Path | None = typer.Option(
        None, "--history", metavar="FILE", help="Outages instead: csv with machine, fail_s, repair_s."
    ),
    cluster: str = typer.Option("", "--cluster", metavar="FILE|RxMxG", help="The machines of the history."),
    days: float = typer.Option(0.0, "--days", metavar="NUMBER", help="How long the history is."),
    sizes: str = typer.Option("", "--gpus", metavar="N,…", help="Sizes of jobs; else powers of 2 up to all."),
    per_machine: int = typer.Option(8, "--gpus-per-machine", metavar="N", help="GPUs of a machine."),
    checkpoint_s: float = typer.Option(
        60.0, "--checkpoint-s", metavar="SECONDS", help="What writing a checkpoint takes."
    ),
    restart_s: float = typer.Option(300.0, "--restart-s", metavar="SECONDS", help="Until a gang works again."),
    repair_s: float = typer.Option(86400.0, "--repair-s", metavar="SECONDS", help="Until a machine is back."),
    simulate: bool = typer.Option(False, "--simulate", help="The engine's own figure beside the closed form."),
    seed: int = typer.Option(1, "--seed", metavar="N", help="Seed of the simulation."),
    as_json: bool = AS_JSON,
) -> None:
    """Plan for failures: effective training time, checkpoint interval and spares by size of job.

    The effective training time ratio (ETTR) is the share of a gang's time that is work, at the interval between
    checkpoints that makes it largest. Spares are machines beyond the job's: with them enough are up in 99 % of
    moments.
    """
    facts: dict[str, Any] = {"machines": machines, "failures_per_machine_day": rate, "lemons": []}
    if history is not None:
        facts = read_facts(history, cluster, days)
        machines, rate = facts["machines"], facts["failures_per_machine_day"]
        repair_s = facts.get("repair_s") or repair_s
    check(machines, rate, per_machine, days, checkpoint_s, restart_s, repair_s)
    rows = [
        size_row(gpus, per_machine, rate, checkpoint_s, restart_s, repair_s, seed if simulate else None)
        for gpus in gang_sizes(sizes, machines, per_machine)
    ]
    if as_json:
        typer.echo(json.dumps({**facts, "repair_s": repair_s, "sizes": rows}, indent=2))
        return
    typer.echo(
        f"{machines} machines, {rate:.4g} failures per machine and day, repaired in {repair_s / 3600.0:.3g} h"
    )
    if facts["lemons"]:
        typer.echo(f"Lemons, which fail more often than chance explains: {', '.join(facts['lemons'])}")
    headings = ["GPUs", "failures a day", "checkpoint every, min", "ETTR, %", "spares"]
    lines = [
        [f"{row['gpus']:,}", f"{row['failures_per_day']:.3g}", f"{row['checkpoint_every_s'] / 60.0:.1f}",
         f"{100.0 * row['ettr']:.1f}", str(row["spares"])] for row in rows
    ]  # fmt: skip
    if simulate:
        headings.insert(4, "simulated, %")
        for line, row in zip(lines, rows, strict=True):
            line.insert(4, f"{100.0 * row['ettr_simulated']:.1f}")
    print_table(headings, lines)


def check(machines: int, rate: float, per_machine: int, days: float, *seconds: float) -> None:
    """InputError for numbers that cannot be."""
    if machines < 1 or per_machine < 1:
        raise InputError("--machines, --gpus-per-machine: must be 1 or more")
    if not 0.0 < rate < 1000.0:
        raise InputError(f"--rate {rate:g}: must be above 0 and below 1000 failures per machine and day")
    if not 0.0 <= days < float("inf"):
        raise InputError(f"--days {days:g}: must not be negative")
    names = ("--checkpoint-s", "--restart-s", "--repair-s")
    for name, value in zip(names, seconds, strict=True):
        if not 0.0 <= value < float("inf"):
            raise InputError(f"{name} {value:g}: must be a number of seconds, not negative")


def gang_sizes(text: str, machines: int, per_machine: int) -> list[int]:
    """The sizes asked for, or powers of 2 of machines."""
    if not text:
        counts = [2**power for power in range(machines.bit_length()) if 2**power < machines]
        return [count * per_machine for count in [*counts, machines]]
    sizes: list[int] = []
    for part in text.split(","):
        if not part.strip().isdecimal() or not 0 < int(part) <= machines * per_machine:
            raise InputError(f"--gpus {part.strip()}: must be a whole number from 1 to {machines * per_machine}")
        sizes.append(int(part))
    return sizes


def size_row(
    gpus: int,
    per_machine: int,
    rate: float,
    checkpoint_s: float,
    restart_s: float,
    repair_s: float,
    seed: int | None,
) -> dict[str, Any]:
    """What is to be known of jobs of that size."""
    from dally.health.training_time import best_interval_s, effective_share, spares

    count = -(-gpus // per_machine)
    per_s = rate * count / DAY_S
    every_s = best_interval_s(per_s, checkpoint_s)
    row: dict[str, Any] = {
        "gpus": gpus, "machines": count, "failures_per_day": rate * count, "checkpoint_every_s": every_s,
        "ettr": effective_share(per_s, every_s, checkpoint_s, restart_s),
        "spares": spares(count, rate / DAY_S, repair_s),
    }  # fmt: skip
    if seed is not None:
        from dally.runs.training_runs import simulated_share

        row["ettr_simulated"] = simulated_share(
            count, rate, every_s, checkpoint_s, restart_s, repair_s, seed, more_machines=row["spares"] + 4
        )
    return row


def read_facts(path: Path, cluster: str, days: float) -> dict[str, Any]:
    """Rate, mean repair and lemons of a history of outages."""
    from dally.cluster.spec import read_topology
    from dally.health.lemons import lemons
    from dally.traces import read_outages

    if not cluster or days <= 0.0:
        raise InputError("--history: give --cluster, whose machines it names, and --days, how long it is")
    topology = read_topology(cluster)
    names = topology.names[0]
    outages = read_outages(path, topology.machine_numbers())
    if not outages:
        raise InputError(f"{path}: holds no outage: give --rate instead")
    counts = dict.fromkeys(names, 0)
    for machine, _, _ in outages:
        counts[names[machine]] += 1
    repairs = [until_s - from_s for _, from_s, until_s in outages if until_s < float("inf")]
    return {
        "machines": len(names), "failures_per_machine_day": len(outages) / len(names) / days,
        "lemons": lemons(counts), "repair_s": sum(repairs) / len(repairs) if repairs else 0.0,
    }  # fmt: skip
