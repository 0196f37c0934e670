"""Numbers that users write: quantities (`500m`, `1.5`, `16Gi`, `1e3`) and whole ones."""

from __future__ import annotations

import re
from typing import Final

_TEXT: Final = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)(|[numkKMGTPE]|[KMGTPE]i)")
_FACTORS: Final = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15,
    "E": 1e18,
    **{f"{letter}i": 1024.0**power for power, letter in enumerate("KMGTPE", start=1)},
}  # fmt: skip
MOST: Final = 2.0**63  # of a quantity, as the server has it


def quantity(value: object) -> float:
    """The number; 0 if it is none, as the server would not have taken it."""
    result = _TEXT.fullmatch(str(value).strip())
    try:
        return min(MOST, float(result.group(1)) * _FACTORS[result.group(2)]) if result else 0.0
    except ValueError:
        return 0.0


def whole_number(text: str) -> int | None:
    """The number; None if it is none, or has more than 18 digits. `isdigit` would take `²`."""
    return int(text) if re.fullmatch(r"-?[0-9]{1,18}", text) else None
