"""`dally priority`."""

from __future__ import annotations

from pathlib import Path

import typer

from dally.cli.live.acting import WHY, act_on
from dally.cli.live.server_client import AS_JSON, SERVER, TOKEN_FILE

EXAMPLES = """Examples:

  dally priority 42 --why "a deadline on Friday"

  dally priority 42 --back --why "the deadline has passed"
"""


def priority(
    jobs: list[str] = typer.Argument(..., metavar="JOB...", help="Their ids."),
    why: str = WHY,
    back: bool = typer.Option(False, "--back", help="Put them back in their place in line."),
    server: str = SERVER,
    token_file: Path = TOKEN_FILE,
    as_json: bool = AS_JSON,
) -> None:
    """Put jobs first in line: they come before all others who wait."""
    act_on("jobs", jobs, "priority", {"first": not back, "why": why}, server, token_file, as_json)
