"""Acme (Shanghai AI Lab, 2023): Helios' csv with `type` and `gpu_time`, without `vc`; dates carry their zone.

Source: InternLM/AcmeTrace on GitHub.
"""

from __future__ import annotations

from collections.abc import Sequence

from dally.traces import helios
from dally.traces.csv_trace import header_names

rows = helios.rows


def looks_like(lines: Sequence[str]) -> bool:
    """Whether the header has Acme's columns."""
    names = header_names(lines)
    return {*helios.NEEDED} <= names and "vc" not in names
