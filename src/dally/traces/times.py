"""Dates in traces, as seconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from dally.errors import InputError

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
UNKNOWN: Final = frozenset({"", "unknown", "none", "null", "n/a", "nan", "nat"})
OTHER_LAYOUTS: Final = ("%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M")


class Clock:
    """Reads dates; those without a zone are local times of `zone`."""

    def __init__(self, zone: str = "UTC") -> None:
        self.zone: tzinfo = find_zone(zone)

    def seconds(self, text: str, fold: int = 0) -> float | None:
        """Seconds since 1970 in UTC; None where the text says that the time is not known.

        `fold` 1 takes the later of two when the clocks were set back. ValueError if it is no date.
        """
        text = text.strip()
        if text.lower() in UNKNOWN:
            return None
        if text.isascii() and text.isdigit():
            return float(text)  # as of SLURM_TIME_FORMAT=%s
        date = _date(text)
        if date.tzinfo is None:
            date = date.replace(tzinfo=self.zone, fold=fold)
        try:
            return (date - EPOCH).total_seconds()
        except OverflowError:
            raise ValueError(text) from None

    def hour(self, seconds: float) -> int:
        """The local hour of the day, 0 to 23."""
        return datetime.fromtimestamp(seconds, self.zone).hour


def find_zone(name: str) -> tzinfo:
    """The time zone of that IANA name, or an InputError."""
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InputError(
            f"--zone {name!r}: no such time zone; expected an IANA name such as UTC or Asia/Shanghai"
        ) from None


def written(seconds: float, separator: str = " ") -> str:
    """The date in UTC, to the second: 2020-01-31 23:59:59."""
    return datetime.fromtimestamp(round(seconds), UTC).replace(tzinfo=None).isoformat(separator)


def _date(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        for layout in OTHER_LAYOUTS:
            try:
                return datetime.strptime(text, layout)
            except ValueError:
                continue
        raise
