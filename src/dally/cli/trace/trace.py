"""Show traces, change them, make new ones."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from dally.cli.commands import add_command, examples, group
from dally.cli.output import print_table
from dally.cli.trace.generate import generate
from dally.cli.trace.stats import stats
from dally.cli.trace.trace_options import FILE, OUT, TraceOptions, reads_trace, say, write
from dally.cluster.spec import read_topology
from dally.errors import InputError
from dally.report.time_text import span
from dally.traces import History
from dally.traces.changes import JobFilter, filtered, load_of, scaled
from dally.traces.changes import window as window_of
from dally.traces.rows import NOT_KNOWN, TraceRow
from dally.traces.times import Clock, span_s

COLUMNS = ("job", "submitted", "GPUs", "runs", "waited", "user", "name", "model", "status")


@examples("dally trace head cluster_job_log --jobs 5")
@reads_trace
def head(
    options: TraceOptions,
    file: Path = FILE,
    jobs: int = typer.Option(10, "--jobs", "-n", min=0, help="How many."),
    out: Path = OUT,
    as_json: bool = typer.Option(False, "--json", help="Print them as a JSON list."),
) -> None:
    """Show the jobs submitted first, or write them with --out."""
    history = options.read(file)
    history = history._replace(rows=history.rows[:jobs])
    if out:
        write(history, out)
    elif as_json:
        typer.echo(json.dumps([_flat(row) for row in history.rows], indent=2))
    else:
        rows = [
            (
                row.job_id, f"{row.submit_s:,.0f} s", str(row.spec.gpus), span(row.stated),
                "" if row.wait_s == NOT_KNOWN else span(row.wait_s), row.spec.user,
                row.spec.name, row.spec.model, row.status,
            )
            for row in history.rows
        ]  # fmt: skip
        print_table(COLUMNS, rows)


def _flat(row: TraceRow) -> dict[str, Any]:
    """All that the trace says of the job, what it asks for among the rest."""
    values = row._asdict()
    return values | asdict(values.pop("spec"))


@examples(
    "dally trace convert cluster_job_log philly.csv.gz",
    "dally trace convert jobs.csv jobs.swf",
    "dally trace convert accounting.txt jobs.csv --to helios --zone Europe/Berlin",
)
@reads_trace
def convert(
    options: TraceOptions,
    file: Path = FILE,
    out: Path = typer.Argument(help="The file to write; gzipped if it ends in .gz.", metavar="OUT"),
    to: str = typer.Option(
        None, help="csv, swf, helios, philly, sacct or tiresias.  [default: by OUT's name: .swf, .json, else csv]"
    ),
) -> None:
    """Write a trace in another format; dates are written in UTC."""
    write(options.read(file), out, to)


@examples(
    "dally trace window year.csv.gz --from 40d --to 54d --warmup 1d --out two-weeks.csv.gz",
    "dally trace window accounting.txt --from 2023-05-01 --to 2023-06-01 --zone Europe/Berlin --out may.csv",
)
@reads_trace
def window(
    options: TraceOptions,
    file: Path = FILE,
    from_: str = typer.Option("0", "--from", help="Where it begins: 90, 15m, 12h, 3d, or a date."),
    to: str | None = typer.Option(None, "--to", help="Where it ends.  [default: with the last job]"),
    warmup: str = typer.Option("0", help="Length of a warm-up before it, to fill the cluster."),
    out: Path = OUT,
) -> None:
    """Cut a window out of a trace.

    Jobs already running at its start keep their remaining time, jobs already waiting with all of
    theirs. The new trace's clock begins with the warm-up.
    """
    history = options.read(file)
    clock = Clock(options.zone)
    from_s = _instant_s("--from", from_, history, clock)
    to_s = float("inf") if to is None else _instant_s("--to", to, history, clock)
    warmup_s = span_s("--warmup", warmup)
    cut = window_of(history, from_s, to_s, warmup_s)
    if not cut.rows:
        raise InputError(f"{file}: no job runs or comes between --from {from_} and --to {to or 'the end'}")
    earlier = {row.job_id for row in history.rows if row.submit_s < from_s - warmup_s}
    carried = sum(row.job_id in earlier for row in cut.rows)
    if carried:
        say(f"{carried:,} jobs were running or waiting at the start")
    if warmup_s:
        say(f"the window itself begins at {min(warmup_s, from_s):g} s")
    write(cut, out)


def _instant_s(option: str, text: str, history: History, clock: Clock) -> float:
    """Seconds on the trace's clock of a time span or a date."""
    if not text[:4].isdigit() or "-" not in text:
        return span_s(option, text)
    if history.epoch_s is None:
        raise InputError(f"{option} {text!r}: the trace has no dates; give seconds, or a number with m, h or d")
    try:
        seconds = clock.seconds(text)
    except ValueError:
        seconds = None
    if seconds is None:
        raise InputError(f"{option} {text!r}: is not a date; expected one like 2023-05-01 or 2023-05-01T12:00")
    return max(seconds - history.epoch_s, 0.0)


