"""`dally timers`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from dally.cli.live.acting import WHY, tell
from dally.cli.live.server_client import AS_JSON, SERVER, TOKEN_FILE, Server, print_json, quoted
from dally.cli.output import print_table
from dally.cli.plain_text import clock_time, plain
from dally.errors import InputError

EXAMPLES = """Examples:

  dally timers

  dally timers --json

  dally timers --job 42 --for 0 --why "any place will do"

  dally timers --gpus 8 --for 600 --why "racks are half empty"

  dally timers --gpus 8 --for policy --why "full again"
"""


def timers(
    job: str = typer.Option("", "--job", metavar="JOB", help="Set how long this job, from now on, holds out."),
    gpus: int = typer.Option(
        0, "--gpus", metavar="N", min=0, help="Set how long gangs of so many GPUs hold out for a closer place."
    ),
    seconds: str = typer.Option(
        "", "--for", metavar="SECONDS", help="So long: 0: they take any place, `policy`: as the policy has it."
    ),
    why: str = WHY,
    server: str = SERVER,
    token_file: Path = TOKEN_FILE,
    as_json: bool = AS_JSON,
) -> None:
    """Tell what each demand is offered, who holds out for a closer place, and until when; or set that."""
    asked = Server(server, token_file)
    if job or gpus or seconds:
        tell([_set(asked, job, gpus, seconds, why)], as_json)
        return
    found = asked.get("timers")
    if as_json:
        print_json(found)
        return
    if not found["offers"] and not found["tuned"]:
        typer.echo("Nobody is offered GPUs that it does not take.")
    if found["offers"]:
        _offers(found["offers"])
    if found["holding"]:
        rows = [
            [plain(one["job_id"]), str(one["gpus"]), clock_time(one["next_s"]), plain(one["why"])]
            for one in found["holding"]
        ]
        print_table(["job", "GPUs", "until", "why"], rows)
    if found["tuned"]:
        tiers = list(next(iter(found["tuned"].values())))
        rows = [[gpus, *(_seconds(by_tier[tier]) for tier in tiers)] for gpus, by_tier in found["tuned"].items()]
        print_table(["GPUs", *(plain(f"waits for closer than one {tier}") for tier in tiers)], rows, numbers_from=1)


def _set(asked: Server, job: str, gpus: int, seconds: str, why: str) -> Any:
    if bool(job) == bool(gpus):
        raise InputError("--job, --gpus: give one of them, with --for")
    try:
        wait_s = None if seconds == "policy" else float(seconds)
    except ValueError:
        raise InputError(f"--for {plain(seconds) or '(not given)'}: must be seconds, or policy") from None
    body = {"seconds": wait_s, "why": why}
    return asked.post(f"jobs/{quoted(job)}/patience", body) if job else asked.post("timers", {"gpus": gpus, **body})


def _offers(offers: list[dict[str, Any]]) -> None:
    tiers = list(offers[0]["holds_out_s"])
    rows = [
        [
            plain(one["job_id"]) or "all",
            str(one["gpus"]),
            plain(one["offered"]) or "nothing",
            *(_seconds(one["holds_out_s"].get(tier)) for tier in tiers),
        ]
        for one in offers
    ]
    print_table(
        ["job", "GPUs", "offered", *(plain(f"takes one {tier} after") for tier in tiers)], rows, numbers_from=3
    )


def _seconds(timer_s: float | None) -> str:
    from dally.report.time_text import brief

    return "never" if timer_s is None else brief(timer_s)
