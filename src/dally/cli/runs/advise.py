"""`dally advise`."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import typer

from dally.cli.commands import examples
from dally.cli.live.server_client import AS_JSON


@examples(
    "dally advise train.sh --past sacct.txt",
    "dally advise train.sh --past sacct.txt --user ana --json",
)
def advise(
    script: Path = typer.Argument(help="The batch script; its #SBATCH lines count."),
    past: Path = typer.Option(..., metavar="FILE", help="Earlier jobs, in a format of docs/formats.md."),
    user: str = typer.Option("", metavar="NAME", help="Whose job it is.", show_default="you"),
    as_json: bool = AS_JSON,
) -> None:
    """Say how long a job will run and how its limit fits, from earlier jobs alone; nothing leaves this machine."""
    from dally.input_file import read_text
    from dally.report.advice import advise_on, request_of
    from dally.traces import read_history

    request = request_of(read_text(script), user or getpass.getuser())
    advice = advise_on(request, read_history(past).rows)
    if as_json:
        typer.echo(json.dumps(advice.plain()))
        return
    for line in advice.lines(request):
        typer.echo(line)
