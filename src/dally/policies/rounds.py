"""Rounds: moments every so many seconds, the same for all who ask."""

from __future__ import annotations


def next_round_s(now: float, every_s: float, first_s: float) -> float:
    """The first round after now. Rounds count from the first submission: a shifted trace has shifted rounds."""
    since_s = now - first_s
    found = first_s + (since_s // every_s + 1.0) * every_s
    while found <= now:  # the division may have been rounded
        found += every_s
    return found
