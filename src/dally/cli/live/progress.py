"""Read what training jobs say of their progress."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import typer

from dally.cli.commands import group, in_group
from dally.cli.live.server_client import AS_JSON
from dally.input_file import STDIN, regular

app = group(__doc__)


@in_group(
    app,
    "parse",
    "dally progress parse slurm-4711.out",
    "dally progress parse slurm-4711.out --json",
    "dally progress parse train.log --pattern 'round {step} of {total}'",
)
def parse(
    file: Path = typer.Argument(help="The log; /dev/stdin works too."),
    pattern: str = typer.Option(
        "", metavar="TEXT", help="Instead of known frameworks: text with {step}, {total}, {epoch}, … for numbers."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Show what each line of a log says of the progress of training, as `dally serve` reads it.

    With --json one row per line of the file: step, total, epoch, epochs and s_per_step, or null where the line
    is none of training.
    """
    from dally.progress.line_parser import parse_line
    from dally.progress.own_pattern import OwnPattern

    read = OwnPattern(pattern).parse if pattern else parse_line
    count = matched = 0
    for line in _lines(file):
        progress = read(line)
        count += 1
        matched += progress is not None
        if as_json:
            typer.echo(json.dumps(None if progress is None else progress._asdict()))
        elif progress is not None:
            typer.echo(f"{count}: {progress.described()}")
    if not as_json:
        typer.echo(f"{matched} of {count} lines say how far training is.")


@in_group(app, "failure", "dally progress failure slurm-4711.out", "dally progress failure slurm-4711.out --json")
def failure(file: Path = typer.Argument(help="The log; /dev/stdin works too."), as_json: bool = AS_JSON) -> None:
    """Show why a job failed, from what it printed: the kind of failure, and the line that says so."""
    from dally.progress.failure import failure_in

    result = failure_in(_lines(file))
    if as_json:
        kind = None if result is None else result.kind
        row = {"kind": kind and kind.name, "line": result and result.line, "again": kind and kind.again}
        typer.echo(json.dumps(row))
    elif result is None:
        typer.echo("No line says why it failed.")
    else:
        typer.echo(f"{result.kind.about}: {result.line}")
        if result.kind.again:
            typer.echo("Another run may do better.")


def _lines(file: Path) -> Iterator[str]:
    """The lines of a log; what is not text in UTF-8 is replaced, as logs may hold anything."""
    path = file if str(file) in STDIN else regular(file)
    with path.open(encoding="utf-8", errors="replace", newline="\n") as opened:
        for line in opened:
            yield line.removesuffix("\n")
