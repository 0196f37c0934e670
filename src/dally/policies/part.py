"""What policies and their parts have in common: they can be pickled, compiled or not."""

from __future__ import annotations

from typing import Any

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Part:
    """Base of policies, orders, placements and preemption rules."""

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
