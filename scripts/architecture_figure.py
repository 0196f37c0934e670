"""Draws the folders of dally, top to bottom as imports may go, with an arc for every import there is.

usage: python scripts/architecture_figure.py > docs/images/architecture.svg

The order is that of .importlinter, the arcs are those of the code. An arc that only repeats a way through
other folders is drawn faintly. The same code gives the same bytes.
"""

from __future__ import annotations

import ast
import configparser
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "dally"
WIDTH, ROW, TOP, LEFT, ARCS = 900, 34, 14, 16, 740

LONGEST = 90  # letters that fit a box

Edges = set[tuple[str, str]]

STYLE = """
    .name { fill: #1f2328; font-size: 14px; font-weight: 600 }
    .about { fill: #57606a; font-size: 12px }
    .box { fill: #f6f8fa; stroke: #d0d7de }
    .arc { fill: none; stroke: #0969da; stroke-width: 1.4 }
    .faint { fill: none; stroke: #0969da; stroke-width: 1; stroke-opacity: 0.16 }
    @media (prefers-color-scheme: dark) {
      .name { fill: #e6edf3 } .about { fill: #9ea7b3 } .box { fill: #161b22; stroke: #30363d }
      .arc, .faint { stroke: #58a6ff }
    }
"""


def layers() -> list[list[str]]:
    """The folders and files under dally, highest first; those on one line may not import each other."""
    rules = configparser.ConfigParser()
    rules.read(ROOT / ".importlinter", encoding="utf-8")
    stated = rules["importlinter:contract:layers"]["layers"].split("\n")
    return [[name.strip() for name in line.split("|")] for line in stated if line.strip()]


def files_of(name: str) -> list[Path]:
    """The sources of a folder or of a single file."""
    folder = SOURCE / name
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]


def about(name: str) -> str:
    """The first sentence of its docstring."""
    folder = SOURCE / name
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    first = text.split("\n")[0].split(". ")[0].rstrip(".")
    return first if len(first) <= LONGEST else first.split(": ")[0]


def imports(names: list[str]) -> Edges:
    """Who imports whom."""
    found: Edges = set()
    for name in names:
        for path in files_of(name):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                modules: list[str] = []
                if isinstance(node, ast.ImportFrom) and node.module:
                    modules = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
                elif isinstance(node, ast.Import):
                    modules = [alias.name for alias in node.names]
                for module in modules:
                    head, _, rest = module.partition(".")
                    other = rest.partition(".")[0]
                    if head == "dally" and other in names and other != name:
                        found.add((name, other))
    return found


def needed(edges: Edges) -> Edges:
    """The edges that no longer way replaces."""
    after: dict[str, set[str]] = {}
    for one, other in edges:
        after.setdefault(one, set()).add(other)

    def reaches(start: str, end: str, seen: set[str]) -> bool:
        for other in after.get(start, set()) - seen:
            seen.add(other)
            if other == end or reaches(other, end, seen):
                return True
        return False

    return {
        (one, other)
        for one, other in edges
        if not any(middle != other and reaches(middle, other, {middle}) for middle in after[one])
    }


def arc(one: float, other: float, kind: str) -> str:
    """A bow from one row to another, wider the farther they are apart."""
    width = 24 + 0.26 * abs(other - one)
    return (
        f'  <path class="{kind}" d="M{ARCS},{one:.1f} C{ARCS + width:.1f},{one:.1f} {ARCS + width:.1f},{other:.1f} '
        f'{ARCS},{other:.1f}"/>'
    )


def picture() -> str:
    """The SVG."""
    names = [name for layer in layers() for name in layer]
    edges = imports(names)
    strong = needed(edges)
    height = TOP * 2 + ROW * len(names)
    middle = {name: TOP + ROW * place + ROW / 2 for place, name in enumerate(names)}
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'role="img" aria-labelledby="title desc" '
        "font-family=\"ui-sans-serif, system-ui, 'Segoe UI', Helvetica, Arial, sans-serif\">",
        '  <title id="title">What imports what</title>',
        '  <desc id="desc">Folders of dally from top to bottom; arcs lead from a folder down to what it imports.'
        "</desc>",
        f"  <style>{STYLE}  </style>",
    ]
    for kind, group in (("faint", edges - strong), ("arc", strong)):
        for one, other in sorted(group, key=lambda edge: (names.index(edge[0]), names.index(edge[1]))):
            lines.append(arc(middle[one] + 4, middle[other] - 4, kind))
    for name in names:
        y = middle[name]
        lines += [
            f'  <rect class="box" x="{LEFT}" y="{y - 14:.1f}" width="{ARCS - LEFT}" height="28" rx="5"/>',
            f'  <text class="name" x="{LEFT + 10}" y="{y + 5:.1f}">{escape(name)}</text>',
            f'  <text class="about" x="{LEFT + 124}" y="{y + 4.5:.1f}">{escape(about(name))}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    sys.stdout.write(picture())
