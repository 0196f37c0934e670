"""What a sweep varies: a scenario's fields, `set.KEY` of its policy, `network.KEY` of a network; random values."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from hashlib import blake2b
from typing import Any, NamedTuple

from dally.cluster.links import Links
from dally.errors import InputError, unknown
from dally.input_file import shown
from dally.parsed_text import ACCEPTED, is_on
from dally.policies.registry import POLICIES
from dally.runs.scenario import Scenario
from dally.runs.world import TABLES
from dally.toml import setting_text

FIELDS = {item.name: str(item.type) for item in fields(Scenario) if item.name not in (*TABLES.values(), "digests")}


def full_name(name: str) -> str:
    """The name with its table; a parameter of a policy may go without `set.`. InputError if nothing has it."""
    table, dot, rest = name.partition(".")
    if dot and table in TABLES:
        if table == "network" and rest not in Links._fields:
            raise unknown("parameter of networks", rest, Links._fields)
        return name  # what `set` may hold is for the policy to say, which may be a user's own
    if name in FIELDS:
        return name
    if name in _set_names():
        return f"set.{name}"
    raise unknown("parameter", name, [*FIELDS, *_set_names(), *(f"network.{item}" for item in Links._fields)])


def _set_names() -> list[str]:
    return list(dict.fromkeys(param.name for policy in POLICIES.values() for param in policy.params))


def convert(name: str, value: Any) -> Any:
    """The value as the parameter takes it; settings are text, as `--set` takes them."""
    desired = FIELDS.get(name, "str")
    try:
        if not isinstance(value, (str, int, float)) or (isinstance(value, bool) and desired not in ("bool", "str")):
            raise ValueError
        if desired == "bool":
            return is_on(value)
        if desired == "int":
            return int(str(value))
        if desired == "float":
            return float(value)
    except ValueError:
        kind = ACCEPTED if desired == "bool" else f"of type {desired}"
        raise InputError(f"{name}: {shown(value)}: must be {kind}") from None
    return setting_text(value)


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
    result = RANGE.fullmatch(text.strip())
    if result is None:
        return None
    kinds = result[3].lower().split(":")
    stated = Range(float(result[1]), float(result[2]), "log" in kinds, "int" in kinds)
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
