"""What operators do to jobs, machines and delay timers of a running scheduler, and the list of what they did."""

from __future__ import annotations

from typing import Any, Final

import typer

from dally.cli.commands import examples
from dally.cli.live.server_client import Server, queries_server, quoted
from dally.cli.output import clock_time, plain, print_table
from dally.errors import InputError

JOBS: Final = typer.Argument(..., metavar="JOB...", help="Their ids.")
MACHINES: Final = typer.Argument(..., metavar="MACHINE...", help="Their names.")
WHY: Final = typer.Option(
    "",
    "--why",
    metavar="TEXT",
    help="The reason, shown in the job's history and in `dally actions`; required of operators.",
)


def _print_done(actions: list[dict[str, Any]]) -> None:
    """What was done, a line each."""
    for one in actions:
        target = f"Job {one['job_id']}" if one["job_id"] else one["machine"] or "Timers"
        typer.echo(plain(f"{target}: {one['text']}."))


def _act(server: Server, kind: str, names: list[str], verb: str, **body: Any) -> list[Any]:
    """Do it to each of these jobs or nodes in turn."""
    return server.each(names, lambda name: server.post(f"{kind}/{quoted(name)}/{verb}", body))


@examples(
    'dally hold 42 --why "maintenance of rack 3"',
    'dally hold 42 43 --why "waits for its data" --json',
)
@queries_server(_print_done)
def hold(server: Server, jobs: list[str] = JOBS, why: str = WHY) -> Any:
    """Hold jobs until they are released; running jobs are preempted."""
    return _act(server, "jobs", jobs, "hold", why=why)


@examples('dally release 42 --why "rack 3 is back"')
@queries_server(_print_done)
def release(server: Server, jobs: list[str] = JOBS, why: str = WHY) -> Any:
    """Release jobs that `dally hold` or the dashboard holds."""
    return _act(server, "jobs", jobs, "release", why=why)


@examples(
    'dally priority 42 --why "a deadline on Friday"',
    'dally priority 42 --back --why "the deadline has passed"',
)
@queries_server(_print_done)
def priority(
    server: Server,
    jobs: list[str] = JOBS,
    why: str = WHY,
    back: bool = typer.Option(False, "--back", help="Put them back in their place in the queue."),
) -> Any:
    """Put jobs first in the queue: they come before all others that wait."""
    return _act(server, "jobs", jobs, "priority", first=not back, why=why)


@examples('dally drain rack0-m0 --why "new fans"')
@queries_server(_print_done)
def drain(server: Server, machines: list[str] = MACHINES, why: str = WHY) -> Any:
    """Drain machines: running jobs continue, and no new job starts there."""
    return _act(server, "nodes", machines, "drain", why=why)


@examples('dally resume rack0-m0 --why "fans are in"')
@queries_server(_print_done)
def resume(server: Server, machines: list[str] = MACHINES, why: str = WHY) -> Any:
    """Resume drained machines: jobs may start there again."""
    return _act(server, "nodes", machines, "resume", why=why)


def _print_cancelled(jobs: list[dict[str, Any]]) -> None:
    for job in jobs:
        typer.echo(f"Job {plain(job['job_id'])}: cancel requested.")


@examples("dally cancel 42", 'dally cancel 42 43 44 --why "no longer needed" --json')
@queries_server(_print_cancelled)
def cancel(server: Server, jobs: list[str] = JOBS, why: str = WHY) -> Any:
    """Cancel jobs, waiting or running; running jobs get SIGTERM and time to save."""
    return server.each(jobs, lambda job: server.delete(f"jobs/{quoted(job)}", why=why or None))


