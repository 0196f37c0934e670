"""What the commands of `dally trace` share: how they take a trace, and how they leave one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import typer

from dally.cli.commands import Command, shared_options
from dally.traces import History, read_history
from dally.traces.rows import counts_text
from dally.traces.writing import format_of, losses, text_of
from dally.whole_file import write_pieces

FILE: Any = typer.Argument(help="A trace of any format of docs/formats.md, gzipped or not.", metavar="TRACE")
OUT: Any = typer.Option(
    None, metavar="FILE", help="Where to write: .csv, .swf or .json, or each with .gz.  [default: csv to stdout]"
)


class TraceOptions(NamedTuple):
    """How a trace is to be read."""

    trace_format: str = "auto"
    strict: bool = False
    zone: str = "UTC"

    def history(self, file: Path) -> History:
        """The trace."""
        return read_history(file, *self)

    def read(self, file: Path) -> History:
        """The same; what of it could not be used is said on stderr."""
        history = self.history(file)
        if history.unused:
            say(f"{file}: left out {counts_text(history.unused)}")
        for what, count in history.notes.items():
            say(f"{file}: {count:,} jobs {what}")
        return history


def reads_trace(command: Command) -> Command:
    """Give a command the options of reading a trace in place of `options`."""
    options = {
        "trace_format": (str, typer.Option("auto", "--format", help="Format of the trace; auto: by its content.")),
        "strict": (
            bool,
            typer.Option(False, "--strict", help="Refuse rows that cannot be used, instead of counting them."),
        ),
        "zone": (str, typer.Option("UTC", help="Time zone of dates without one, as Asia/Shanghai.")),
    }
    return shared_options("options", options, _use)(command)


def _use(command: Command, shared: dict[str, Any], own: dict[str, Any]) -> None:
    command(options=TraceOptions(**shared), **own)


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
