"""`dally learn`."""

from __future__ import annotations

from pathlib import Path

import typer

from dally.cli.commands import examples
from dally.cli.trace.trace_options import TraceOptions, reads_trace
from dally.errors import InputError


@examples(
    "dally learn --trace last-month.csv --out learned.json",
    "dally simulate --trace jobs.csv --cluster 4x16x8 --policy dally --set learned=learned.json",
)
@reads_trace
def learn(
    options: TraceOptions,
    trace: Path = typer.Option(..., metavar="FILE", help="Jobs that have run, in any format of docs/formats.md."),
    out: Path = typer.Option(..., metavar="FILE", help="Where to write what was learnt."),
    forget: float = typer.Option(
        0.03, metavar="SHARE", min=0.0, max=1.0, help="What a user's class forgets with each job, as --set forget."
    ),
) -> None:
    """Learn from history how long jobs run, for `dally` to begin with: --set learned=FILE."""
    from dally.policies.prediction.hazard import HazardTable
    from dally.policies.prediction.learned import ended_jobs, table_text
    from dally.policies.prediction.learned import learn as fill
    from dally.whole_file import write_whole

    history = options.history(trace)
    if history.length == "iterations":
        raise InputError(f"{trace}: iterations: how long its jobs ran is not known; give duration_s or compute_s")
    table = HazardTable(forget=forget)
    jobs = ended_jobs(history)
    fill(table, jobs)
    write_whole(out, table_text(table).encode())
    users = len({job.user for job in jobs if job.user})
    typer.echo(f"Learnt from {len(jobs):,} jobs of {users:,} users. Written to {out}")
