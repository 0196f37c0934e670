"""Seconds per step, as a line of training prints them."""

from __future__ import annotations

import re
from typing import Final

from dally.progress.line_text import NUMBER, real

_UNITS: Final = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "msec": 1e-3, "milliseconds": 1e-3}
_UNIT: Final = r"(?:us|µs|milliseconds|msec|ms|seconds|secs|sec|s)"
_SCALED: Final = rf"{NUMBER}[kK]?"
_KEYS: Final = (
    r"elapsed[ _]time[ _]per[ _](?:iteration|step)|time per (?:iteration|step|batch)|iteration[ _-]time|"
    r"iter[ _-]time|"
    r"time[/_](?:iter|step|batch)|(?:train[_ ])?step[ _-](?:time|timing)(?:_s)?|(?:avg_)?batch[ _-](?:time|cost)|"
    r"timing_s/step|per[-_ ]step[-_ ]time(?:_s)?|interval_runtime|sec(?:onds)?_per_(?:step|iter)|"
    r"s_per_(?:step|iter)|time_this_iter_s|iteration_timing|time_per_(?:step|iter|iteration)|batch \(t\)|"
    r"time \(data\)|bch|btime|step_avg|"
    r"batch(?=[ :=]+\d+\.\d+ ?m?s\b)|iter(?=: *\d+\.\d+ +data:)|seconds|dt"
)
# By name, with the unit before or after the number; ms where the name says so.
_NAMED: Final = re.compile(
    rf"(?<![\w/])(?:train/)?(?:{_KEYS})['\"]?(?:\s*\((?P<before>{_UNIT})\)|\s+in\s+(?P<within>{_UNIT})|_(?P<behind>ms))?"
    rf"\s*[:=]?\s*['\"]?(?P<value>{_SCALED})(?![\d:])\s*(?P<after>{_UNIT}\b)?",
    re.IGNORECASE,
)
# As Python prints a timedelta.
_CLOCK: Final = re.compile(
    r"\btime[ _]per[ _](?:step|iter(?:ation)?)\s*[:=]\s*(\d+):(\d\d):(\d\d(?:\.\d+)?)", re.IGNORECASE
)
_WHOLE: Final = re.compile(rf"\btrain_time=(?P<value>{NUMBER})")  # of ESPnet, beside its parts
# Of Hugging Face's and PaddleNLP's trainers, beside the time that all steps of the interval took.
_INTERVAL_RATE: Final = re.compile(rf"\binterval_steps_per_second: (?P<value>{NUMBER})")
_PLAIN: Final = re.compile(
    rf"(?<![\w/-])(?<!total )(?<!data )(?<!forward )(?<!backward )(?<!elapsed )(?<!wall )(?<!eval )(?<!cost )"
    rf"(?<!load )(?<!remaining )(?<!training )(?<!epoch )(?<!val )(?<!running )time['\"]?(?:\s*[:=]\s*|\s+)['\"]?"
    rf"(?P<value>{NUMBER})(?![\d:])\s*(?P<after>{_UNIT}\b)?(?!\s*(?:m|min|h|hours?|d)\b)",
    re.IGNORECASE,
)
_STEPS: Final = r"(?:it|iter|iters|iteration|iterations|step|steps|batch|batches|ba|updates)"
_S_PER: Final = re.compile(rf"(?P<value>{NUMBER})\s*(?P<after>{_UNIT})/{_STEPS}\b")
_S_PER_NAMED: Final = re.compile(
    rf"(?<!\w)(?P<after>ms|s|secs?|seconds)/{_STEPS}['\"]?\s*[:=]\s*(?P<value>{NUMBER})", re.IGNORECASE
)
_PER_S: Final = re.compile(rf"(?P<value>{NUMBER})\s*{_STEPS}/s(?:ec|econd)?\b", re.IGNORECASE)
_RATE: Final = re.compile(
    rf"(?<!\w)(?:{_STEPS}/s(?:ec|econd)?|(?:interval_|train_)?steps_per_sec(?:ond)?|ups|batches_per_sec)['\"]?"
    rf"\s*[:=]?\s*['\"]?(?P<value>{NUMBER})",
    re.IGNORECASE,
)
_BATCH_MS: Final = re.compile(rf"\bms/(?:batch|step|iter)\s*[:=]?\s*(?P<value>{NUMBER})")
_COLUMN_MS: Final = re.compile(rf"(?:\||\(took|,)\s*(?P<value>{NUMBER}) ?(?P<after>ms)\s*(?:\||\)|,|$)")
_TOKEN_RATE: Final = re.compile(rf"\bwps=(?P<wps>{NUMBER}), wpb=(?P<wpb>{NUMBER})")


def seconds_per_step(text: str) -> float | None:
    """Seconds per step that the line states by name, as a rate, or as words per second and per batch."""
    match = _WHOLE.search(text)
    if match is not None:
        return in_seconds(match["value"], None)
    match = _INTERVAL_RATE.search(text)
    if match is not None:
        return inverse(real(match["value"]))
    match = _CLOCK.search(text)
    if match is not None:
        return (int(match[1]) * 3600.0 + int(match[2]) * 60.0 + float(match[3])) or None
    match = _NAMED.search(text)
    if match is not None:
        unit = match["before"] or match["within"] or match["behind"] or match["after"]
        return in_seconds(match["value"], unit)
    for pattern in (_S_PER, _S_PER_NAMED, _COLUMN_MS):
        match = pattern.search(text)
        if match is not None:
            return in_seconds(match["value"], match["after"])
    for pattern in (_RATE, _PER_S):
        match = pattern.search(text)
        if match is not None:
            return inverse(real(match["value"]))
    match = _BATCH_MS.search(text)
    if match is not None:
        return in_seconds(match["value"], "ms")
    match = _TOKEN_RATE.search(text)
    if match is not None:
        rate = inverse(real(match["wps"]))
        return None if rate is None else rate * (real(match["wpb"]) or 0.0)
    match = _PLAIN.search(text)
    return None if match is None else in_seconds(match["value"], match["after"])


def in_seconds(number: str, unit: str | None) -> float | None:
    """The time in seconds; one of 0 says nothing."""
    value = real(number)
    return value * _UNITS.get((unit or "s").lower(), 1.0) if value else None


def inverse(rate: float | None) -> float | None:
    """Seconds per step of steps per second."""
    return 1.0 / rate if rate else None
