"""The wall clock as the engine sees it: seconds since an origin that never run backwards, faster if asked to."""

from __future__ import annotations

import time


class WallClock:
    """Seconds since `origin_s`, an instant in seconds since 1970, `speed` times as fast as they pass.

    Between two readings it goes by the machine's monotonic clock: setting the wall clock changes nothing.
    """

    def __init__(self, origin_s: float, speed: float = 1.0, at_least_s: float = 0.0) -> None:
        """`at_least_s`: where an earlier clock of the same origin stopped."""
        self.origin_s = origin_s
        self.speed = speed
        self._begun_s = max((time.time() - origin_s) * speed, at_least_s)
        self._from = time.monotonic()

    def now(self) -> float:
        """The present moment."""
        return self._begun_s + (time.monotonic() - self._from) * self.speed

    def wall_s(self, moment_s: float) -> float:
        """A moment of this clock in seconds since 1970."""
        return self.origin_s + moment_s / self.speed

    def moment_s(self, wall_s: float) -> float:
        """A time in seconds since 1970 on this clock; not after the present, whoever measured it."""
        return min(self.engine_s(wall_s), self.now())

    def engine_s(self, wall_s: float) -> float:
        """The same of a time that may lie ahead."""
        return (wall_s - self.origin_s) * self.speed

    def pause_s(self, until_s: float) -> float:
        """Seconds of the wall clock until a moment."""
        return max(0.0, (until_s - self.now()) / self.speed)
