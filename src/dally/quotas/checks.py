"""What every tree of queues must keep, whichever format it was written in."""

from __future__ import annotations

from pathlib import Path

from dally.errors import at
from dally.input_file import shown
from dally.quotas.tree import ANY_TYPE, QueueNode, QueueTree


def checked(path: Path, tree: QueueTree) -> QueueTree:
    """The tree, or an InputError that names the queue's line, the field and the value that cannot be."""
    for node in tree.nodes.values():
        if not valid_path(node.path):
            raise at(path, node.line, None, f"{shown(node.path)}: cannot be the name of a queue")
        _limits(path, node)
        _guarantees(path, node, [tree.nodes[child] for child in tree.children[node.path]])
        if node.matches and tree.children[node.path]:
            problem = f"jobs cannot be here: {tree.children[node.path][0]!r} is below; only a leaf holds jobs"
            raise at(path, node.line, f"{node.path}: match", f"{_matches_text(node.matches)}: {problem}")
    _claims(path, tree)
    return tree


def valid_path(path: str) -> bool:
    """Whether it is names with / between them, none empty and none with space at its ends."""
    return all(part.strip() == part != "" for part in path.split("/"))


def _limits(path: Path, node: QueueNode) -> None:
    """A queue may hold at least what it is guaranteed."""
    for gpu_type, quota in node.quotas.items():
        if quota.limit < quota.guarantee:
            problem = f"{quota.limit:g}: below the guarantee of {quota.guarantee:g}"
            raise at(path, node.line, f"{node.path}: {_field('limit', gpu_type)}", problem)


def _guarantees(path: Path, node: QueueNode, children: list[QueueNode]) -> None:
    """What children are guaranteed must be their parent's to give, where the parent states anything."""
    for gpu_type, quota in node.quotas.items():
        options = sum(_guaranteed(child, gpu_type) for child in children)
        if quota.guarantee > 0.0 and options > quota.guarantee:
            raise _too_much(path, node, gpu_type, options, f"the guarantee of {quota.guarantee:g}")
        if options > quota.limit:
            raise _too_much(path, node, gpu_type, options, f"the limit of {quota.limit:g}")


def _too_much(path: Path, node: QueueNode, gpu_type: str, options: float, above: str) -> Exception:
    problem = f"its queues are guaranteed {options:g} together, above {above}"
    return at(path, node.line, f"{node.path}: {_field('guarantee', gpu_type)}", problem)


def _guaranteed(node: QueueNode, gpu_type: str) -> float:
    """GPUs of the type; of all together where only types are stated, their sum."""
    if gpu_type in node.quotas or gpu_type != ANY_TYPE:
        quota = node.quotas.get(gpu_type)
        return quota.guarantee if quota else 0.0
    return sum(quota.guarantee for quota in node.quotas.values())


def _claims(path: Path, tree: QueueTree) -> None:
    """Every fact leads to one queue."""
    claimed: dict[tuple[str, str], QueueNode] = {}
    for node in tree.nodes.values():
        for fact, values in node.matches.items():
            for value in values:
                other = claimed.setdefault((fact, value), node)
                if other is not node:
                    field, what = ("default", "true") if fact == "*" else (f"match.{fact}", repr(value))
                    where = f" (line {other.line})" if other.line else ""
                    raise at(
                        path, node.line, f"{node.path}: {field}", f"{what}: {other.path!r}{where} claims that too"
                    )


def _matches_text(matches: dict[str, tuple[str, ...]]) -> str:
    return ", ".join(f"{fact} {value!r}" for fact, values in matches.items() for value in values[:2])


def _field(name: str, gpu_type: str) -> str:
    return f"{name}.{gpu_type}" if gpu_type else name
