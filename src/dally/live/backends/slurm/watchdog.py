"""Whether the daemon is away for too long, asked now and then by a timer: its jobs must not wait for ever."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dally.live.backends.slurm.lease import HeldLease
from dally.whole_file import write_whole


@dataclass(frozen=True)
class Absence:
    """For how long no daemon has led, as far as known."""

    seconds: float
    term: int  # of the latest lease; 0: there is none
    renewed_s: float = 0.0  # of that lease

    def text(self) -> str:
        """For people."""
        if not self.term:
            return f"no daemon has a lease, for {self.seconds:.0f} s"
        return f"the daemon of term {self.term} has not renewed its lease for {self.seconds:.0f} s"


def absence(held: list[HeldLease], state: Path, set_up_s: float = 0.0, now_s: float | None = None) -> Absence:
    """By the lease's own date, or since `state` first saw the lease as it is, or none; kept up to date.

    `set_up_s`: when the plugin was set up. Before that no daemon was to lead.
    """
    now = time.time() if now_s is None else now_s
    latest = held[-1] if held else HeldLease(0, 0.0)
    seen = {"term": latest.term, "renewed_s": latest.renewed_s}
    before = _read(state)
    since_s = min(now, before["since_s"]) if before is not None and seen.items() <= before.items() else now
    write_whole(state, json.dumps(seen | {"since_s": since_s}).encode())
    if held:
        since_s = min(since_s, latest.renewed_s)
    return Absence(max(0.0, now - max(since_s, set_up_s)), latest.term, latest.renewed_s)


def _read(state: Path) -> dict[str, Any] | None:
    try:
        value: Any = json.loads(state.read_text(encoding="utf-8"))
        return {name: float(value[name]) for name in ("term", "renewed_s", "since_s")}
    except (OSError, ValueError, KeyError, TypeError):
        return None
