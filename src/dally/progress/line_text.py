"""A line of a log as people would see it: without colours, what was overwritten, and prefixes of launchers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

MOST_CHARACTERS: Final = 4000  # of a line; what comes after is not looked at
NUMBER: Final = r"(?:\d{1,3}(?:,\d{3})+(?![\d.])|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"  # also with thousands separators
_CONTROL: Final = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-_]|[\x00-\x07\x0e-\x1f]"
)
_ENDLESS: Final = re.compile(r"\d{50,}|\s{200,}")  # no number of anything, and slow to look through
# By srun, torchrun, mpirun, Ray, kubectl and docker, in front of what the program printed.
_PREFIX: Final = re.compile(
    r"\s*(?:\(\w[\w.:]*(?: \w+)? ?(?:pid|ip)=[^)]*\)|\[(?:default|rank|Rank |gpu)?\d+\]:|"
    r"\[\d+,\d+\]<std(?:out|err)>:|"
    r"\d{1,5}: (?=\s*\S)(?![\d.]+, [\d.]+ avg\b)|"
    r"\d{4}-\d\d-\d\dT[\d:.]+Z (?:std(?:out|err) [FP] )?|[\w.-]+-\d+ +\| )"
)


def overwritten(raw: str) -> Iterator[str]:
    """The parts of a line that a terminal would show one after the other, the last first."""
    text = _CONTROL.sub("", raw[-MOST_CHARACTERS:] if "\r" in raw else raw[:MOST_CHARACTERS])
    for part in reversed(re.split(r"[\r\x08]+", text)):
        if part.strip():
            yield _ENDLESS.sub(" ", part)


def without_prefix(text: str) -> str:
    """The line without what launchers put in front of it."""
    for _ in range(3):
        match = _PREFIX.match(text)
        if match is None:
            break
        text = text[match.end() :]
    return text


def whole(text: str | None) -> int | None:
    """The whole number that the text is: with separators, or k, M, G for thousands and more."""
    value = real(text)
    return None if value is None else int(value)


def real(text: str | None) -> float | None:
    """The number that the text is; None where it is none."""
    if not text:
        return None
    times = {"k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}.get(text[-1].lower())
    try:
        value = float(text.replace(",", "").rstrip("kKmMgGbBtT")) * (times or 1.0)
    except ValueError:
        return None
    return value if 0.0 <= value < 1e15 else None


def clock_s(text: str) -> float | None:
    """Seconds of a time as 1:02:03 or 02:03."""
    seconds = 0.0
    for part in text.strip().split(":"):
        if not part.isdigit():
            return None
        seconds = seconds * 60.0 + int(part)
    return seconds
