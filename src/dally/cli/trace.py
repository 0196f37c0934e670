"""`dally trace`: read, change and make traces."""

from __future__ import annotations

import typer

from dally.cli import trace_generate

app = typer.Typer(help="Look at traces, change them, make new ones.", no_args_is_help=True)
app.command("generate", epilog=trace_generate.EXAMPLES)(trace_generate.generate)
