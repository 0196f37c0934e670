"""Quotas changed one at a time: `research.guarantee=+64`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from dally.errors import InputError, unknown
from dally.quotas.toml_file import OF_ALL, QUOTAS
from dally.quotas.tree import ANY_TYPE, FIELDS, NUMBER, QueueNode, QueueTree, Quota, checked

PLAIN = {field.key: field for field in FIELDS if field.kind == NUMBER}
FORM = "QUEUE.KEY=VALUE or QUEUE.KEY:TYPE=VALUE, as research.guarantee=+64"


def with_changes(tree: QueueTree, changes: Iterable[str]) -> QueueTree:
    """The tree with these changes, each checked; `+` and `-` before a number change what is there."""
    nodes = dict(tree.nodes)
    for text in changes:
        name, _, value = text.partition("=")
        path, _, key = name.strip().rpartition(".")
        key, _, gpu_type = key.partition(":")
        if not path or not value.strip():
            raise InputError(f"--quota {text}: must be {FORM}")
        if path not in nodes:
            raise unknown("queue", path, nodes)
        if key not in (*QUOTAS, *PLAIN):
            raise unknown(f"--quota {text}: key", key, (*QUOTAS, *PLAIN))
        nodes[path] = _changed(nodes[path], key, gpu_type, value.strip(), text)
    result = QueueTree(list(nodes.values()), tree.source, tree.makes, tree.notes, tree.classes)
    return checked(Path(tree.source), result)


def check_types(changes: Iterable[str], types: Iterable[str]) -> None:
    """InputError for a change of the quota of a type of GPU that is not among these: it would change nothing."""
    known = [name for name in types if name]
    for text in changes:
        kind = text.partition("=")[0].rpartition(".")[2].partition(":")[2].strip()
        if kind not in ("", OF_ALL, *known):
            raise unknown(f"--quota {text}: GPU type", kind, known or ["none, as the cluster states no types"])


def _changed(node: QueueNode, key: str, gpu_type: str, value: str, text: str) -> QueueNode:
    try:
        number = float(value)
    except ValueError:
        raise InputError(
            f"--quota {text}: {value!r}: must be a number, with + or - before it to change it"
        ) from None
    kind = ANY_TYPE if gpu_type in ("", OF_ALL) else gpu_type
    before = getattr(node, key) if key in PLAIN else getattr(node.quotas.get(kind, Quota()), key)
    if value[0] in "+-" and before == float("inf"):
        raise InputError(f"--quota {text}: {node.path} has no {key} to change; give the number without a sign")
    after = before + number if value[0] in "+-" else number
    negative, zero = (PLAIN[key].negative, PLAIN[key].zero) if key in PLAIN else (False, True)
    if not (after >= 0.0 or negative) or (after == 0.0 and not zero):
        raise InputError(f"--quota {text}: {after:g}: must not be {'' if zero else '0 or '}negative")
    new: dict[str, Any] = {key: after}
    if key in PLAIN:
        return replace(node, **new)
    quota = replace(node.quotas.get(kind, Quota()), **new)
    return replace(node, quotas={**node.quotas, kind: quota})
