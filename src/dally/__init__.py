"""Dally: a network-sensitive scheduler for GPU clusters, and the simulator that proves it."""

from __future__ import annotations

__version__ = "0.1.0"


def is_compiled() -> bool:
    """Whether the hot files run as compiled extensions."""
    from dally.engine import simulate

    return not simulate.__file__.endswith(".py")
