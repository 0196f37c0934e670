"""In a future: machines that drain keep the jobs they have and take no others, as on the cluster."""

from __future__ import annotations

from collections.abc import Iterable

from dally.engine.executor import Executor
from dally.engine.state import State
from dally.model import Action, Preempt
from dally.policies import events


class ClosedMachines(Executor):
    """What becomes free there is not offered; what a policy wants of them all the same fails, as in orders.py."""

    def __init__(self, state: State, machines: Iterable[int]) -> None:
        super().__init__()
        self._state = state
        self._machines = frozenset(machines)

    def before_pass(self, now: float) -> None:
        """Take out of the books what jobs have given back."""
        cluster = self._state.cluster
        for machine in sorted(self._machines):
            free = int(cluster.free[0][machine])
            if free > 0:
                cluster.change(machine, -free)
                self._state.notify(events.UNSCHEDULABLE, now, machine, free)

    def apply(self, action: Action, now: float) -> str:
        """No start there; whoever has no GPUs but those stays, see staying.py."""
        if isinstance(action, Preempt):
            return ""
        target = action.allocation  # type: ignore[attr-defined]
        closed = any(machine in self._machines for machine, _ in target.parts())
        return "the machine takes no new jobs" if closed else ""
