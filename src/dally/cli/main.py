"""The `dally` command: puts the subcommands together and turns errors into exit codes."""

from __future__ import annotations

import ast
import gc
import os
import signal
import sys
import warnings
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from textwrap import TextWrapper
from typing import Any, Final

import typer

from dally import __version__, is_compiled
from dally.cli import streams
from dally.cli.commands import add_command, first_line
from dally.errors import InputError, InputWarning, Interrupted, PolicyError, one_line
from dally.extras import EXTRAS, missing

LONGEST_MESSAGE = 1000  # characters
# The module of each command, in the order of the help. A command is the function of its name there, unless the
# module is a group of commands.
COMMANDS: Final = {
    "init": "runs.init", "simulate": "runs.simulate", "compare": "runs.compare", "whatif": "runs.whatif",
    "serve": "live.serve", "queue": "live.queue", "submit": "live.queue", "hold": "live.actions",
    "release": "live.actions",
    "priority": "live.actions", "cancel": "live.actions", "nodes": "live.queue", "drain": "live.actions",
    "resume": "live.actions", "timers": "live.actions", "slots": "live.queue", "actions": "live.actions",
    "shadow": "live.shadow", "sweep": "runs.sweep", "benchmark": "runs.benchmark", "reproduce": "runs.benchmark",
    "explain": "runs.explain", "advise": "runs.advise", "report": "runs.report", "view": "runs.view",
    "policies": "runs.policies",
    "networks": "cluster.network", "models": "cluster.models", "queues": "cluster.queues",
    "topology": "cluster.topology", "trace": "trace.trace", "token": "live.token", "slurm": "live.slurm",
    "progress": "live.progress", "health": "cluster.failure_plan",
    "profile": "cluster.profile", "collective": "cluster.predict", "predict": "cluster.predict",
    "train": "runs.train", "evaluate": "runs.evaluate", "trial": "runs.trial",
    "learn": "trace.generate", "demo": "runs.compare",
}  # fmt: skip
# The class of all errors of a command line: its name and module differ from one typer to the next.
MISUSE: Final[type[Exception]] = typer.BadParameter.__mro__[typer.BadParameter.__mro__.index(Exception) - 1]
COMPLETION: Final = "_DALLY_COMPLETE"  # set where a shell asks what may come next
GROUPS: Final = ("topology", "trace", "token", "slurm", "progress", "health")


def app_of(names: Iterable[str], stubs: bool = False) -> typer.Typer:
    """The command line with these commands: importing all of them takes longer than many a run.

    `stubs`: they are imported not at all, and only listed.
    """
    made = typer.Typer(
        name="dally",
        help="A network-sensitive scheduler for GPU clusters, and the simulator that proves it.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    made.callback()(_root)
    for name in names:
        if stubs:
            made.command(name, short_help=_about(name))(_root)
            continue
        module = import_module(f"dally.cli.{COMMANDS[name]}")
        if name in GROUPS:
            made.add_typer(module.app, name=name)
        else:
            add_command(made, name, getattr(module, name))
    # Help texts name policies, options and files: a line end inside a name would make it another name.
    TextWrapper.wordsep_re = TextWrapper.wordsep_simple_re
    return made


def _about(name: str) -> str:
    """What a command does in a line, as its source says."""
    path = Path(__file__).parent.joinpath(*COMMANDS[name].split(".")).with_suffix(".py")
    module = ast.parse(path.read_text(encoding="utf-8"))
    if name in GROUPS:
        return first_line(ast.get_docstring(module))
    return next(
        first_line(ast.get_docstring(node))
        for node in module.body
        if isinstance(node, ast.FunctionDef) and node.name == name
    )


def __getattr__(name: str) -> Any:
    """`app`: the command line with all commands."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return app_of(COMMANDS)


def _version(value: bool) -> None:
    if value:
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
    """Run the command line as the shell asks for it."""
    signal.signal(signal.SIGTERM, _terminated)
    warnings.showwarning = _print_warning  # type: ignore[assignment]
    warnings.simplefilter("once", InputWarning)
    try:
        streams.prepare()
        code = exit_code(sys.argv[1:])
        sys.stdout.flush()
    except InputError as error:
        code = _say(str(error), 2)
    except streams.OutputLostError as lost:
        code = streams.give_up(lost)
    gc.freeze()  # as it ends, Python would look for garbage in all that a run has made
    sys.exit(code)


def _terminated(*_: object) -> None:
    """As Ctrl-C does: workers end with us, and what is temporary goes."""
    sys.exit(128 + signal.SIGTERM)


def exit_code(parts: Sequence[str]) -> int | str | None:
    """Run a command; 0: fine, 2: bad input, 1: a bug or runs that failed, 130: interrupted."""
    try:
        _check_text(parts)
        known = parts[:1] if parts and parts[0] in COMMANDS else []
        app = app_of(known or COMMANDS, stubs=not known and COMPLETION not in os.environ)
        code: int | None = app(list(parts), prog_name="dally", standalone_mode=False)
        if code == 130:
            return _say("interrupted; nothing was written", 130)
    except SystemExit as end:  # as completion ends
        return end.code
    except typer.Abort:
        return _say("interrupted; nothing was written", 130)
    except MISUSE as error:
        return _misused(error, parts)
    except Interrupted as error:
        return _say(f"interrupted; {error}", 130)
    except InputError as error:
        return _say(str(error), 2)
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        return _say(str(missing(error.name, parts[0])), 2)
    except PolicyError as error:
        return _say(f"a bug in the policy: {error}", 1)
    return code or 0


def _check_text(parts: Sequence[str]) -> None:
    """InputError for a word that no file of ours, all in UTF-8, could hold."""
    for token in parts:
        try:
            token.encode()
        except UnicodeEncodeError:
            raise InputError(f"{token!r}: is not text in UTF-8") from None


def _print_warning(message: Warning | str, *_: object) -> None:
    print(f"dally: warning: {message}", file=sys.stderr)


def _misused(error: Any, parts: Sequence[str]) -> int:
    """Say which option, argument or command is wrong; a group without a command gets its help."""
    problem = error.format_message()
    if problem.startswith("Usage: "):
        print(problem, file=sys.stderr)
        return int(error.exit_code)
    context = getattr(error, "ctx", None)
    path = (
        context.command_path
        if context
        else " ".join(["dally", *[token for token in parts[:1] if token in COMMANDS]])
    )
    return _say(f"{problem.rstrip('.')}; see `{path} --help`", error.exit_code)


def _say(problem: str, code: int) -> int:
    """Print it as one line, however long what was handed in is; the exit code."""
    print(f"dally: {one_line(problem, LONGEST_MESSAGE)}", file=sys.stderr)
    return code
