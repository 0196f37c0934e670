"""Settings of a policy: text as `--set` gives it, made into the values that its parameters take."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from dally.errors import InputError
from dally.parsed_text import ACCEPTED, is_on
from dally.policies.base import Param

MOST = 2**31 - 1  # of whole numbers: compiled code counts in 32 bits here and there
Settings = Mapping[str, Any]


def settings_for(policy: str, params: tuple[Param, ...], texts: Mapping[str, str]) -> dict[str, Any]:
    """Every parameter's value: as given, checked and converted, else its default."""
    values: dict[str, Any] = {param.name: param.default for param in params}
    known = {param.name: param for param in params}
    for key, text in texts.items():
        if key not in known:
            near = get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known) or 'none'}"
            raise InputError(f"--set {key}={text}: policy {policy!r} has no parameter {key!r}; {hint}")
        values[key] = _convert(known[key], text)
    return values


def _convert(param: Param, text: str) -> float | int | str | bool:
    kind = type(param.default)
    try:
        if kind is bool:
            return is_on(text)
        value = kind(text)
    except ValueError:
        names = {bool: ACCEPTED, int: "a whole number", float: "a number"}
        raise InputError(f"--set {param.name}={text}: must be {names[kind]}") from None
    if isinstance(value, (int, float)) and not value >= param.least:  # also refuses NaN
        raise InputError(f"--set {param.name}={text}: must be at least {param.least:g}")
    if isinstance(value, int) and value > MOST:
        raise InputError(f"--set {param.name}={text}: must be at most {MOST}")
    return value


def numbers(name: str, text: str, meaning: str) -> list[float]:
    """Numbers separated by commas, none negative."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(value >= 0.0 for value in values):
        raise InputError(f"--set {name}={text}: must be {meaning}")
    return values
