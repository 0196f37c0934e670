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

    def text(self) -> str:
        """For people."""
        if not self.term:
            return f"no daemon has a lease; so it was {self.seconds:.0f} s ago"
        return f"the daemon of term {self.term} renewed its lease {self.seconds:.0f} s ago"


def absence(held: list[HeldLease], state: Path, now_s: float | None = None) -> Absence:
    """By the lease's own date; where there is none, since `state` first said so, which is kept up to date."""
    now = time.time() if now_s is None else now_s
    if held:
        state.unlink(missing_ok=True)
        return Absence(max(0.0, now - held[-1].renewed_s), held[-1].term)
    since_s = min(now, _since_s(state) or now)
    write_whole(state, json.dumps({"no_lease_since_s": since_s}).encode())
    return Absence(now - since_s, 0)


def _since_s(state: Path) -> float | None:
    try:
        value: Any = json.loads(state.read_text(encoding="utf-8"))
        return float(value["no_lease_since_s"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
