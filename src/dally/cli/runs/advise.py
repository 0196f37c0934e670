"""`dally advise`."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import typer

from dally.cli.commands import examples
from dally.cli.live.server_client import AS_JSON, SERVER, TOKEN_FILE, Server
from dally.cli.output import plain


@examples(
    "dally advise train.sh",
    "dally advise train.sh --past sacct.txt",
    "dally advise train.sh --past sacct.txt --user ana --json",
)
def advise(
    script: Path = typer.Argument(help="The batch script; its #SBATCH lines count."),
    past: Path | None = typer.Option(
        None,
        metavar="FILE",
        help="Earlier jobs, in a format of docs/formats.md.  [default: those that the running scheduler knows]",
    ),
    user: str = typer.Option("", metavar="NAME", help="Whose job it is.", show_default="you"),
    address: str = SERVER,
    token_file: Path = TOKEN_FILE,
    as_json: bool = AS_JSON,
) -> None:
    """Say how long a job will run and how its limit fits, from earlier jobs alone; nothing leaves this machine."""
    from dally.input_file import read_text
    from dally.report.advice import advise_on, request_of
    from dally.traces import read_history

    request = request_of(read_text(script), user or getpass.getuser())
    if past is None:
        values = {name: value or None for name, value in request._asdict().items()}
        answer = Server(address, token_file).get("advice", **values)
        lines = answer.pop("lines")
    else:
        advice = advise_on(request, read_history(past).rows)
        answer, lines = advice.plain(), advice.lines(request)
    if as_json:
        typer.echo(json.dumps(answer))
        return
    for line in lines:
        typer.echo(plain(line))
