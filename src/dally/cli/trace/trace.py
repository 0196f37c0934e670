"""`dally trace`: read, change and make traces."""

from __future__ import annotations

import typer

from dally.cli.trace import change, convert, generate, stats

app = typer.Typer(help="Look at traces, change them, make new ones.", no_args_is_help=True)
app.command("stats", epilog=stats.EXAMPLES)(stats.stats)
app.command("head", epilog=convert.HEAD_EXAMPLES)(convert.head)
app.command("convert", epilog=convert.EXAMPLES)(convert.convert)
app.command("window", epilog=change.WINDOW_EXAMPLES)(change.window)
app.command("scale", epilog=change.SCALE_EXAMPLES)(change.scale)
app.command("filter", epilog=change.FILTER_EXAMPLES)(change.filter_jobs)
app.command("generate", epilog=generate.EXAMPLES)(generate.generate)
