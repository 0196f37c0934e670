"""Who looks at the jobs of a simulation from time to time, as an operator would, and acts on it."""

from __future__ import annotations

from mypy_extensions import mypyc_attr

from dally.engine.executor import Executor
from dally.engine.state import State
from dally.model import INFINITY


@mypyc_attr(allow_interpreted_subclasses=True)
class Watch(Executor):
    """Looks at nothing. Subclasses say when they next want to look."""

    def next_s(self) -> float:
        """When it next looks."""
        return INFINITY

    def look(self, state: State, now: float) -> None:
        """Take note of how jobs are doing, if it is time; what follows is done before the policy's pass."""

    def holds_back(self) -> bool:
        """Whether it keeps machines from jobs, which may come back."""
        return False

    def result(self) -> dict[str, float]:
        """What it came to, for the summary; empty: nothing."""
        return {}
