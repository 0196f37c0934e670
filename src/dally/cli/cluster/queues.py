"""`dally queues`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from dally.cli.commands import examples
from dally.cli.output import print_table
from dally.errors import unknown
from dally.model import INFINITY
from dally.quotas.tree import BUDGET, DEFAULT, FIELDS, NUMBER, SWITCH, Budget, QueueField, QueueNode, QueueTree

QUOTAS = ("guarantee", "limit", "lend_limit")


@examples(
    "dally queues queues.toml",
    "dally queues clusterqueues.yaml --to toml --out queues.toml",
    "sacctmgr show assoc tree -P | dally queues /dev/stdin --json",
)
def queues(
    file: Path = typer.Argument(
        help="queues.toml, Kueue's or KAI's YAML, or what sacctmgr show assoc -P or show qos -P prints."
    ),
    form: str = typer.Option("auto", "--format", help="auto, toml, kueue, kai or slurm."),
    to: str = typer.Option("", metavar="FORMAT", help="Print it in this format instead: toml."),
    out: Path | None = typer.Option(None, metavar="FILE", help="Write that to a file."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table."),
) -> None:
    """Show a tree of queues: guarantees, limits, and which jobs belong to which queue."""
    from dally.quotas.known_formats import read_quotas
    from dally.quotas.toml_file import to_toml
    from dally.whole_file import write_whole

    if to not in ("", "toml"):
        raise unknown("format to write", to, ["toml"])
    tree = read_quotas(file, form)
    if out is not None:
        write_whole(out, to_toml(tree).encode())
        typer.echo(f"{out}: {len(tree.nodes)} queues, {len(tree.leaves())} of them with jobs")
    elif to:
        typer.echo(to_toml(tree), nl=False)
    elif as_json:
        typer.echo(json.dumps(tree_record(tree), indent=2))
    else:
        _show(tree)
    for note in tree.notes:
        typer.echo(f"dally: {file}: {note}", err=True)


def tree_record(tree: QueueTree) -> dict[str, object]:
    """The tree as JSON shows it; what has no bound is null."""
    record: dict[str, object] = {"queues": [_record(tree, node) for node in tree.nodes.values()]}
    if tree.makes is not None:
        record["make"] = tree.makes.fact
    return {**record, "notes": list(tree.notes)}


def _record(tree: QueueTree, node: QueueNode) -> dict[str, object]:
    return {
        "path": node.path,
        "leaf": not tree.children[node.path],
        "quotas": {
            gpu_type or "*": {key: _json_value(getattr(quota, key)) for key in QUOTAS}
            for gpu_type, quota in node.quotas.items()
        },
        **{field.name: _json_value(getattr(node, field.name)) for field in FIELDS},
        "match": {fact: list(values) for fact, values in node.matches.items() if fact not in DEFAULT},
        "default": any(fact in DEFAULT for fact in node.matches),
    }


def _json_value(value: Any) -> object:
    return None if value == INFINITY else asdict(value) if isinstance(value, Budget) else value


def _show(tree: QueueTree) -> None:
    """One line a queue, indented below its parent; columns that say the same of all are left out."""
    columns = ["queue", "guarantee", "limit", "lends", *(field.heading for field in FIELDS), "jobs"]
    rows = [_row(tree, path) for path in _by_family(tree)]
    usual = ["", "-", "-", "-", *_values(QueueNode("")), ""]
    remaining = [at for at in range(len(columns)) if at in (0, 4) or any(row[at] != usual[at] for row in rows)]
    if rows:
        print_table([columns[at] for at in remaining], [[row[at] for at in remaining] for row in rows])
    if tree.makes is not None:
        below = f" below {tree.makes.template.path}" if tree.makes.template.path else ""
        typer.echo(f"and a queue for each {tree.makes.fact} of the jobs{below}")


def _by_family(tree: QueueTree) -> list[str]:
    """All paths, each followed by those below it."""
    result: list[str] = []
    waiting = [*reversed(tree.children[""])]
    while waiting:
        result.append(waiting.pop())
        waiting += reversed(tree.children[result[-1]])
    return result


def _row(tree: QueueTree, path: str) -> list[str]:
    node = tree.nodes[path]
    name = "  " * path.count("/") + path.rpartition("/")[2]
    return [name, *(_by_type(node, key) for key in QUOTAS), *_values(node), ", ".join(_claims(node))]


def _values(node: QueueNode) -> list[str]:
    return [_text(getattr(node, field.name), field) for field in FIELDS]


def _text(value: Any, field: QueueField) -> str:
    from dally.quotas.toml_file import span_text

    if field.kind == BUDGET:
        return f"{value.gpu_hours:g} GPU-h per {span_text(value.window_s)}" if value else "-"
    if field.kind == SWITCH:
        return "held" if value else ""
    if field.kind == NUMBER:
        return "-" if value == INFINITY else f"{value:g}"
    return span_text(value)


def _by_type(node: QueueNode, key: str) -> str:
    stated = {gpu_type: getattr(quota, key) for gpu_type, quota in node.quotas.items()}
    usual = 0.0 if key == "guarantee" else INFINITY
    texts = [f"{gpus:g} {gpu_type}".strip() for gpu_type, gpus in stated.items() if gpus != usual]
    return " + ".join(texts) or "-"


def _claims(node: QueueNode) -> list[str]:
    result = [f"{fact} {value}" for fact, values in node.matches.items() if fact not in DEFAULT for value in values]
    return result + (["all others"] if any(fact in DEFAULT for fact in node.matches) else [])
