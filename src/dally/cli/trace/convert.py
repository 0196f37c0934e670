"""`dally trace convert` and `dally trace head`."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from dally.cli.output import print_table
from dally.cli.trace.trace_options import FILE, FORMAT, OUT, STRICT, ZONE, read, write
from dally.report.time_text import span
from dally.traces.rows import NOT_KNOWN

EXAMPLES = """Examples:

  dally trace convert cluster_job_log philly.csv.gz

  dally trace convert jobs.csv jobs.swf

  dally trace convert accounting.txt jobs.csv --to helios --zone Europe/Berlin
"""
HEAD_EXAMPLES = "Example: dally trace head cluster_job_log --jobs 5"
COLUMNS = ("job", "submitted", "GPUs", "runs", "waited", "user", "name", "model", "status")


def convert(
    file: Path = FILE,
    out: Path = typer.Argument(help="The file to write; gzipped if it ends in .gz.", metavar="OUT"),
    to: str = typer.Option(
        None, help="csv, swf, helios, philly, sacct or tiresias.  [default: by OUT's name: .swf, .json, else csv]"
    ),
    trace_format: str = FORMAT,
    strict: bool = STRICT,
    zone: str = ZONE,
) -> None:
    """Write a trace in another format; dates are written in UTC."""
    write(read(file, trace_format, strict, zone), out, to)


def head(
    file: Path = FILE,
    jobs: int = typer.Option(10, "--jobs", "-n", min=0, help="How many."),
    out: Path = OUT,
    as_json: bool = typer.Option(False, "--json", help="Print them as a JSON list."),
    trace_format: str = FORMAT,
    strict: bool = STRICT,
    zone: str = ZONE,
) -> None:
    """Show the jobs submitted first, or write them with --out."""
    history = read(file, trace_format, strict, zone)
    history = history._replace(rows=history.rows[:jobs])
    if out:
        write(history, out)
    elif as_json:
        typer.echo(json.dumps([row._asdict() for row in history.rows], indent=2))
    else:
        print_table(
            COLUMNS,
            [
                (
                    row.job_id, f"{row.submit_s:,.0f} s", str(row.gpus), span(row.stated),
                    "" if row.wait_s == NOT_KNOWN else span(row.wait_s), row.user, row.name, row.model, row.status,
                )
                for row in history.rows
            ],
        )  # fmt: skip
