"""Lines as programs print them that train nothing: made up from templates, with numbers drawn by seed."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

# {n} a whole number, {s} a small one, {p} a percentage, {f} a decimal, {t} a time, {d} a date, {w} a name,
# {h} a hash.
TEMPLATES = Path(__file__).with_name("other_programs.txt")
NAMES = (
    "libfoo", "core", "alpha", "north", "parser", "shim", "widget", "relay", "zeta", "broker", "ingest", "harbor",
    "quartz", "delta", "kernel-core", "mapper", "panel", "atlas",
)  # fmt: skip


def lines(count: int, seed: int = 1) -> Iterator[str]:
    """So many lines, from every template in turn."""
    draw = random.Random(seed)
    templates = TEMPLATES.read_text(encoding="utf-8").splitlines()
    for place in range(count):
        yield re.sub(r"\{([nspftdwh])\}", lambda kind: _value(kind[1], draw), templates[place % len(templates)])


def _value(kind: str, draw: random.Random) -> str:
    match kind:
        case "n":
            return str(draw.randint(1, 10 ** draw.randint(2, 6)))
        case "s":
            return str(draw.randint(1, 59))
        case "p":
            return str(draw.randint(1, 100))
        case "f":
            return f"{draw.uniform(0.1, 900.0):.{draw.randint(1, 3)}f}"
        case "t":
            return f"{draw.randint(0, 23):02}:{draw.randint(0, 59):02}:{draw.randint(0, 59):02}"
        case "d":
            return f"20{draw.randint(20, 26)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}"
        case "w":
            return draw.choice(NAMES)
    return f"{draw.getrandbits(48):012x}"
