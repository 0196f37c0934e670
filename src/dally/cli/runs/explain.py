"""`dally explain`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dally.cli.commands import examples
from dally.cli.live.queue import eta_lines
from dally.cli.live.server_client import AS_JSON, SERVER, TOKEN_FILE, Server, print_json, quoted
from dally.cli.output import clock_time, plain, print_table
from dally.errors import InputError

if TYPE_CHECKING:
    from dally.report.explanation.job_timeline import Explainer


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
    at: float | None = typer.Option(None, metavar="SECONDS", help="The history up to then, and why it waits then."),
    waiting: bool = typer.Option(
        False, "--waiting", help="All jobs that wait at that instant.  [default: when most waited]"
    ),
    server: str = SERVER,
    token_file: Path = TOKEN_FILE,
    as_json: bool = AS_JSON,
) -> None:
    """Explain why a job waits and until when, where it ran and why it was preempted."""
    if run is None:
        if waiting or at is not None or not job:
            raise InputError("of the running scheduler, give a job; --at and --waiting need --run")
        _live(Server(server, token_file), job, as_json)
        return
    from dally.report.explanation.job_timeline import Explainer
    from dally.runs.folder import FolderRecord

    if at is not None and not 0.0 <= at < float("inf"):
        raise InputError(f"--at {at:g}: must be a time in seconds, not negative")
    if waiting == bool(job):
        raise InputError("give a job, or --waiting; see `dally explain --help`")
    explainer = Explainer(FolderRecord(run))
    if waiting:
        _waiting(explainer, explainer.busiest_s() if at is None else at, as_json)
    else:
        _history(explainer, job, at, as_json)


def _live(server: Server, job_id: str, as_json: bool) -> None:
    """The explanation of the running scheduler."""
    answer = server.get(f"jobs/{quoted(job_id)}/explanation")
    eta = _eta(server, job_id) if answer["job"]["state"] == "waiting" else None
    if as_json:
        print_json(answer if eta is None else {**answer, "eta": eta})
        return
    job = answer["job"]
    about = "".join(f", {part}" for part in (job["name"], job["user"]) if part)
    typer.echo(plain(f"Job {job['job_id']}{about}: {job['state']}"))
    for entry in answer["history"]:
        typer.echo(f"  {clock_time(entry['at_s'])}  {plain(entry['text'])}")
    if job["state"] == "waiting":
        until = f" at {clock_time(job['next_s'])}" if job["next_s"] is not None else ""
        typer.echo(f"  Waits now: {plain(job['why'])}{until}.")
    elif job.get("non_preemptible"):
        typer.echo(f"  Is not preempted: {plain(job['non_preemptible'])}.")
    for line in eta_lines(eta) if eta is not None else ():
        typer.echo(f"  {line}")
    _slowdowns({plain(tier): value for tier, value in answer["slowdowns"].items()})
    if answer.get("slowdowns_from"):
        typer.echo(f"  It names no model that is known, and is {plain(answer['slowdowns_from'])}.")


def _eta(server: Server, job_id: str) -> Any:
    """When it starts; None if it has by now, or nothing can be said."""
    try:
        return server.get(f"jobs/{quoted(job_id)}/eta")
    except InputError:
        return None


def _history(explainer: Explainer, job: str, at: float | None, as_json: bool) -> None:
    entries = explainer.history(job, float("inf") if at is None else at)
    row = explainer.job(job)
    slowdowns = zip(explainer.tiers, explainer.slowdowns(row), strict=False)
    expected = {tier: value for tier, value in slowdowns if value > 0.0}
    wait = explainer.wait_of(job, at) if at is not None else None
    if as_json:
        values = {
            "job_id": job,
            "history": [asdict(entry) for entry in entries],
            "slowdowns": expected,
            "outcome": row,
            "waiting": asdict(wait) if wait is not None else None,
        }
        typer.echo(json.dumps(values, indent=2))
        return
    typer.echo(f"Job {job}")
    for entry in entries:
        typer.echo(f"  {explainer.stamp(entry.time_s)}  {entry.text}")
    if wait is not None:
        typer.echo(f"  Waits at that instant: {wait.why}.")
    _slowdowns(expected)


def _slowdowns(by_tier: dict[str, float]) -> None:
    if by_tier:
        shown = ", ".join(f"{tier} {value:.2f}" for tier, value in by_tier.items())
        typer.echo(f"  Slowdown to expect, alone: {shown}.")


def _waiting(explainer: Explainer, at: float, as_json: bool) -> None:
    waits = explainer.waiting(at)
    if as_json:
        typer.echo(json.dumps({"at_s": at, "waiting": [asdict(wait) for wait in waits]}, indent=2))
        return
    typer.echo(f"Waiting on {explainer.stamp(at)}: {len(waits)}")
    rows = [
        [
            "" if wait.place is None else str(wait.place),
            wait.job_id,
            str(wait.gpus),
            explainer.stamp(wait.since_s),
            wait.why,
        ]
        for wait in waits
    ]
    print_table(["place", "job", "GPUs", "since", "why"], rows)
