"""Prints docs/policies.md: the table of all policies from the registry, and what the code says of each part.

usage: python scripts/policies_page.py > docs/policies.md
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import fill

from dally.cli.runs.policies import shown
from dally.policies.base import Policy
from dally.policies.composed import ComposedPolicy
from dally.policies.declaration import NamedPolicy
from dally.policies.ordering.simple import SubmitOrder
from dally.policies.part import Part
from dally.policies.placement.base import Placement
from dally.policies.registry import POLICIES, build

SOURCES = Path(__file__).parent.parent / "src"
WIDTH = 116
HEAD = """# Policies

All policies run on the same engine, with the same network model and the same cost of preemption, so that a
comparison is fair by construction. A policy consists of an order, a placement and a preemption rule; most of
these [parts](#parts) serve several policies. `dally policies` prints the same table, and [results](results.md)
shows what the policies reach. `make docs` writes this page: change the code, not the page.

Most published policies place a gang wherever there is room. On slow networks that alone makes them lose. So each
policy without its own rule about tiers accepts `--set tier=closest`: its gangs stay at the closest tier that
could hold them, and where it preempts, it empties a domain of that tier. With `--policies all`, `dally compare`
and `dally benchmark` run both forms, and their tables show the one with the lower mean JCT, labelled
`srsf:tier=closest` if it is the held form. Name both (`--policies srsf,srsf:tier=closest`) to see both.

"""
PARTS = ("placement", "preemption")


def table(columns: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def sections() -> Iterator[str]:
    """The table, a section per policy, then one with every part."""
    yield HEAD
    yield table(
        ["policy", "order", "placement", "preemption", "needs to know", "paper"],
        [
            [f"[`{name}`](#{name})", row.order, row.placement, row.preemption, row.needs, row.paper]
            for name, row in POLICIES.items()
        ],
    )
    described: dict[str, type] = {}
    for name, row in POLICIES.items():
        used = [type(part) for part in parts_of(build(name))]
        yield from section(name, row, used)
        described |= {part.__name__: part for part in used}
    yield "\n## Parts\n"
    for name, part in sorted(described.items()):
        yield f"\n### {name}\n\n{description(part)}\n"


def parts_of(policy: Policy) -> list[Part]:
    """The policy and its parts, without those that every policy has unless it says otherwise."""
    order = getattr(policy, "ranks", policy.order)  # one that is wrapped, without its wrapper
    parts = (policy, order, *(getattr(policy, attribute, None) for attribute in PARTS))
    return [part for part in parts if isinstance(part, Part) and not is_default(part, policy)]


def section(name: str, row: NamedPolicy, used: list[type]) -> Iterator[str]:
    """One policy: its parts and its parameters."""
    links = ", ".join(f"[{part.__name__}](#{part.__name__.lower()})" for part in used)
    yield f"\n## {name}\n\nParts: {links}.\n"
    if row.params:
        yield "\n" + table(
            ["`--set`", "default", "meaning"],
            [[f"`{param.name}`", f"`{shown(param.default)}`", param.about] for param in row.params],
        )


def is_default(part: Part, policy: Policy) -> bool:
    """Whether the part is what every policy has that says nothing else."""
    return type(part) is Placement or (type(part) is SubmitOrder and not isinstance(policy, ComposedPolicy))


def description(part: type) -> str:
    """The class's docstring, read from the source: a compiled class has none."""
    source = SOURCES / (part.__module__.replace(".", "/") + ".py")
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef) and node.name == part.__name__:
            paragraphs = (ast.get_docstring(node) or "").split("\n\n")
            return "\n\n".join(fill(" ".join(text.split()), WIDTH) for text in paragraphs)
    raise LookupError(part)


def main() -> None:
    """Write the page to stdout."""
    sys.stdout.writelines(sections())


if __name__ == "__main__":
    main()
