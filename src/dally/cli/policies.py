"""`dally policies`."""

from __future__ import annotations

import json

import typer

from dally.cli.output import print_table
from dally.policies.registry import POLICIES

EXAMPLES = "Example: dally policies --json"


def shown(value: float | int | str | bool) -> str:
    """A default as `--set` takes it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return value if isinstance(value, str) else f"{value:g}"


def policies(
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """List the policies with their parts, parameters and papers."""
    if as_json:
        rows = [
            {
                "name": name,
                "order": row.order,
                "placement": row.placement,
                "preemption": row.preemption,
                "needs": row.needs,
                "paper": row.paper,
                "parameters": [
                    {"name": param.name, "default": param.default, "about": param.about} for param in row.params
                ],
            }
            for name, row in POLICIES.items()
        ]
        typer.echo(json.dumps(rows, indent=2))
        return
    print_table(
        ["policy", "order", "placement", "preemption", "needs to know", "paper"],
        [[name, row.order, row.placement, row.preemption, row.needs, row.paper] for name, row in POLICIES.items()],
    )
    print_table(
        ["--set", "meaning", "defaults"],
        [[param, about, defaults] for param, (about, defaults) in _parameters().items()],
    )


def _parameters() -> dict[str, tuple[str, str]]:
    """Each parameter's meaning, and its default by policy."""
    found: dict[str, tuple[str, str]] = {}
    for name, row in POLICIES.items():
        for param in row.params:
            _, defaults = found.get(param.name, ("", ""))
            default = f"{name} {shown(param.default)}"
            found[param.name] = (param.about, f"{defaults}, {default}" if defaults else default)
    return found
