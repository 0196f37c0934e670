"""`dally explain`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from dally.cli.commands import examples
from dally.cli.live.queue import eta_lines
from dally.cli.live.server_client import AS_JSON, SERVER, TOKEN_FILE, Server, print_json, quoted
from dally.cli.output import clock_time, plain, print_table
from dally.errors import InputError

TIMED = ("on offer", "takes now", "next")


@examples(
    "dally explain 42",
    "dally explain j42 --run runs/one",
    "dally explain j42 --run runs/one --at 86400",
    "dally explain --waiting --run runs/one --json",
)
def explain(
    job: str = typer.Argument("", help="The job's id."),
    run: Path | None = typer.Option(
        None, metavar="DIR", help="What `dally simulate --out` left.  [default: asks the running scheduler]"
    ),
    at: float | None = typer.Option(None, metavar="SECONDS", help="The story up to then, and how things stand."),
    waiting: bool = typer.Option(
        False, "--waiting", help="All jobs that wait at that instant.  [default: when most waited]"
    ),
    server: str = SERVER,
    token_file: Path = TOKEN_FILE,
    as_json: bool = AS_JSON,
) -> None:
    """Tell why a job waited, until when, what it got and what it lost."""
    if run is None:
        if waiting or at is not None or not job:
            raise InputError("of the running scheduler, give a job; --at and --waiting need --run")
        _asked(Server(server, token_file), job, as_json)
        return
    from dally.report.explanation.history import Stories
    from dally.runs.folder import FolderRecord

    if at is not None and not 0.0 <= at < float("inf"):
        raise InputError(f"--at {at:g}: must be a time in seconds, not negative")
    if waiting == bool(job):
        raise InputError("give a job, or --waiting; see `dally explain --help`")
    records = Stories(FolderRecord(run))
    if waiting:
        _waiting(records, records.busiest_s() if at is None else at, as_json)
    else:
        _story(records, job, at, as_json)


def _asked(server: Server, job_id: str, as_json: bool) -> None:
    """The story as the running scheduler tells it."""
    found = server.get(f"jobs/{quoted(job_id)}/explanation")
    eta = _eta(server, job_id) if found["job"]["state"] == "waiting" else None
    if as_json:
        if eta is not None:
            found["eta"] = eta
        print_json(found)
        return
    job = found["job"]
    about = "".join(f", {part}" for part in (job["name"], job["user"]) if part)
    typer.echo(plain(f"Job {job['job_id']}{about}: {job['state']}"))
    for line in found["story"]:
        typer.echo(f"  {clock_time(line['at_s'])}  {plain(line['text'])}")
    if job["state"] == "waiting":
        until = f", until {clock_time(job['next_s'])}" if job["next_s"] is not None else ""
        typer.echo(f"  Waits now: {plain(job['why'])}{until}.")
    for line in eta_lines(eta) if eta is not None else ():
        typer.echo(f"  {line}")
    if found["slowdowns"]:
        shown = ", ".join(f"{plain(tier)} {value:.2f}" for tier, value in found["slowdowns"].items())
        typer.echo(f"  Slowdown to expect, alone: {shown}.")


def _eta(server: Server, job_id: str) -> Any:
    """When it starts; None if it has by now, or nothing can be said."""
    try:
        return server.get(f"jobs/{quoted(job_id)}/eta")
    except InputError:
        return None


def _story(records: Any, job: str, at: float | None, as_json: bool) -> None:
    lines = records.story(job, float("inf") if at is None else at)
    row = records.job(job)
    expected = dict(zip(records.tiers, records.slowdowns(row), strict=False))
    now = records.waits(job, at) if at is not None else None
    if as_json:
        told = {
            "job_id": job,
            "events": [asdict(line) for line in lines],
            "slowdown_by_tier": {tier: value for tier, value in expected.items() if value > 0},
            "outcome": row,
            "waiting": asdict(now) if now is not None else None,
        }
        typer.echo(json.dumps(told, indent=2))
        return
    typer.echo(f"Job {job}")
    for line in lines:
        typer.echo(f"  {records.stamp(line.time_s)}  {line.text}")
    if now is not None:
        typer.echo(f"  Waits at that instant: {now.why}.")
        if now.accepts:
            then = f", {now.next_tier} from {records.stamp(now.next_s)} on" if now.next_s is not None else ""
            typer.echo(f"  On offer: {now.offered}. As far as it goes now: {now.accepts}{then}.")
    if expected:
        shown = ", ".join(f"{tier} {value:.2f}" for tier, value in expected.items() if value > 0)
        typer.echo(f"  Slowdown to expect, alone: {shown}.")


def _waiting(records: Any, at: float, as_json: bool) -> None:
    waits = records.waiting(at)
    if as_json:
        typer.echo(json.dumps({"at_s": at, "waiting": [asdict(wait) for wait in waits]}, indent=2))
        return
    typer.echo(f"Waiting on {records.stamp(at)}: {len(waits)}")
    timed = any(wait.next_s is not None for wait in waits)
    rows = [
        [
            "" if wait.place is None else str(wait.place),
            wait.job_id,
            str(wait.gpus),
            records.stamp(wait.since_s),
            *([wait.offered, wait.accepts, _next(records, wait)] if timed else [wait.why]),
        ]
        for wait in waits
    ]
    print_table(["place", "job", "GPUs", "since", *(TIMED if timed else ["why"])], rows)


def _next(records: Any, wait: Any) -> str:
    return f"{wait.next_tier} from {records.stamp(wait.next_s)}" if wait.next_s is not None else ""
