"""Names and comments of others on our terminal: as text, whatever they hold."""

from __future__ import annotations

import time


def plain(text: str) -> str:
    """The text with every character that terminals may obey, or that changes the direction, replaced by �."""
    return text if text.isprintable() else "".join(one if one.isprintable() else "�" for one in text)


def clock_time(seconds: float) -> str:
    """An instant in seconds since 1970 as this machine's clock shows it, with the date unless that is today."""
    then = time.localtime(seconds)
    today = time.strftime("%Y-%m-%d") == time.strftime("%Y-%m-%d", then)
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", then)
