"""Prints docs/cli.md: the help text of every command, taken from the command line itself.

usage: python scripts/cli_reference.py > docs/cli.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import typer

from dally.cli.main import app

WIDTH = 100
HEAD = """# Command line

The help text of every command. Exit codes: 0 fine, 1 a bug in Dally or in a policy, or some of many runs failed,
2 bad input or a full standard output, 130 interrupted, 141 the reader of the output has gone,
143 terminated (SIGTERM).
This page is written by `make docs`: change the command, not the page.
"""


def sections(command: Any, name: str, parent: typer.Context | None = None) -> Iterator[str]:
    """One section for the command, then those of its subcommands in the order of the help text."""
    settings = {**command.context_settings, "terminal_width": WIDTH, "max_content_width": WIDTH}
    context = typer.Context(command, parent=parent, info_name=name, **settings)
    text = "\n".join(line.rstrip() for line in command.get_help(context).strip().splitlines())
    yield f"\n## `{context.command_path}`\n\n```text\n{text}\n```\n"
    for child, subcommand in getattr(command, "commands", {}).items():
        yield from sections(subcommand, child, context)


def main() -> None:
    """Write the page to stdout."""
    sys.stdout.write(HEAD)
    sys.stdout.writelines(sections(typer.main.get_command(app), "dally"))


if __name__ == "__main__":
    main()
