"""The names of what a sweep varies: a scenario's fields, `set.KEY` of its policy, `network.KEY` of its network."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from dally.cluster.links import Links
from dally.errors import InputError, unknown
from dally.input_file import shown
from dally.policies.registry import POLICIES
from dally.runs.scenario import Scenario
from dally.runs.world import TABLES
from dally.switch import ACCEPTED, is_on

FIELDS = {item.name: str(item.type) for item in fields(Scenario) if item.name not in (*TABLES.values(), "digests")}


def full_name(name: str) -> str:
    """The name with its table; a parameter of a policy may go without `set.`. InputError if nothing has it."""
    table, dot, rest = name.partition(".")
    if dot and table in TABLES:
        if table == "network" and rest not in Links._fields:
            raise unknown("parameter of networks", rest, Links._fields)
        return name  # what `set` may hold is for the policy to say, which may be a user's own
    if name in FIELDS:
        return name
    if name in _set_names():
        return f"set.{name}"
    raise unknown("parameter", name, [*FIELDS, *_set_names(), *(f"network.{item}" for item in Links._fields)])


def _set_names() -> list[str]:
    return list(dict.fromkeys(param.name for policy in POLICIES.values() for param in policy.params))


def convert(name: str, value: Any) -> Any:
    """The value as the parameter takes it; settings are text, as `--set` takes them."""
    wanted = FIELDS.get(name, "str")
    try:
        if not isinstance(value, (str, int, float)) or (isinstance(value, bool) and wanted not in ("bool", "str")):
            raise ValueError
        if wanted == "bool":
            return is_on(value)
        if wanted == "int":
            return int(str(value))
        if wanted == "float":
            return float(value)
    except ValueError:
        kind = ACCEPTED if wanted == "bool" else f"of type {wanted}"
        raise InputError(f"{name}: {shown(value)}: must be {kind}") from None
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) and value.is_integer() else str(value)
