"""A line of a log, whatever printed it, as progress of training."""

from __future__ import annotations

from typing import Final

from dally.progress.bars import bar
from dally.progress.frameworks import by_framework
from dally.progress.line_progress import LineProgress
from dally.progress.line_text import overwritten, without_prefix
from dally.progress.named_values import named_values
from dally.progress.objects import dictionary

_FAMILIES: Final = (bar, dictionary, by_framework, named_values)


def parse_line(raw: str) -> LineProgress | None:
    """What the line says of the progress of training; None: nothing, as of most lines and of all other programs."""
    for part in overwritten(raw):
        progress = _parse(without_prefix(part))
        if progress is not None and progress.says_something():
            return progress
    return None


def _parse(text: str) -> LineProgress | None:
    for family in _FAMILIES:
        progress = family(text)
        if progress is not None:
            return progress
    return None
