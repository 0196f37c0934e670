"""Functions that tests hand to worker processes."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def double(number: int) -> int:
    return 2 * number


def slow_first(number: int) -> int:
    """The first item takes longest."""
    time.sleep(0.5 if number == 0 else 0.0)
    return number


def fussy(number: int) -> int:
    if number % 3 == 0:
        raise ValueError(f"{number} is a multiple of 3")
    return number


def deadly(number: int) -> int:
    """Kills its own process, as the kernel does when memory runs out."""
    if number == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def dies_once(path: str) -> str:
    """Kills its process the first time it gets this item."""
    if not Path(path).exists():
        Path(path).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return path


def quits(number: int) -> int:
    os._exit(7)


def niceness(number: int) -> int:
    return os.nice(0)


def process_id(_: int) -> int:
    """Of the worker."""
    return os.getpid()
