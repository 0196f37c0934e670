"""`dally view`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from dally.cli.commands import examples
from dally.errors import InputError

if TYPE_CHECKING:
    from dally.web.replay.replay_app import ReplayScene

USUAL = "127.0.0.1:8643"


@examples(
    "dally view runs/one", "dally view runs/one --at 86400", "dally view runs/one --listen 127.0.0.1:9000 --no-open"
)
def view(
    folder: Path = typer.Argument(..., metavar="RUN_DIR", help="What `dally simulate --out` left."),
    at: float | None = typer.Option(
        None, metavar="SECONDS", help="The moment that pages open at.  [default: when most waited]"
    ),
    listen: str = typer.Option(
        USUAL, metavar="HOST:PORT", help="An address of this machine alone; port 0: any that is free."
    ),
    no_open: bool = typer.Option(False, "--no-open", help="Do not open a browser."),
    as_json: bool = typer.Option(False, "--json", help="Print the address and the span as a line of JSON."),
) -> None:
    """Replay a finished simulation in the dashboard: map, queue, jobs and trends at any moment, at any speed."""
    from dally.extras import need

    for package in ("polars", "fastapi", "uvicorn", "structlog"):
        need(package, "view")
    from dally.runs.folder import FolderRecord
    from dally.web.replay.replay_app import ReplayScene, replay_app
    from dally.web.server import LocalServer

    if at is not None and not 0.0 <= at < float("inf"):
        raise InputError(f"--at {at:g}: must be a time in seconds, not negative")
    run = FolderRecord(chosen(folder))
    scene = ReplayScene(run, folder.resolve().name, at)
    server = LocalServer(replay_app(scene), listen)
    print_results(scene, server.url, as_json)
    if not (no_open or as_json) and has_screen():
        import webbrowser

        webbrowser.open(f"{server.url}/")
    server.run()


def print_results(scene: ReplayScene, url: str, as_json: bool) -> None:
    """Print what is shown where."""
    first_s, last_s = scene.span()
    jobs = scene.run.summary["jobs"]
    if as_json:
        import json

        typer.echo(json.dumps({"url": f"{url}/", "jobs": jobs, "from_s": first_s, "to_s": last_s}))
    else:
        typer.echo(f"Replaying {jobs:,} jobs under {scene.policy}, {scene.when(first_s)} to {scene.when(last_s)}.")
        typer.echo(f"Pages:   {url}/")
        typer.echo("Ctrl-C ends it.")
    sys.stdout.flush()


def chosen(folder: Path) -> Path:
    """The folder, if it holds a run; of several runs one must be named."""
    from dally.report.html.build import RUN, kind_of

    kind = kind_of(folder)
    if kind == RUN:
        return folder
    runs = sorted(str(path.parent) for path in folder.rglob("summary.json"))
    if not runs:
        raise InputError(f"{folder}: holds a {kind} whose runs were not stored; simulate one with --out")
    named = ", ".join(runs[:8]) + (f" and {len(runs) - 8} more" if len(runs) > 8 else "")
    raise InputError(f"{folder}: holds a {kind}; give one of its runs: {named}")


def has_screen() -> bool:
    """Whether a browser could be seen: not in a pipe, nor on a machine that one is logged in to from afar."""
    shown = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    return sys.stdout.isatty() and shown
