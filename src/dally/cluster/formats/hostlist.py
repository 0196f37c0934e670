"""Host lists as Slurm writes them: `n[01-03,7]` stands for n01, n02, n03, n7."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MOST_NAMES = 1_000_000
_PART = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,18})([^0-9]*)", re.DOTALL)


def expand(text: str) -> list[str]:
    """Every name the pattern stands for; ValueError says what is wrong with it."""
    names = [""]
    done = 0
    for part in _PART.finditer(text):
        literal = text[done : part.start()]
        numbers = _numbers(part.group(1))
        if len(names) * len(numbers) > MOST_NAMES:
            raise ValueError(f"stands for more than {MOST_NAMES} names")
        names = [name + literal + number for name in names for number in numbers]
        done = part.end()
    rest = text[done:]
    if not text or "[" in rest or "]" in rest:
        raise ValueError("must be a name such as rack0 or a pattern such as rack[0-3]")
    return [name + rest for name in names]


def expand_list(text: str) -> list[str]:
    """Every name of a list of patterns separated by commas: `a,b[1-2]` stands for a, b1, b2."""
    result: list[str] = []
    for pattern in split_outside(text, "[]"):
        result += expand(pattern.strip())
        if len(result) > MOST_NAMES:
            raise ValueError(f"stands for more than {MOST_NAMES} names")
    return result


def split_outside(text: str, brackets: str) -> list[str]:
    """The parts between the commas that are not inside a pair of brackets."""
    parts: list[str] = []
    pieces: list[str] = []  # of the part that is being put together
    inside = False
    for piece in text.split(","):
        pieces.append(piece)
        opened, closed = piece.rfind(brackets[0]), piece.rfind(brackets[1])
        inside = opened > closed or (inside and closed < 0)
        if not inside:
            parts.append(",".join(pieces))
            pieces = []
    return parts + ([",".join(pieces)] if pieces else [])


def fold(names: Iterable[str]) -> list[str]:
    """Patterns that expand to exactly these names in this order; names with brackets or commas cannot be had."""
    patterns: list[str] = []
    run: list[tuple[str, str, str]] = []  # consecutive names that differ in their last number only
    for name in names:
        match = _NUMBERED.fullmatch(name)
        parts = (match.group(1), match.group(2), match.group(3)) if match else (name, "", "")
        if run and (not parts[1] or (parts[0], parts[2]) != (run[0][0], run[0][2])):
            patterns.append(_pattern(run))
            run = []
        run.append(parts)
        if not parts[1]:
            patterns.append(name)
            run = []
    return patterns + ([_pattern(run)] if run else [])


def _pattern(run: Sequence[tuple[str, str, str]]) -> str:
    """One pattern for names that share all but their number."""
    before, number, after = run[0]
    if len(run) == 1:
        return before + number + after
    ranges: list[list[str]] = []
    for _, number, _ in run:
        if ranges and str(int(ranges[-1][1]) + 1).zfill(len(ranges[-1][0])) == number:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    items = [first if first == last else f"{first}-{last}" for first, last in ranges]
    return f"{before}[{','.join(items)}]{after}"


def _numbers(ranges: str) -> list[str]:
    result: list[str] = []
    for item in ranges.split(","):
        match = _RANGE.fullmatch(item.strip())
        if match is None:
            raise ValueError(f"{item[:40]!r} is not a number or a range such as 0-3")
        first, last = match.group(1), match.group(2) or match.group(1)
        if int(last) < int(first) or int(last) - int(first) >= MOST_NAMES:
            raise ValueError(f"{item!r} is not a rising range of at most {MOST_NAMES} numbers")
        if len(result) + int(last) - int(first) >= MOST_NAMES:
            raise ValueError(f"stands for more than {MOST_NAMES} names")
        result += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return result
