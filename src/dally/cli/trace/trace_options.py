"""What the commands of `dally trace` share: how they take a trace, and how they leave one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from dally.traces import History, read_history
from dally.traces.rows import told
from dally.traces.writing import format_of, losses, text_of
from dally.whole_file import write_pieces

FILE: Any = typer.Argument(help="A trace of any format of docs/formats.md, gzipped or not.", metavar="TRACE")
FORMAT: Any = typer.Option("auto", "--format", help="Format of the trace; auto: told by its content.")
STRICT: Any = typer.Option(False, "--strict", help="Refuse rows that cannot be used, instead of counting them.")
ZONE: Any = typer.Option("UTC", help="Time zone of dates without one, as Asia/Shanghai.")
OUT: Any = typer.Option(
    None, metavar="FILE", help="Where to write: .csv, .swf or .json, or each with .gz.  [default: csv to stdout]"
)


def read(file: Path, trace_format: str, strict: bool, zone: str) -> History:
    """The trace; what of it could not be used is said on stderr."""
    history = read_history(file, trace_format, strict, zone)
    if history.unused:
        say(f"{file}: left out {told(history.unused)}")
    for what, count in history.notes.items():
        say(f"{file}: {count:,} jobs {what}")
    return history


def write(history: History, out: Path | None, name: str | None = None) -> None:
    """Write the trace whole, and say on stderr what the format cannot hold."""
    name = name or (format_of(out.name) if out else "csv")
    text = text_of(history, name)
    for loss in losses(history, name):
        say(loss)
    if out is None:
        sys.stdout.writelines(text)
    else:
        write_pieces(out, text)
        say(f"{len(history.rows):,} jobs written to {out}")


def say(text: str) -> None:
    """A line on stderr, so that stdout holds the trace alone."""
    typer.echo(text, err=True)
