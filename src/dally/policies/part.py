"""What policies and their parts have in common: they can be pickled, compiled or not."""

from __future__ import annotations

from typing import Any

from mypy_extensions import mypyc_attr

from dally.model import Costs
from dally.perf.base import SpeedModel
from dally.policies.view import View


@mypyc_attr(allow_interpreted_subclasses=True)
class Part:
    """Base of policies, orders, placements and preemption rules."""

    # What it may ask. Until a run begins: a world where all places are equal and restarts cost the usual.
    view: View = View(SpeedModel(), Costs())

    def begin(self, view: View) -> None:
        """A run begins. Called once, before anything else."""
        self.view = view

    # The __getstate__ that mypyc provides sees compiled attributes only, and would lose those of a
    # subclass in plain Python.
    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(getattr(self, "__dict__", {}))
        for parent in type(self).__mro__:
            for name in parent.__dict__.get("__mypyc_attrs__", ()):
                if name != "__dict__" and hasattr(self, name):
                    state[name] = getattr(self, name)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
