"""`dally submit`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import typer

from dally.cli.live.eta_words import eta_lines
from dally.cli.live.server_client import AS_JSON, SERVER, TOKEN_FILE, Server, print_json
from dally.cli.plain_text import plain
from dally.errors import InputError

EXAMPLES = """Examples:

  dally submit --gpus 8 -- sleep 60

  dally submit --gpus 16 --model gpt2-xl --expected 7200 -- python train.py

  dally submit --gpus 64 --expected 3600 --preview
"""


def submit(
    command: list[str] = typer.Argument(None, help="What to run, after `--`; without: --expected of nothing."),
    gpus: int = typer.Option(..., "--gpus", "-g", metavar="N", min=1, help="GPUs that it needs all at once."),
    name: str = typer.Option("", metavar="TEXT", help="What to call it.  [default: the command]"),
    model: str = typer.Option("", metavar="NAME", help="What it trains, as in `dally models`."),
    expected: float = typer.Option(None, metavar="SECONDS", help="How long it runs, as far as you know."),
    limit: float = typer.Option(None, metavar="SECONDS", help="How long it runs at most."),
    checkpoint_every: float = typer.Option(None, metavar="SECONDS", help="Between two of its checkpoints."),
    user: str = typer.Option("", metavar="NAME", help="For whom.  [default: you]"),
    account: str = typer.Option("", metavar="NAME", help="Who pays."),
    folder: Path = typer.Option(None, metavar="DIR", help="Where the command runs.  [default: here]"),
    preview: bool = typer.Option(False, "--preview", help="Only tell when and where it would start."),
    server: str = SERVER,
    token_file: Path = TOKEN_FILE,
    as_json: bool = AS_JSON,
) -> None:  # fmt: skip
    """Submit a job to the running scheduler, or ask what it would get."""
    if not command and expected is None:
        raise InputError("give a command after `--`, or --expected for a job that only takes time")
    asked = Server(server, token_file)
    words = command or []
    body: dict[str, Any] = {
        "gpus": gpus, "command": words, "name": name or (os.path.basename(words[0]) if words else ""),
        "model": model, "expected_s": expected, "limit_s": limit, "checkpoint_every_s": checkpoint_every,
        "user": user or ("" if asked.token else _me()), "account": account,
        "folder": os.path.abspath(folder or "."),
    }  # fmt: skip
    found = asked.post("preview" if preview else "jobs", body)
    if as_json:
        print_json(found)
    elif preview:
        for line in eta_lines(found):
            typer.echo(line)
    else:
        typer.echo(f"Submitted job {plain(found['job_id'])}.")


def _me() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without a name for us
        return ""
