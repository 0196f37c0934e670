"""`dally drain`."""

from __future__ import annotations

from pathlib import Path

import typer

from dally.cli.live.acting import WHY, act_on
from dally.cli.live.server_client import AS_JSON, SERVER, TOKEN_FILE

EXAMPLES = """Examples:

  dally drain rack0-m0 --why "new fans"
"""


def drain(
    machines: list[str] = typer.Argument(..., metavar="MACHINE...", help="Their names."),
    why: str = WHY,
    server: str = SERVER,
    token_file: Path = TOKEN_FILE,
    as_json: bool = AS_JSON,
) -> None:
    """Let what runs on machines go on, and start nothing new there."""
    act_on("nodes", machines, "drain", {"why": why}, server, token_file, as_json)
