"""A line of a log, whatever printed it, as progress of training."""

from __future__ import annotations

import re
from typing import Final

from dally.progress.bars import bar
from dally.progress.frameworks import by_framework
from dally.progress.line_progress import LineProgress
from dally.progress.line_text import overwritten, without_prefix
from dally.progress.named_values import named_values
from dally.progress.objects import dictionary

# Without one of these no line says anything: most lines are done with in a few microseconds.
_HINT: Final = re.compile(
    r"step|iter|epoch|batch|train|loss|update|learn|avg|rate|cost|throughput|ep\b|\d/ *[\dUN]|it/s|s/it|\d+it |"
    r"sec|%\)|round|episode|generation|cycle|rollout|tick|\bit\b|\bitr|^\s*\[\d+\]\s",
    re.IGNORECASE,
)
_FAMILIES: Final = (bar, dictionary, by_framework, named_values)


def parse_line(raw: str) -> LineProgress | None:
    """What the line says of the progress of training; None: nothing, as of most lines and of all other programs."""
    for part in overwritten(raw):
        progress = _parse(without_prefix(part))
        if progress is not None and progress.is_known():
            return progress
    return None


def _parse(text: str) -> LineProgress | None:
    if _HINT.search(text) is None:
        return None
    for family in _FAMILIES:
        progress = family(text)
        if progress is not None:
            return progress
    return None
