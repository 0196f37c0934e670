"""Manage the scheduler's access tokens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import typer

from dally.cli.commands import group, in_group
from dally.cli.live.server_client import AS_JSON, print_json
from dally.cli.output import clock_time, plain, print_table
from dally.errors import InputError

app = group(__doc__)

CONFIG: Final = typer.Option(None, "--config", metavar="FILE", help="dally.toml, as `dally serve` has it.")
FOLDER: Final = typer.Option(
    None, "--folder", metavar="DIR", help="Where the daemon keeps its state.  [default: ~/.local/state/dally]"
)
STORE: Final = typer.Option(None, "--store", metavar="URL", help="The database.  [default: SQLite in --folder]")


@in_group(
    app,
    "add",
    "dally token add me --role operator",
    "dally token add alice --role user --user alice",
    "dally token add grafana --role viewer --json",
)
def add(
    name: str = typer.Argument(..., help="What to call it."),
    role: str = typer.Option(
        ..., metavar="ROLE", help="viewer (reads all), user (sees, submits and cancels own jobs) or operator (all)."
    ),
    user: str = typer.Option("", metavar="NAME", help="The user of the jobs, for --role user."),
    config: Path = CONFIG,
    folder: Path = FOLDER,
    store: str = STORE,
    as_json: bool = AS_JSON,
) -> None:
    """Make a token and print it once: only its SHA-256 is stored."""
    from dally.web.auth.tokens import add_token

    with _Opened(config, folder, store, make=True) as opened:
        text = add_token(opened, name, role, user)
    if as_json:
        print_json({"name": name, "role": role, "user": user, "token": text})
    else:
        typer.echo(text)


@in_group(app, "list", "dally token list", "dally token list --json")
def listed(config: Path = CONFIG, folder: Path = FOLDER, store: str = STORE, as_json: bool = AS_JSON) -> None:
    """List the names and roles of the tokens; the tokens themselves are not stored."""
    from dally.web.auth.tokens import tokens

    with _Opened(config, folder, store) as opened:
        every = tokens(opened)
    if as_json:
        fields = ("name", "role", "user", "created_s")
        print_json([{field: getattr(one, field) for field in fields} for one in every])
    elif not every:
        typer.echo("No tokens.")
    else:
        rows = [[plain(one.name), one.role, plain(one.user), clock_time(one.created_s)] for one in every]
        print_table(["name", "role", "user", "made"], rows)


@in_group(app, "remove", "dally token remove alice")
def remove(
    name: str = typer.Argument(..., help="What it is called."),
    config: Path = CONFIG,
    folder: Path = FOLDER,
    store: str = STORE,
) -> None:
    """Take a token back; within two seconds it opens nothing."""
    from dally.web.auth.tokens import remove_token

    with _Opened(config, folder, store) as opened:
        remove_token(opened, name)
    typer.echo(f"Removed {plain(name)}.")


class _Opened:
    """The daemon's store, whether or not the daemon runs."""

    def __init__(self, config: Path | None, folder: Path | None, store: str | None, make: bool = False) -> None:
        from dally.extras import need

        need("alembic", "token")
        from dally.live.config import Config, read_config
        from dally.live.store import open_store

        options: dict[str, Any] = {"folder": folder, "store": store}
        base = read_config(config) if config is not None else Config()
        chosen = replace(base, **{name: value for name, value in options.items() if value})
        if not chosen.store:
            if not make and not chosen.has_store():
                raise InputError(f"--folder {chosen.folder}: no daemon has stored anything there")
            chosen.make_folder()
        self._store: Any = open_store(chosen.store_address())

    def __enter__(self) -> Any:
        return self._store

    def __exit__(self, *_: object) -> None:
        self._store.close()
