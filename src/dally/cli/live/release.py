"""`dally release`."""

from __future__ import annotations

from pathlib import Path

import typer

from dally.cli.live.acting import WHY, act_on
from dally.cli.live.server_client import AS_JSON, SERVER, TOKEN_FILE

EXAMPLES = """Examples:

  dally release 42 --why "rack 3 is back"
"""


def release(
    jobs: list[str] = typer.Argument(..., metavar="JOB...", help="Their ids."),
    why: str = WHY,
    server: str = SERVER,
    token_file: Path = TOKEN_FILE,
    as_json: bool = AS_JSON,
) -> None:
    """Let jobs run again that `dally hold` or the dashboard put on hold."""
    act_on("jobs", jobs, "release", {"why": why}, server, token_file, as_json)
