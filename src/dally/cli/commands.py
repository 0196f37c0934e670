"""How commands are declared: with examples, and with options that several of them share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import typer

Command = Callable[..., Any]
Use = Callable[[Command, dict[str, Any], dict[str, Any]], None]


def examples(*lines: str) -> Callable[[Command], Command]:
    """Show these command lines below the help of a command."""

    def decorate(command: Command) -> Command:
        command.examples = lines  # type: ignore[attr-defined]
        return command

    return decorate


def group(about: str) -> typer.Typer:
    """A command that has commands of its own."""
    return typer.Typer(help=about, no_args_is_help=True)


def in_group(app: typer.Typer, name: str, *lines: str) -> Callable[[Command], Command]:
    """Make a function a command of a group, with these examples."""

    def decorate(command: Command) -> Command:
        add_command(app, name, examples(*lines)(command))
        return command

    return decorate


def add_command(app: typer.Typer, name: str, command: Command) -> None:
    """Add it with its examples; lists of commands show all of its first sentence, on several lines if need be."""
    lines = getattr(command, "examples", ())
    epilog = "\n\n  ".join(["Examples:" if len(lines) > 1 else "Example:", *lines])
    app.command(name, epilog=epilog, short_help=first_line(command.__doc__))(command)


def first_line(text: str | None) -> str:
    """The first line of a docstring."""
    return (text or "").strip().partition("\n")[0]


def shared_options(
    parameter: str, options: Mapping[str, tuple[Any, Any]], use: Use, first: bool = False
) -> Callable[[Command], Command]:
    """Give a command these options in place of its `parameter`; an option that it declares itself is its own.

    Options are a type and a default by name. `use` calls the command: it gets the command, the values of the
    shared options and those of its own.
    """

    def decorate(command: Command) -> Command:
        own = dict(inspect.signature(command, eval_str=True).parameters)
        del own[parameter]
        shared = {name: _parameter(name, *option) for name, option in options.items() if name not in own}

        @wraps(command)
        def call(**values: Any) -> None:
            use(command, {name: values.pop(name) for name in shared}, values)

        ordered = {name: shared.get(name, own.get(name)) for name in options} if first else {}
        parameters = {**ordered, **own, **shared}
        call.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined, arg-type]
        call.__annotations__ = {name: item.annotation for name, item in parameters.items() if item}
        return call

    return decorate


def _parameter(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind)
