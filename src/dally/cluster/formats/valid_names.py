"""Names that another format can hold."""

from __future__ import annotations

import re
from collections.abc import Iterable

TOML = re.compile(r"[/\[\]\x00-\x1f]")  # what cannot be in a name: / and [ ] have a meaning in paths
SLURM = re.compile(r"[^A-Za-z0-9_.-]")


def valid_names(
    names: Iterable[str], wrong: re.Pattern[str] = TOML, taken: set[str] | None = None, most: int = 0
) -> list[str]:
    """The names with what the format cannot hold replaced by _, and no two alike.

    Those that need no change keep their name. `taken` holds names that are in use and is added to; `most` is
    how many characters a name may have.
    """
    taken = set() if taken is None else taken
    wanted = list(names)
    fine = {name for name in wanted if name and not wrong.search(name) and not (most and len(name) > most)}
    counts: dict[str, int] = {}
    found: list[str] = []
    for name in wanted:
        base = wrong.sub("_", name)[: most or None] or "_"
        new, number = base, counts.get(base, 1)
        while new in taken or (new != name and new in fine):
            number += 1
            tail = f"_{number}"
            new = (base[: most - len(tail)] if most else base) + tail
        counts[base] = number
        taken.add(new)
        found.append(new)
    return found
