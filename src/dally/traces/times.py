"""Dates in traces, as seconds since 1970."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from dally.errors import InputError

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
UNKNOWN: Final = frozenset({"", "unknown", "none", "null", "n/a", "nan", "nat"})
UNITS_S: Final = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
MOST_SPAN_S: Final = 1e12
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
        if text.isascii() and text.isdigit():  # as of SLURM_TIME_FORMAT=%s
            seconds = float(text)
            if seconds > MOST_SPAN_S:
                raise ValueError(text)
            return seconds
        date = _date(text)
        if date.tzinfo is None:
            date = date.replace(tzinfo=self.zone, fold=fold)
        try:
            return (date - EPOCH).total_seconds()
        except OverflowError:
            raise ValueError(text) from None

    def hour(self, seconds: float) -> int:
        """The local hour of the day, 0 to 23."""
        try:
            return (EPOCH + timedelta(seconds=seconds)).astimezone(self.zone).hour
        except OverflowError:
            return int(seconds // 3600.0) % 24  # beyond the year 9999


def find_zone(name: str) -> tzinfo:
    """The time zone of that IANA name, or an InputError."""
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise InputError(
            f"--zone {name!r}: no such time zone; expected an IANA name such as UTC or Asia/Shanghai"
        ) from None


def written(seconds: float, separator: str = " ") -> str:
    """The date in UTC, to the second: 2020-01-31 23:59:59."""
    try:
        date = EPOCH + timedelta(seconds=round(seconds))
    except OverflowError:
        raise InputError(f"{seconds:g} s after 1970 is no date: beyond the year 9999") from None
    return date.replace(tzinfo=None).isoformat(separator)


def span_s(option: str, text: str) -> float:
    """Seconds of a length of time: 90, 90s, 15m, 12h, 3d or 2w."""
    result = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", text.strip(), re.ASCII)
    if result is None or float(result[1]) > MOST_SPAN_S:
        raise InputError(f"{option} {text!r}: expected seconds, or a number with s, m, h, d or w such as 12h")
    return float(result[1]) * UNITS_S[result[2]]


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
