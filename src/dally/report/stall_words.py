"""What a queue has to do with it that its jobs wait."""

from __future__ import annotations

from typing import Any


def stall_words(stall: dict[str, Any]) -> str:
    """What keeps the first job of a queue waiting, from a row of stalls.parquet; empty: nothing of the queue."""
    words = {
        "hold": "queue {of} is on hold",
        "budget": "the budget of queue {of} is used up: {most:,.0f} GPU-hours",
        "limit": "queue {of} is at its limit: it held {held} of {most:,.0f} GPUs",
        "share": "queue {of} has its share: it held {held} GPUs and was due {most:.1f}",
    }
    return words[stall["cause"]].format(**stall) if stall["cause"] else ""
