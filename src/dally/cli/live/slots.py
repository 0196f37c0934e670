"""`dally slots`."""

from __future__ import annotations

from pathlib import Path

import typer

from dally.cli.live.server_client import AS_JSON, SERVER, TOKEN_FILE, Server, print_json
from dally.cli.output import print_table
from dally.cli.plain_text import plain

EXAMPLES = """Examples:

  dally slots --gpus 64

  dally slots --gpus 8 --json
"""


def slots(
    gpus: int = typer.Option(8, "--gpus", "-g", metavar="N", min=1, help="GPUs of a gang."),
    server: str = SERVER,
    token_file: Path = TOKEN_FILE,
    as_json: bool = AS_JSON,
) -> None:
    """Count the gangs of a size that could start now, by how close together."""
    found = Server(server, token_file).get("slots", gpus=gpus)
    if as_json:
        print_json(found)
        return
    *inner, whole = found["slots"]
    names = [*(f"inside one {tier}" for tier in inner), f"across the {whole}"]
    rows = [[plain(name), str(count)] for name, count in zip(names, found["slots"].values(), strict=True)]
    print_table([f"gangs of {gpus} GPUs", "now"], rows, numbers_from=1)
