"""`dally queue`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from dally.cli.live.eta_words import start_words
from dally.cli.live.server_client import AS_JSON, SERVER, TOKEN_FILE, Server, print_json
from dally.cli.output import print_table
from dally.cli.plain_text import clock_time, plain

EXAMPLES = """Examples:

  dally queue

  dally queue --eta

  dally queue --state running --user alice

  dally queue --state failed --limit 10 --json
"""


def queue(
    state: str = typer.Option(
        None, metavar="NAME", help="waiting, held, starting, running, stopping; or finished, failed, cancelled.  "
        "[default: all that have not ended]",
    ),
    user: str = typer.Option(None, metavar="NAME", help="Only jobs of this user."),
    limit: int = typer.Option(1000, metavar="N", min=1, help="At most so many jobs."),
    eta: bool = typer.Option(False, "--eta", help="Also when those who wait will start, 80 times of 100."),
    server: str = SERVER,
    token_file: Path = TOKEN_FILE,
    as_json: bool = AS_JSON,
) -> None:  # fmt: skip
    """List who waits, in which order, why and until when; and who runs where."""
    asked = Server(server, token_file)
    found = asked.jobs(limit, state=state, user=user)
    starts = {one["job_id"]: one for one in asked.get("outlook")["etas"]} if eta else {}
    if as_json:
        if eta:
            found["etas"] = starts
        print_json(found)
        return
    jobs = found["jobs"]
    if not jobs:
        typer.echo("No jobs.")
        return
    head = [
        "place",
        "job",
        "name",
        "user",
        "GPUs",
        "state",
        "since",
        *(["starts"] if eta else []),
        "where, or why not",
    ]
    print_table(head, [_row(job, starts if eta else None) for job in jobs])
    if found["total"] > len(jobs):
        typer.echo(f"{found['total'] - len(jobs)} more; --limit shows them.")


def _row(job: dict[str, Any], starts: dict[str, Any] | None) -> list[str]:
    place = "" if job["place"] is None else str(job["place"])
    words = [job["job_id"], job["name"], job["user"], str(job["gpus"]), job["state"], clock_time(job["since_s"])]
    told = [] if starts is None else [start_words(starts[job["job_id"]]) if job["job_id"] in starts else ""]
    return [place, *(plain(word) for word in words), *told, plain(_where(job))]


def _where(job: dict[str, Any]) -> str:
    if job["state"] == "running":
        machines = list(job["placement"])
        shown = ", ".join(machines[:3]) + (f" and {len(machines) - 3} more" if len(machines) > 3 else "")
        slow = job["slowdown"]
        return f"{shown} ({job['tier']})" + (f", slowdown {slow:.2f}" if slow and slow > 1.005 else "")
    then = f", until {clock_time(job['next_s'])}" if job["next_s"] is not None else ""
    return f"{job['why']}{then}"
