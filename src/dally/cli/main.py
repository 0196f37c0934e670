"""The `dally` command: puts the subcommands together and turns errors into exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer

from dally import __version__, is_compiled
from dally.errors import InputError, Interrupted, PolicyError

# Commands in the order of the help. Each is the function of its name in the module of its name, or a group there.
GROUPS = ("topology", "trace")
ALL = (
    "simulate", "compare", "whatif", "sweep", "benchmark", "reproduce", "explain", "report", "policies", "models",
    *GROUPS, "collective", "predict", "learn", "demo",
)  # fmt: skip


def app_of(names: Sequence[str]) -> typer.Typer:
    """The command line with these commands alone: importing all of them takes longer than many a run."""
    made = typer.Typer(
        name="dally",
        help="A network-sensitive scheduler for GPU clusters, and the simulator that proves it.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    made.callback()(_root)
    for name in names:
        module = import_module(f"dally.cli.{name}")
        if name in GROUPS:
            made.add_typer(module.app, name=name)
        else:
            made.command(name, epilog=module.EXAMPLES)(getattr(module, name))
    return made


def __getattr__(name: str) -> Any:
    """`app`: the command line with all commands."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return app_of(ALL)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dally {__version__} ({'compiled' if is_compiled() else 'not compiled'})")
        raise typer.Exit


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
    named = sys.argv[1:2]
    try:
        app_of(named if named and named[0] in ALL else ALL)()
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
