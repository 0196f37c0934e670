"""`dally hold`."""

from __future__ import annotations

from pathlib import Path

import typer

from dally.cli.live.acting import WHY, act_on
from dally.cli.live.server_client import AS_JSON, SERVER, TOKEN_FILE

EXAMPLES = """Examples:

  dally hold 42 --why "maintenance of rack 3"

  dally hold 42 43 --why "waits for its data" --json
"""


def hold(
    jobs: list[str] = typer.Argument(..., metavar="JOB...", help="Their ids."),
    why: str = WHY,
    server: str = SERVER,
    token_file: Path = TOKEN_FILE,
    as_json: bool = AS_JSON,
) -> None:
    """Keep jobs from running until they are released; those that run are stopped as if preempted."""
    act_on("jobs", jobs, "hold", {"why": why}, server, token_file, as_json)
