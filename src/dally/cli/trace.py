"""`dally trace`: read, change and make traces."""

from __future__ import annotations

import typer

from dally.cli import trace_change, trace_convert, trace_generate, trace_stats

app = typer.Typer(help="Look at traces, change them, make new ones.", no_args_is_help=True)
app.command("stats", epilog=trace_stats.EXAMPLES)(trace_stats.stats)
app.command("head", epilog=trace_convert.HEAD_EXAMPLES)(trace_convert.head)
app.command("convert", epilog=trace_convert.EXAMPLES)(trace_convert.convert)
app.command("window", epilog=trace_change.WINDOW_EXAMPLES)(trace_change.window)
app.command("scale", epilog=trace_change.SCALE_EXAMPLES)(trace_change.scale)
app.command("filter", epilog=trace_change.FILTER_EXAMPLES)(trace_change.filter_jobs)
app.command("generate", epilog=trace_generate.EXAMPLES)(trace_generate.generate)
