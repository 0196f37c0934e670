"""`dally cancel`."""

from __future__ import annotations

from pathlib import Path

import typer

from dally.cli.live.acting import WHY
from dally.cli.live.server_client import AS_JSON, SERVER, TOKEN_FILE, Server, print_json, quoted
from dally.cli.plain_text import plain

EXAMPLES = """Examples:

  dally cancel 42

  dally cancel 42 43 44 --why "no longer needed" --json
"""


def cancel(
    jobs: list[str] = typer.Argument(..., metavar="JOB...", help="Their ids."),
    why: str = WHY,
    server: str = SERVER,
    token_file: Path = TOKEN_FILE,
    as_json: bool = AS_JSON,
) -> None:
    """End jobs, whether they wait or run; those that run get SIGTERM and time to save."""
    asked = Server(server, token_file)
    found = [asked.delete(f"jobs/{quoted(job)}", why=why or None) for job in jobs]
    if as_json:
        print_json(found)
        return
    for job in found:
        typer.echo(f"Job {plain(job['job_id'])} was told to end.")
