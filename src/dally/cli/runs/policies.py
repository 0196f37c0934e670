"""`dally policies`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import typer

from dally.cli.commands import examples
from dally.cli.output import print_table
from dally.policies.declaration import NamedPolicy
from dally.policies.registry import all_policies


def shown(value: float | int | str | bool) -> str:
    """A default as `--set` takes it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return value if isinstance(value, str) else f"{value:g}"


@examples("dally policies --json")
def policies(
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """List the policies with their parts, parameters and papers."""
    result, problems = all_policies()
    if as_json:
        typer.echo(json.dumps([_values(row) for row in result.values()], indent=2))
    else:
        _show(result)
    for problem in problems:
        typer.echo(f"dally: warning: {problem}", err=True)


def _values(row: NamedPolicy) -> dict[str, Any]:
    """The row for scripts; a source only where another distribution brings it."""
    parameters = [{"name": param.name, "default": param.default, "about": param.about} for param in row.params]
    texts = {name: getattr(row, name) for name in ("name", "order", "placement", "preemption", "needs", "paper")}
    return {**texts, "parameters": parameters, **({"source": row.source} if row.source else {})}


def _show(result: Mapping[str, NamedPolicy]) -> None:
    print_table(
        ["policy", "order", "placement", "preemption", "needs to know", "paper"],
        [[name, row.order, row.placement, row.preemption, row.needs, row.paper] for name, row in result.items()],
    )
    print_table(
        ["--set", "meaning", "defaults"],
        [[param, about, defaults] for param, (about, defaults) in _parameters(result).items()],
    )
    for name, row in result.items():
        if row.source:
            typer.echo(f"{name} comes with {row.source}")


def _parameters(policies: Mapping[str, NamedPolicy]) -> dict[str, tuple[str, str]]:
    """Each parameter's meaning, and its default by policy."""
    result: dict[str, tuple[str, str]] = {}
    for name, row in policies.items():
        for param in row.params:
            about, defaults = result.get(param.name, ("", ""))
            default = f"{name} {shown(param.default)}"
            result[param.name] = (param.about or about, f"{defaults}, {default}" if defaults else default)
    return result
