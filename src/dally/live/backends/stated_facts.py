"""What users say of their jobs, whatever they say it with: the facts that are well stated, and what is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dally.errors import InputError
from dally.job_spec import PREEMPT_CHOICES, JobSpec
from dally.progress.own_pattern import OwnPattern
from dally.sizes import read_sizes
from dally.traces.times import span_s

FACT_NAMES = ("model", "expected", "checkpoint", "group", "shape", "preempt", "gpus")
LONGEST_COMMAND = 500
_NAMED = r"(?i)(\S*(?:token|key|secret|passw|auth|credential)[\w-]*)[= :]+"
_SECRET = re.compile(_NAMED + r"(?:(?:bearer|basic)[ :]+)?\S+")
_IN_ADDRESS = re.compile(r"://[^/\s@]+@")  # a user's name and password
LONGEST_S = 10.0 * 365.0 * 86400.0
NOTHING_STATED = JobSpec(0)


def read_facts(result: Mapping[str, Any], problems: list[str]) -> JobSpec:
    """The facts that are well stated, of no GPUs yet; what is wrong with the others goes to `problems`."""
    model = result.get("model", "")
    if not isinstance(model, str) or len(model) > 100 or not model.isprintable():
        problems.append("model: must be a name")
        model = ""
    group = result.get("group", 1)
    if not re.fullmatch(r"[0-9]{1,4}", str(group)) or int(group) < 1:
        problems.append("group: must be a number of GPUs")
        group = 1
    shape = result.get("shape", "")
    if shape not in ("", "any"):
        problems.append(f"shape: {str(shape)[:40]!r}: must be any")
    preempt = str(result.get("preempt", "")).lower()
    if preempt not in ("", *PREEMPT_CHOICES):
        problems.append(f"preempt: {preempt[:40]!r}: must be one of {', '.join(PREEMPT_CHOICES)}")
        preempt = ""
    return JobSpec(
        0,
        pattern=_pattern(result.get("pattern", ""), problems),
        preempt=preempt,
        any_shape=shape == "any",
        sizes=_sizes(result.get("gpus", ""), problems),
        model=model,
        group=int(group),
        duration_s=_duration_s("expected", result.get("expected"), problems),
        checkpoint_every_s=_duration_s("checkpoint", result.get("checkpoint"), problems),
    )


def command_line_of(text: str) -> str:
    """What is kept of a command line: nothing after an option named like a secret, and of a long one its begin.

    It is cut first: any user may write a megabyte, and the pattern's time grows with the square of the length.
    Without NULs, which a pod may have: PostgreSQL reads no field of a record that has one.
    """
    return _SECRET.sub(r"\1", _IN_ADDRESS.sub("://", text[:LONGEST_COMMAND].replace("\0", "")))


def _sizes(value: object, problems: list[str]) -> str:
    """`8:32:8` or `8,16,32`, if these are sizes; whether they go with the job is for its backend to say."""
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value).replace(" ", "")
    least = re.match(r"[0-9]{1,7}", text)
    try:
        return text if read_sizes(text, int(least.group()) if least else 1) else ""
    except InputError as error:
        problems.append(str(error)[:100].replace("sizes: ", "gpus=", 1))
        return ""


def _pattern(text: object, problems: list[str]) -> str:
    """How its lines say how far it is, if that is a pattern."""
    if text:
        try:
            OwnPattern(str(text), "pattern")
        except InputError as error:
            problems.append(str(error))
            return ""
    return str(text)


def _duration_s(name: str, value: object, problems: list[str]) -> float | None:
    """Seconds of 90, "90", "1.5h"."""
    if value is None:
        return None
    try:
        seconds = span_s(name, str(value))
    except InputError:
        seconds = 0.0
    if not 0.0 < seconds <= LONGEST_S:
        problems.append(f"{name}: {str(value)[:40]!r} is no length of time such as 90, 45m or 1.5h")
        return None
    return seconds
