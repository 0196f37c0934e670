"""Dally: a network-sensitive scheduler for GPU clusters, and the simulator that proves it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dally.api import compare, go_on, read_run, simulate, whatif
    from dally.cluster import Cluster
    from dally.errors import InputError
    from dally.model import Action, Allocation, Job, Migrate, Preempt, Profile, Resize, Start, make_allocation
    from dally.perf.queries import collective_time, iteration_times
    from dally.policies import events
    from dally.policies.base import Param, Policy
    from dally.policies.composed import ComposedPolicy
    from dally.policies.events import PolicyEvent
    from dally.policies.ordering.base import Order
    from dally.policies.ordering.simple import SubmitOrder
    from dally.policies.placement.base import Placement
    from dally.policies.placement.best_fit import BestFit, best_fit
    from dally.policies.preemption.base import NoPreemption, Preemption
    from dally.policies.queue import Queue
    from dally.policies.reasons import Reason
    from dally.policies.view import View
    from dally.progress.training import report

__version__ = "0.1.0"
__all__ = [
    "Action", "Allocation", "BestFit", "Cluster", "ComposedPolicy", "InputError", "Job", "Migrate", "NoPreemption",
    "Order", "Param", "Placement", "Policy", "PolicyEvent", "Preempt", "Preemption", "Profile", "Queue", "Reason",
    "Resize", "Start", "SubmitOrder", "View", "__version__", "best_fit", "collective_time", "compare", "events",
    "go_on", "is_compiled", "iteration_times", "make_allocation", "read_run", "report", "simulate", "whatif",
]  # fmt: skip

# Imported when first asked for: `dally --help` needs none of them.
_HOMES = {
    "dally.api": ("compare", "go_on", "read_run", "simulate", "whatif"),
    "dally.cluster": ("Cluster",),
    "dally.errors": ("InputError",),
    "dally.model": (
        "Action", "Allocation", "Job", "Migrate", "Preempt", "Profile", "Resize", "Start", "make_allocation",
    ),
    "dally.perf.queries": ("collective_time", "iteration_times"),
    "dally.policies.base": ("Param", "Policy"),
    "dally.policies.composed": ("ComposedPolicy",),
    "dally.policies.events": ("PolicyEvent", "events"),
    "dally.policies.ordering.base": ("Order",),
    "dally.policies.ordering.simple": ("SubmitOrder",),
    "dally.policies.placement.base": ("Placement",),
    "dally.policies.placement.best_fit": ("BestFit", "best_fit"),
    "dally.policies.preemption.base": ("NoPreemption", "Preemption"),
    "dally.policies.queue": ("Queue",),
    "dally.policies.reasons": ("Reason",),
    "dally.policies.view": ("View",),
    "dally.report": ("report",),  # the package, which can be called
}  # fmt: skip


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            module = import_module(home)
            return module if name in ("events", "report") else getattr(module, name)
    raise AttributeError(f"module 'dally' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__  # what a notebook completes: the names above are not there before they are asked for


def is_compiled() -> bool:
    """Whether the hot files run as compiled extensions."""
    from dally.engine import simulate

    return not simulate.__file__.endswith(".py")
