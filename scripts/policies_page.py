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

All of these run on the same engine, the same model of the network and the same cost of preemption, so that a
comparison is fair by construction. A policy is an order, a placement and a rule of preemption, most of them
used by several policies. `dally policies` prints the same table, and [results](results.md) what they reach. This
page is written by `make docs`: change the code, not the page.

Most published policies send a gang wherever there is room. On slow networks that alone makes them lose, whatever
their idea: so each that has no rule of its own about tiers takes `--set tier=closest`, which holds its gangs at the
closest tier that could hold them, and empties a domain of that tier where it preempts. `dally compare` and
`dally benchmark` run both forms of what `all` stands for, and their tables show the one with the lower mean JCT,
labelled `srsf:tier=closest` if it is the held one. Name both (`--policies srsf,srsf:tier=closest`) to see both.

"""
PARTS = ("placement", "preemption")


def table(columns: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def sections() -> Iterator[str]:
    """The table, then a section per policy."""
    yield HEAD
    yield table(
        ["policy", "order", "placement", "preemption", "needs to know", "paper"],
        [
            [f"[`{name}`](#{name})", row.order, row.placement, row.preemption, row.needs, row.paper]
            for name, row in POLICIES.items()
        ],
    )
    for name, row in POLICIES.items():
        yield from section(name, row)


def section(name: str, row: NamedPolicy) -> Iterator[str]:
    """What the code says of one policy, and its parameters."""
    yield f"\n## {name}\n"
    policy = build(name)
    order = getattr(policy, "ranks", policy.order)  # one that is wrapped, without its wrapper
    for part in (policy, order, *(getattr(policy, attribute, None) for attribute in PARTS)):
        if isinstance(part, Part) and not is_default(part, policy):
            yield f"\n**{type(part).__name__}.** {said_of(type(part))}\n"
    if row.params:
        yield "\n" + table(
            ["`--set`", "default", "meaning"],
            [[f"`{param.name}`", f"`{shown(param.default)}`", param.about] for param in row.params],
        )


def is_default(part: Part, policy: Policy) -> bool:
    """Whether the part is what every policy has that says nothing else."""
    return type(part) is Placement or (type(part) is SubmitOrder and not isinstance(policy, ComposedPolicy))


def said_of(part: type) -> str:
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
