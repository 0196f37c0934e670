"""Host lists as Slurm writes them: `n[01-03,7]` stands for n01, n02, n03, n7."""

from __future__ import annotations

import re

MOST_NAMES = 1_000_000
_PART = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def expand(text: str) -> list[str]:
    """Every name the pattern stands for; ValueError says what is wrong with it."""
    names = [""]
    done = 0
    for part in _PART.finditer(text):
        literal = text[done : part.start()]
        names = [name + literal + number for name in names for number in _numbers(part.group(1))]
        if len(names) > MOST_NAMES:
            raise ValueError(f"stands for more than {MOST_NAMES} names")
        done = part.end()
    rest = text[done:]
    if not text or "[" in rest or "]" in rest:
        raise ValueError("must be a name such as rack0 or a pattern such as rack[0-3]")
    return [name + rest for name in names]


def _numbers(ranges: str) -> list[str]:
    found: list[str] = []
    for item in ranges.split(","):
        match = _RANGE.fullmatch(item.strip())
        if match is None:
            raise ValueError(f"{item!r} is not a number or a range such as 0-3")
        first, last = match.group(1), match.group(2) or match.group(1)
        if int(last) < int(first) or int(last) - int(first) >= MOST_NAMES:
            raise ValueError(f"{item!r} is not a rising range of at most {MOST_NAMES} numbers")
        found += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return found
