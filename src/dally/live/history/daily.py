"""Once a day, beside a dry run: what Dally would have done, as a report of the day's jobs."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Final

import structlog

from dally.live.config import Config
from dally.live.cycle import CycleResult
from dally.live.wall_clock import WallClock

DAY_S: Final = 86400.0

log = structlog.get_logger("dally")


class DailyReport:
    """Watches cycles; after each day of the clock `dally shadow` writes about it in a process of its own."""

    def __init__(self, config: Config, clock: WallClock) -> None:
        self._config = config
        self._clock = clock
        self._next_s = (clock.now() // DAY_S + 1.0) * DAY_S
        self._writing: subprocess.Popen[bytes] | None = None

    def __call__(self, result: CycleResult, _cpu_s: float) -> None:
        """After each cycle."""
        if self._writing is not None and self._writing.poll() is not None:
            log.info("daily_report", code=self._writing.returncode)
            self._writing = None
        if result.now < self._next_s or self._writing is not None:
            return
        day = datetime.fromtimestamp(self._clock.wall_s(self._next_s - DAY_S)).date().isoformat()
        self._next_s += DAY_S
        out = self._config.folder / "shadow" / day
        self._writing = subprocess.Popen(command(self._config, out), stdout=subprocess.DEVNULL)


def command(config: Config, out: Path) -> list[str]:
    """The command that writes the report of the last day."""
    parts = ["shadow", "--store", config.store_address(), "--days", "1", "--out", str(out)]
    return [sys.executable, "-m", "dally", *parts]
