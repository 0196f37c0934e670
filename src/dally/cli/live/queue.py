"""`dally queue`, `dally submit`, `dally nodes` and `dally slots`: jobs and machines of a running scheduler."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import typer

from dally.cli.commands import examples
from dally.cli.live.server_client import Server, queries_server
from dally.cli.output import clock_time, plain, print_table
from dally.errors import InputError
from dally.sizes import read_sizes


def _print_queue(result: dict[str, Any]) -> None:
    jobs, etas = result["jobs"], result.get("etas")
    if not jobs:
        typer.echo("No jobs.")
        return
    headings = ["place", "job", "name", "user", "GPUs", "state", "since"]
    print_table(
        [*headings, *([] if etas is None else ["starts"]), "where, or why not"], [_row(job, etas) for job in jobs]
    )
    if result["total"] > len(jobs):
        typer.echo(f"{result['total'] - len(jobs)} more; --limit shows them.")


def _row(job: dict[str, Any], etas: dict[str, Any] | None) -> list[str]:
    place = "" if job["place"] is None else str(job["place"])
    cells = [job["job_id"], job["name"], job["user"], str(job["gpus"]), job["state"], clock_time(job["since_s"])]
    starts = [] if etas is None else [start_text(etas[job["job_id"]]) if job["job_id"] in etas else ""]
    return [place, *map(plain, cells), *starts, plain(_where(job))]


def _where(job: dict[str, Any]) -> str:
    if job["state"] == "running":
        machines = list(job["placement"])
        shown = ", ".join(machines[:3]) + (f" and {len(machines) - 3} more" if len(machines) > 3 else "")
        slow = job["slowdown"]
        return f"{shown} ({job['tier']})" + (f", slowdown {slow:.2f}" if slow and slow > 1.005 else "")
    then = f", until {clock_time(job['next_s'])}" if job["next_s"] is not None else ""
    return f"{job['why']}{then}"


@examples(
    "dally queue",
    "dally queue --eta",
    "dally queue --state running --user alice",
    "dally queue --state failed --limit 10 --json",
)
@queries_server(_print_queue)
def queue(
    server: Server,
    state: str = typer.Option(
        None, metavar="NAME", help="waiting, held, starting, running, stopping; or finished, failed, cancelled.  "
        "[default: all that have not ended]",
    ),
    user: str = typer.Option(None, metavar="NAME", help="Only jobs of this user."),
    limit: int = typer.Option(1000, metavar="N", min=1, help="List at most this many jobs."),
    eta: bool = typer.Option(False, "--eta", help="Also estimate starts: intervals that hold 80 times of 100."),
) -> Any:  # fmt: skip
    """List which jobs wait, in which order, why and until when; and which run where."""
    result = server.jobs(limit, state=state, user=user)
    etas = {"etas": {one["job_id"]: one for one in server.get("outlook")["etas"]}} if eta else {}
    return {**result, **etas}


def _print_submitted(result: dict[str, Any]) -> None:
    if "starts_now" in result:  # --preview
        typer.echo("\n".join([*eta_lines(result), *map(plain, result["advice"])]))
    else:
        typer.echo(f"Submitted job {plain(result['job_id'])}.")
        if result.get("note"):
            typer.echo(f"dally: {plain(result['note'])}", err=True)
        for line in result.get("advice", ()):
            typer.echo(f"dally: {plain(line)}", err=True)


@examples(
    "dally submit --gpus 8 -- sleep 60",
    "dally submit --gpus 16 --model gpt2-xl --expected 7200 --env DATA=/scratch/books -- python train.py",
    "dally submit --gpus 8:32:8 -- torchrun --nnodes=1:4 train.py",
    "dally submit --gpus 64 --expected 3600 --preview",
)
@queries_server(_print_submitted)
def submit(
    server: Server,
    command: list[str] = typer.Argument(None, help="What to run, after `--`; without: --expected of nothing."),
    gpus: str = typer.Option(
        ...,
        "--gpus",
        "-g",
        metavar="N",
        help="GPUs that it needs all at once; 8:32:8: the 8, and it may have 16, 24 or 32.",
    ),
    name: str = typer.Option("", metavar="TEXT", help="What to call it.  [default: the command]"),
    model: str = typer.Option("", metavar="NAME", help="What it trains, as in `dally models`."),
    expected: float = typer.Option(None, metavar="SECONDS", help="Its expected duration."),
    limit: float = typer.Option(None, metavar="SECONDS", help="Its time limit."),
    checkpoint_every: float = typer.Option(None, metavar="SECONDS", help="The interval between its checkpoints."),
    preempt: str = typer.Option(
        "", metavar="yes|no|priced", help="Whether it may be preempted or moved: docs/consent.md."
    ),
    user: str = typer.Option("", metavar="NAME", help="The user whose job it is.  [default: you]"),
    account: str = typer.Option("", metavar="NAME", help="The account to charge."),
    folder: Path = typer.Option(None, metavar="DIR", help="Where the command runs.  [default: here]"),
    env: list[str] = typer.Option(
        [],
        "--env",
        metavar="NAME[=VALUE]",
        help="A variable for the command; without a value, its value here.",
    ),
    preview: bool = typer.Option(False, "--preview", help="Only say when and where it would start."),
) -> Any:
    """Submit a job to the running scheduler, or preview where and when it would start."""
    if not command and expected is None:
        raise InputError("give a command after `--`, or --expected for a job that only takes time")
    request, sizes = read_request(gpus)
    body: dict[str, Any] = {
        "gpus": request, "sizes": sizes, "command": command or [],
        "name": name or (os.path.basename(command[0]) if command else ""),
        "model": model, "duration_s": expected, "limit_s": limit, "checkpoint_every_s": checkpoint_every,
        "preempt": preempt, "user": user, "account": account,
        "folder": os.path.abspath(folder or "."), "environment": dict(_variable(text) for text in env),
    }  # fmt: skip
    if not preview:
        return server.post("jobs", body)
    like = {name: body[name] or None for name in ("gpus", "user", "name", "model", "limit_s")}
    return {**server.post("preview", body), "advice": server.get("advice", **like)["lines"]}


def read_request(text: str) -> tuple[int, str]:
    """The GPUs that `--gpus` asks for, and its sizes if it states more than one: 8, 8:32, 8:32:8 or 8,16,32."""
    if text.isascii() and text.isdigit() and 0 < len(text) <= 7 and int(text) > 0:
        return int(text), ""
    first = text.replace(":", ",").partition(",")[0].strip()
    try:
        read_sizes(text, int(first) if first.isdigit() else 0)
    except InputError as error:
        raise InputError(f"--gpus {text}: must be a number of GPUs, or sizes. {error}") from None
    return int(first), text


def _variable(text: str) -> tuple[str, str]:
    name, has_value, value = text.partition("=")
    if not has_value and name not in os.environ:
        raise InputError(f"--env {plain(text)}: is not set here; give NAME=VALUE")
    return name, value if has_value else os.environ[name]


def start_text(eta: dict[str, Any]) -> str:
    """When it starts: now, between two times, or after one."""
    if eta["starts_now"]:
        return "now"
    if eta["high_s"] is None:
        return f"after {clock_time(eta['low_s'])}"
    return f"{clock_time(eta['low_s'])} to {clock_time(eta['high_s'])}"


def eta_lines(eta: dict[str, Any]) -> list[str]:
    """The estimate in a few lines."""
    middle = f", about {clock_time(eta['middle_s'])}" if eta["middle_s"] is not None else ""
    sure = f"{eta['confidence']:.0%}" if eta["calibrated"] else "not calibrated yet"
    if eta["starts_now"]:
        lines = ["Starts now."]
    else:
        lines = [f"Starts {start_text(eta)} ({sure}){middle}; from {eta['futures']} futures."]
    there = [one for one in eta["tiers"] if one["chance"] > 0.0]
    if there:
        lines.append(f"Where: {', '.join(_chance(one) for one in there)}.")
    free = [one for one in eta["tiers"] if one["now"] is not None]
    if free and not eta["starts_now"]:
        best = min(free, key=lambda one: float(one["now"]))
        worth = _worth(eta["pays_from_s"])
        lines.append(f"Free now: one {plain(best['tier'])}, slowdown {best['now']:.2f}; {worth}.")
    if eta["gpus_now"]:
        lines.append(f"With {eta['gpus_now']} GPUs it would start now.")
    return lines


def _chance(one: dict[str, Any]) -> str:
    slow = "" if one["slowdown"] is None else f" (slowdown {one['slowdown']:.2f})"
    return f"one {plain(one['tier'])} {one['chance']:.0%}{slow}"


def _worth(pays_from_s: float | None) -> str:
    if pays_from_s is None:
        return "waiting brings nothing closer"
    return f"waiting is sooner done from {pays_from_s / 60.0:.0f} min of work on"


def _state(node: dict[str, Any]) -> str:
    """With the reason, and what speaks against its health."""
    parts = [node["state"] + (f": {node['reason']}" if node["reason"] else "")]
    if node["evidence"] and node["evidence"] not in node["reason"]:
        parts.append(node["evidence"])
    return ", ".join(parts)


def _print_nodes(result: dict[str, Any]) -> None:
    rows = [
        [
            plain(node["name"]), plain(" ".join(node["domains"])),
            plain(_state(node)),
            str(node["gpus"]), str(node["free"]), plain(", ".join(node["jobs"])),
        ]
        for node in result["nodes"]
    ]  # fmt: skip
    print_table(["machine", "in", "state", "GPUs", "free", "jobs"], rows)


@examples("dally nodes", "dally nodes --json")
@queries_server(_print_nodes)
def nodes(server: Server) -> Any:
    """List the machines, what is free on each, and which jobs run there."""
    return server.get("nodes")


def _print_slots(result: dict[str, Any]) -> None:
    *inner, whole = result["slots"]
    names = [*(f"inside one {tier}" for tier in inner), f"across the {whole}"]
    rows = [[plain(name), str(count)] for name, count in zip(names, result["slots"].values(), strict=True)]
    print_table([f"gangs of {result['gpus']} GPUs", "now"], rows, numbers_from=1)


@examples("dally slots --gpus 64", "dally slots --gpus 8 --json")
@queries_server(_print_slots)
def slots(
    server: Server, gpus: int = typer.Option(8, "--gpus", "-g", metavar="N", min=1, help="GPUs of a gang.")
) -> Any:
    """Count the gangs of a size that could start now, by tier."""
    return server.get("slots", gpus=gpus)
