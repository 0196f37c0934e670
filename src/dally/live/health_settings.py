"""What dally.toml says of slow machines: whether they are drained, how many at most, and how they are probed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final, NamedTuple

from dally.errors import InputError, unknown

KEYS: Final = ("act", "most_out", "every_s", "probe", "probe_timeout_s", "again_s")


class HealthSettings(NamedTuple):
    """The table `health` of dally.toml."""

    act: bool = False
    most_out: float = 0.05  # share of the machines that is ever drained for this
    every_s: float = 60.0  # between two looks, of the engine's clock
    probe: tuple[str, ...] = ()  # a command; DALLY_MACHINE names the machine, and 0 means that it is sound
    probe_timeout_s: float = 600.0
    again_s: float = 1800.0  # between a probe that failed and the next


def read_settings(table: Mapping[str, str]) -> HealthSettings:
    """The table as it is meant; InputError with the key for what cannot be."""
    values: dict[str, float] = {}
    for key, text in table.items():
        if key not in KEYS:
            raise InputError(f"health: {unknown('key', key, KEYS)}")
        if key in ("act", "probe"):
            continue
        try:
            values[key] = float(text)
        except ValueError:
            values[key] = -1.0
        most = 1.0 if key == "most_out" else 1e9
        if not 0.0 < values[key] <= most:
            raise InputError(f"health: {key}: {text!r}: must be a number above 0 and at most {most:g}")
    act = table.get("act", "off")
    if act not in ("on", "off"):
        raise InputError(f"health: act: {act!r}: must be on or off")
    return HealthSettings(act=act == "on", probe=tuple(shlex.split(table.get("probe", ""))), **values)
