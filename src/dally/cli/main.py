"""The `dally` command: puts the subcommands together and turns errors into exit codes."""

from __future__ import annotations

import sys

import typer

from dally import __version__, is_compiled
from dally.cli import (
    benchmark,
    collective,
    compare,
    demo,
    explain,
    models,
    policies,
    predict,
    report,
    reproduce,
    simulate,
    sweep,
    topology,
    trace,
    whatif,
)
from dally.errors import InputError, Interrupted, PolicyError

app = typer.Typer(
    name="dally",
    help="A network-sensitive scheduler for GPU clusters, and the simulator that proves it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
app.command("simulate", epilog=simulate.EXAMPLES)(simulate.simulate)
app.command("compare", epilog=compare.EXAMPLES)(compare.compare)
app.command("whatif", epilog=whatif.EXAMPLES)(whatif.whatif)
app.command("sweep", epilog=sweep.EXAMPLES)(sweep.sweep)
app.command("benchmark", epilog=benchmark.EXAMPLES)(benchmark.benchmark)
app.command("reproduce", epilog=reproduce.EXAMPLES)(reproduce.reproduce)
app.command("explain", epilog=explain.EXAMPLES)(explain.explain)
app.command("report", epilog=report.EXAMPLES)(report.report)
app.command("policies", epilog=policies.EXAMPLES)(policies.policies)
app.command("models", epilog=models.EXAMPLES)(models.models)
app.add_typer(topology.app, name="topology")
app.add_typer(trace.app, name="trace")
app.command("collective", epilog=collective.EXAMPLES)(collective.collective)
app.command("predict", epilog=predict.EXAMPLES)(predict.predict)
app.command("demo", epilog=demo.EXAMPLES)(demo.demo)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dally {__version__} ({'compiled' if is_compiled() else 'not compiled'})")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False,
        "--version",
        callback=_version,
        is_eager=True,
        help="Print the version, and whether it is compiled.",
    ),
) -> None:
    pass


def main() -> None:
    """Run the command line. Exit code 0: fine, 2: bad input, 1: a bug or runs that failed, 130: interrupted."""
    try:
        app()
    except SystemExit as end:
        if end.code == 130:
            print("dally: interrupted; nothing was written", file=sys.stderr)
        raise
    except Interrupted as error:
        print(f"dally: interrupted; {error}", file=sys.stderr)
        sys.exit(130)
    except InputError as error:
        print(f"dally: {error}", file=sys.stderr)
        sys.exit(2)
    except PolicyError as error:
        print(f"dally: a bug in the policy: {error}", file=sys.stderr)
        sys.exit(1)
