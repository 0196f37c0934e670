"""`dally trace`: read, change and make traces."""

from __future__ import annotations

import typer

app = typer.Typer(help="Look at traces, change them, make new ones.", no_args_is_help=True)
