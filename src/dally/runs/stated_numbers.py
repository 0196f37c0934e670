"""Options that state several numbers by name, as `--elastic share=0.5,min=0.25`."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite

from dally.errors import InputError, unknown


def read_numbers(option: str, text: str, bounds: Mapping[str, tuple[float, float]]) -> dict[str, float]:
    """The numbers by name, none twice; `bounds`: the least and the largest of each. An empty text states none."""
    values: dict[str, float] = {}
    for part in text.split(",") if text else []:
        name, equals, number = (piece.strip() for piece in part.partition("="))
        if name not in bounds:
            raise InputError(f"{option} {text}: {unknown('value', name, bounds)}")
        least, most = bounds[name]
        try:
            value = float(number)
        except ValueError:
            value = float("nan")
        if not equals or not isfinite(value) or not least <= value <= most:
            most_text = "" if most == inf else f" to {most:g}"
            raise InputError(f"{option} {part.strip()}: must be a number from {least:g}{most_text}")
        if name in values:
            raise InputError(f"{option} {text}: {name}: given twice")
        values[name] = value
    return values
