"""An estimate of the API in words."""

from __future__ import annotations

from typing import Any

from dally.cli.plain_text import clock_time, plain


def start_words(eta: dict[str, Any]) -> str:
    """When it starts: now, between two times, or after one."""
    if eta["starts_now"]:
        return "now"
    if eta["high_s"] is None:
        return f"after {clock_time(eta['low_s'])}"
    return f"{clock_time(eta['low_s'])} to {clock_time(eta['high_s'])}"


def eta_lines(eta: dict[str, Any]) -> list[str]:
    """The estimate in a few lines."""
    middle = f", about {clock_time(eta['middle_s'])}" if eta["middle_s"] is not None else ""
    if eta["starts_now"]:
        lines = ["Starts now."]
    else:
        lines = [f"Starts {start_words(eta)} ({eta['confidence']:.0%}){middle}; from {eta['futures']} futures."]
    there = [one for one in eta["tiers"] if one["chance"] > 0.0]
    if there:
        lines.append(f"Where: {', '.join(_chance(one) for one in there)}.")
    free = [one for one in eta["tiers"] if one["now"] is not None]
    if free and not eta["starts_now"]:
        best = min(free, key=lambda one: float(one["now"]))
        worth = _worth(eta["pays_from_s"])
        lines.append(f"Free now: one {plain(best['tier'])}, slowdown {best['now']:.2f}; {worth}.")
    if eta["gpus_now"]:
        lines.append(f"With {eta['gpus_now']} GPUs it would start now.")
    return lines


def _chance(one: dict[str, Any]) -> str:
    slow = "" if one["slowdown"] is None else f" (slowdown {one['slowdown']:.2f})"
    return f"one {plain(one['tier'])} {one['chance']:.0%}{slow}"


def _worth(pays_from_s: float | None) -> str:
    if pays_from_s is None:
        return "waiting brings nothing closer"
    return f"waiting is sooner done from {pays_from_s / 60.0:.0f} min of work on"
