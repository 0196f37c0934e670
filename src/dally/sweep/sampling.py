"""Values of a random search: each depends on the seed, the parameter and the number of the sample alone."""

from __future__ import annotations

import math
import re
from hashlib import blake2b
from typing import Any, NamedTuple

from dally.errors import InputError

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?"
RANGE = re.compile(rf"({NUMBER}):({NUMBER})((?::(?:log|int))*)", re.IGNORECASE)


class Range(NamedTuple):
    """Numbers from low to high, both included, evenly or by their logarithm."""

    low: float
    high: float
    log: bool = False
    whole: bool = False

    def at(self, share: float) -> float | int:
        """The number below which that share of the range lies, to six digits."""
        low, high = (self.low, self.high + 1) if self.whole else (self.low, self.high)
        value = low * (high / low) ** share if self.log else low + (high - low) * share
        if self.whole:
            return min(math.floor(value), int(self.high))
        return float(f"{value:.6g}")


def read_range(name: str, text: str) -> Range | None:
    """The range that LOW:HIGH, LOW:HIGH:log or LOW:HIGH:int states; None if the text is no range."""
    found = RANGE.fullmatch(text.strip())
    if found is None:
        return None
    kinds = found[3].lower().split(":")
    stated = Range(float(found[1]), float(found[2]), "log" in kinds, "int" in kinds)
    if not math.isfinite(stated.high - stated.low):
        raise InputError(f"{name}: {text}: both ends of a range must be finite, and not that far apart")
    if stated.whole and max(-stated.low, stated.high) >= 2.0**63:
        raise InputError(f"{name}: {text}: whole numbers have at most 64 bits")
    if not stated.low < stated.high:
        raise InputError(f"{name}: {text}: the range must go up")
    if stated.log and (stated.low <= 0.0 or stated.high / stated.low == math.inf):
        raise InputError(f"{name}: {text}: a logarithmic range must begin above 0, by less than 300 digits")
    if stated.whole and (stated.low != int(stated.low) or stated.high != int(stated.high)):
        raise InputError(f"{name}: {text}: a range of whole numbers must begin and end with one")
    return stated


def draw(seed: int, name: str, sample: int, choice: Range | list[Any]) -> Any:
    """What sample number so-and-so takes for the parameter: more samples do not change those before."""
    digest = blake2b(f"{seed}/{name}/{sample}".encode(), digest_size=8).digest()
    share = int.from_bytes(digest) / 2.0**64
    if isinstance(choice, Range):
        return choice.at(share)
    return choice[int(share * len(choice))]
