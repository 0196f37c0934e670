"""What commands have in common that do something to jobs or machines of a `dally serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import typer

from dally.cli.live.server_client import Server, print_json, quoted
from dally.cli.plain_text import plain

WHY: Final = typer.Option(
    "", "--why", metavar="TEXT", help="Told in the job's story and in `dally actions`. Operators must say it."
)


def act_on(
    kind: str, names: list[str], what: str, body: dict[str, Any], server: str, token_file: Path, as_json: bool
) -> None:
    """Do it to each of these jobs or nodes in turn, and tell what was done."""
    asked = Server(server, token_file)
    tell([asked.post(f"{kind}/{quoted(name)}/{what}", body) for name in names], as_json)


def tell(done: list[dict[str, Any]], as_json: bool) -> None:
    """What was done, a line each."""
    if as_json:
        print_json(done)
        return
    for one in done:
        whom = f"Job {one['job_id']}" if one["job_id"] else one["machine"] or "Timers"
        typer.echo(plain(f"{whom}: {one['text']}."))
