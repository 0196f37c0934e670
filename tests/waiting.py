"""Waiting for what another process or thread brings about."""

from __future__ import annotations

import time
from collections.abc import Callable

LOOK_EVERY_S = 0.02


def wait_for(is_so: Callable[[], bool], within_s: float = 20.0) -> None:
    """Return once it is so; fails if that takes longer."""
    end_s = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < end_s, f"not so within {within_s:g} s"
        time.sleep(LOOK_EVERY_S)
