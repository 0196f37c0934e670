"""A tree of queues written as queues.toml: what `toml_file` reads back as the same tree."""

from __future__ import annotations

from dally.model import INFINITY
from dally.quotas.toml_file import OF_ALL, QUOTAS
from dally.quotas.tree import ANY_TYPE, DEFAULT, QueueNode, QueueTree, Quota
from dally.toml import toml_key, toml_text, toml_value
from dally.traces.times import UNITS_S


def to_toml(tree: QueueTree) -> str:
    """The text of the file; defaults are left out."""
    lines: list[str] = []
    if tree.makes is not None:
        under = [f"under = {toml_text(tree.makes.template.path)}"] if tree.makes.template.path else []
        lines += ["[accounts]", f"make = {toml_text(tree.makes.fact)}", *under, *_facts(tree.makes.template), ""]
    if tree.classes:
        classes = (f"{toml_key(name)} = {_number(least)}" for name, least in tree.classes.items())
        lines += ["[priority_classes]", *classes, ""]
    for node in tree.nodes.values():
        lines += [f"[queues.{toml_key(node.path)}]", *_facts(node), ""]
    return "\n".join(lines[:-1]) + "\n"


def _facts(node: QueueNode) -> list[str]:
    """The lines that turn a queue of defaults into this one."""
    usual = QueueNode("")
    lines = [f"{key} = {text}" for key in QUOTAS if (text := _amounts(node, key))]
    lines += [f"weight = {_number(node.weight)}"] if node.weight != usual.weight else []
    lines += [f"priority = {_number(node.priority)}"] if node.priority != usual.priority else []
    lines += [f"half_life = {_span(node.half_life_s)}"] if node.half_life_s != usual.half_life_s else []
    lines += [f"min_runtime = {_span(node.min_runtime_s)}"] if node.min_runtime_s != usual.min_runtime_s else []
    if node.budget is not None:
        hours, window = _number(node.budget.gpu_hours), _span(node.budget.window_s)
        lines.append(f"budget = {{gpu_hours = {hours}, window = {window}}}")
    lines += ["hold = true"] if node.hold else []
    stated = {fact: values for fact, values in node.matches.items() if fact not in DEFAULT}
    lines += [f"match = {toml_value(stated)}"] if stated else []
    return lines + (["default = true"] if len(stated) < len(node.matches) else [])


def _amounts(node: QueueNode, key: str) -> str:
    """A number for all types together, or a table by type; empty if nothing is stated."""
    stated = {
        gpu_type: getattr(quota, key)
        for gpu_type, quota in node.quotas.items()
        if getattr(quota, key) != getattr(Quota(), key)
    }
    if stated.keys() == {ANY_TYPE}:
        return _number(stated[ANY_TYPE])
    items = [f"{toml_key(gpu_type or OF_ALL)} = {_number(gpus)}" for gpu_type, gpus in stated.items()]
    return f"{{{', '.join(items)}}}" if items else ""


def span_text(seconds: float) -> str:
    """`7d`, or seconds where no unit goes in."""
    for unit in ("d", "h", "m"):
        if 0.0 < seconds < INFINITY and seconds % UNITS_S[unit] == 0.0:
            return f"{seconds / UNITS_S[unit]:.0f}{unit}"
    return _number(seconds)


def _span(seconds: float) -> str:
    text = span_text(seconds)
    return toml_text(text) if text[-1] in UNITS_S else text


def _number(value: float) -> str:
    if value == INFINITY:
        return "inf"
    return str(int(value)) if abs(value) < 2**53 and value == int(value) else repr(value)
