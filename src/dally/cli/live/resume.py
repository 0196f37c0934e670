"""`dally resume`."""

from __future__ import annotations

from pathlib import Path

import typer

from dally.cli.live.acting import WHY, act_on
from dally.cli.live.server_client import AS_JSON, SERVER, TOKEN_FILE

EXAMPLES = """Examples:

  dally resume rack0-m0 --why "fans are in"
"""


def resume(
    machines: list[str] = typer.Argument(..., metavar="MACHINE...", help="Their names."),
    why: str = WHY,
    server: str = SERVER,
    token_file: Path = TOKEN_FILE,
    as_json: bool = AS_JSON,
) -> None:
    """Let machines take jobs again."""
    act_on("nodes", machines, "resume", {"why": why}, server, token_file, as_json)