@examples("dally trace scale jobs.csv --load 0.9 --cluster 10x8x8 --out busy.csv")
@reads_trace
def scale(
    options: TraceOptions,
    file: Path = FILE,
    load: float = typer.Option(help="The load to reach: GPU-time that arrives per GPU-time that passes."),
    cluster: str = typer.Option(help="RxMxG or a topology file: the GPUs to load."),
    out: Path = OUT,
) -> None:
    """Compress or stretch the arrivals of a trace until it loads a cluster to a given degree."""
    history = options.read(file)
    gpus = read_topology(cluster).total_gpus()
    changed = scaled(history, load, gpus)
    say(f"load on {gpus:,} GPUs: {load_of(history, gpus):.3f} before, {load_of(changed, gpus):.3f} now")
    write(changed, out)


@examples("dally trace filter jobs.csv --min-gpus 2 --status COMPLETED --out gangs.csv")
@reads_trace
def filter_jobs(
    options: TraceOptions,
    file: Path = FILE,
    min_gpus: int = typer.Option(0, help="Jobs of at least this many GPUs."),
    max_gpus: int | None = typer.Option(None, help="Jobs of at most this many GPUs."),
    min_duration: str = typer.Option("0", help="Jobs that run at least this long: 90, 15m, 12h, 3d."),
    max_duration: str | None = typer.Option(None, help="Jobs that run at most this long."),
    user: list[str] = typer.Option([], help="Jobs of this user; may be repeated."),
    status: list[str] = typer.Option(
        [], help="Jobs with this final status, as the trace spells it; may be repeated."
    ),
    model: list[str] = typer.Option([], help="Jobs that train this model; may be repeated."),
    gpu_type: list[str] = typer.Option([], help="Jobs on GPUs of this type; may be repeated."),
    account: list[str] = typer.Option([], help="Jobs of this account; may be repeated."),
    queue: list[str] = typer.Option([], help="Jobs of this queue or virtual cluster; may be repeated."),
    out: Path = OUT,
) -> None:
    """Keep the jobs that meet every condition given."""
    history = options.read(file)
    if history.length == "iterations" and (max_duration is not None or span_s("--min-duration", min_duration)):
        raise InputError(f"{file}: states iterations instead of durations")
    conditions = JobFilter(
        min_gpus,
        float("inf") if max_gpus is None else max_gpus,
        span_s("--min-duration", min_duration),
        float("inf") if max_duration is None else span_s("--max-duration", max_duration),
        user, status, model, gpu_type, account, queue,
    )  # fmt: skip
    left = filtered(history, conditions)
    say(f"{len(left.rows):,} of {len(history.rows):,} jobs kept")
    if not left.rows:
        raise InputError(f"{file}: no job meets these conditions")
    write(left, out)


app = group(__doc__)
for _name, _command in {
    "stats": stats, "head": head, "convert": convert, "window": window, "scale": scale, "filter": filter_jobs,
    "generate": generate,
}.items():  # fmt: skip
    add_command(app, _name, _command)
