"""`dally actions`."""

from __future__ import annotations

from pathlib import Path

import typer

from dally.cli.live.server_client import AS_JSON, SERVER, TOKEN_FILE, Server, print_json
from dally.cli.output import print_table
from dally.cli.plain_text import clock_time, plain

EXAMPLES = """Examples:

  dally actions

  dally actions --job 42 --last 1000 --json
"""


def actions(
    job: str = typer.Option(None, "--job", metavar="JOB", help="Only what was done to this job."),
    machine: str = typer.Option(None, "--machine", metavar="NAME", help="Only what was done to this machine."),
    last: int = typer.Option(20, "--last", metavar="N", min=1, max=1000, help="How many, the latest first."),
    server: str = SERVER,
    token_file: Path = TOKEN_FILE,
    as_json: bool = AS_JSON,
) -> None:
    """Tell who held, released, cancelled, drained or put first what, when and why."""
    found = Server(server, token_file).get("actions", job_id=job, machine=machine, limit=last)
    if as_json:
        print_json(found)
        return
    if not found["actions"]:
        typer.echo("Nobody has done anything to a job or a machine by hand.")
        return
    rows = [
        [
            clock_time(row["at_s"]), plain(row["who"]),
            plain(f"job {row['job_id']}" if row["job_id"] else row["machine"] or "timers"), plain(row["told"]),
            plain(row["why"]), plain(row["outcome"]),
        ]
        for row in found["actions"]
    ]  # fmt: skip
    print_table(["when", "who", "whom", "what", "why", "came of it"], rows)
    if found["total"] > len(rows):
        typer.echo(f"{found['total'] - len(rows)} more: --last {min(1000, found['total'])}")