def _print_actions(result: dict[str, Any]) -> None:
    if not result["actions"]:
        typer.echo("No job or machine has been acted on by hand.")
        return
    rows = [
        [
            clock_time(row["at_s"]), plain(row["who"]),
            plain(f"job {row['job_id']}" if row["job_id"] else row["machine"] or "timers"), plain(row["message"]),
            plain(row["why"]), plain(row["outcome"]),
        ]
        for row in result["actions"]
    ]  # fmt: skip
    print_table(["when", "who", "target", "action", "why", "outcome"], rows)
    if result["total"] > len(rows):
        typer.echo(f"{result['total'] - len(rows)} more: --last {min(1000, result['total'])}")


@examples("dally actions", "dally actions --job 42 --last 1000 --json")
@queries_server(_print_actions)
def actions(
    server: Server,
    job: str = typer.Option(None, "--job", metavar="JOB", help="Only what was done to this job."),
    machine: str = typer.Option(None, "--machine", metavar="NAME", help="Only what was done to this machine."),
    last: int = typer.Option(20, "--last", metavar="N", min=1, max=1000, help="How many, the latest first."),
) -> Any:
    """List the actions of users and operators, with author, time and reason."""
    return server.get("actions", job_id=job, machine=machine, limit=last)


def _print_timers(result: Any) -> None:
    if isinstance(result, list):
        _print_done(result)
        return
    if not result["offers"] and not result["tuned"]:
        typer.echo("No job is offered GPUs that it does not take.")
    if result["offers"]:
        tiers = list(result["offers"][0]["delays_s"])
        rows = [
            [
                plain(one["job_id"]) or "all", str(one["gpus"]), plain(one["offered"]) or "nothing",
                *(_seconds(one["delays_s"].get(tier)) for tier in tiers),
            ]
            for one in result["offers"]
        ]  # fmt: skip
        headings = ["job", "GPUs", "offered", *(plain(f"takes one {tier} after") for tier in tiers)]
        print_table(headings, rows, numbers_from=3)
    if result["holding"]:
        rows = [
            [plain(one["job_id"]), str(one["gpus"]), clock_time(one["next_s"]), plain(one["why"])]
            for one in result["holding"]
        ]
        print_table(["job", "GPUs", "until", "why"], rows)
    if result["tuned"]:
        tiers = list(next(iter(result["tuned"].values())))
        rows = [[gpus, *(_seconds(by_tier[tier]) for tier in tiers)] for gpus, by_tier in result["tuned"].items()]
        print_table(["GPUs", *(plain(f"waits for closer than one {tier}") for tier in tiers)], rows, numbers_from=1)


@examples(
    "dally timers",
    "dally timers --json",
    'dally timers --job 42 --for 0 --why "any place will do"',
    'dally timers --gpus 8 --for 600 --why "racks are half empty"',
    'dally timers --gpus 8 --for policy --why "full again"',
)
@queries_server(_print_timers)
def timers(
    server: Server,
    job: str = typer.Option("", "--job", metavar="JOB", help="Set this job's delay timer, from now on."),
    gpus: int = typer.Option(
        0, "--gpus", metavar="N", min=0, help="Set how long gangs of this size delay for a closer place."
    ),
    seconds: str = typer.Option(
        "", "--for", metavar="SECONDS", help="The delay. 0: take any place; `policy`: as the policy decides."
    ),
    why: str = WHY,
) -> Any:
    """Show what each demand is offered, which jobs delay for a closer place, and until when; or set that."""
    if not (job or gpus or seconds):
        return server.get("timers")
    if bool(job) == bool(gpus):
        raise InputError("--job, --gpus: give one of them, with --for")
    try:
        delay_s = None if seconds == "policy" else float(seconds)
    except ValueError:
        raise InputError(f"--for {plain(seconds) or '(not given)'}: must be seconds, or policy") from None
    body = {"seconds": delay_s, "why": why}
    path = f"jobs/{quoted(job)}/delay" if job else "timers"
    return [server.post(path, body if job else {"gpus": gpus, **body})]


def _seconds(timer_s: float | None) -> str:
    from dally.report.time_text import brief

    return "never" if timer_s is None else brief(timer_s)
