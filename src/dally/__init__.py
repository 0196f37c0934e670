"""Dally: a network-sensitive scheduler for GPU clusters, and the simulator that proves it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dally.api import compare, go_on, read_run, simulate, whatif
    from dally.cluster import Cluster
    from dally.errors import InputError
    from dally.model import Profile
    from dally.perf.ask import collective_time, iteration_times

__version__ = "0.1.0"
__all__ = [
    "Cluster", "InputError", "Profile", "__version__", "collective_time", "compare", "go_on", "is_compiled",
    "iteration_times", "read_run", "simulate", "whatif",
]  # fmt: skip

# Imported when first asked for: `dally --help` needs none of them.
_HOMES = {
    "Cluster": "dally.cluster",
    "InputError": "dally.errors",
    "Profile": "dally.model",
    "collective_time": "dally.perf.ask",
    "compare": "dally.api",
    "go_on": "dally.api",
    "iteration_times": "dally.perf.ask",
    "read_run": "dally.api",
    "simulate": "dally.api",
    "whatif": "dally.api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dally' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__  # what a notebook completes: the names above are not there before they are asked for


def is_compiled() -> bool:
    """Whether the hot files run as compiled extensions."""
    from dally.engine import simulate

    return not simulate.__file__.endswith(".py")
