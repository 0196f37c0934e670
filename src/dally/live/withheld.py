"""Free GPUs of machines that drain: they are not offered, or policies would choose them again and again in vain."""

from __future__ import annotations

from dally.engine.state import State
from dally.live.backends import base
from dally.live.roster import Roster
from dally.model import ADOPT, Event


class Withheld:
    """Taken out of the books for the policy's pass, and put back before the books are compared with the cluster."""

    def __init__(self, state: State, roster: Roster) -> None:
        self._state = state
        self._roster = roster
        self._gpus: dict[int, int] = {}  # by machine
        self._before: set[int] = set()  # machines of the latest pass

    def give_back(self) -> None:
        """As if nothing drained."""
        for machine, gpus in self._gpus.items():
            if not self._state.cluster.down[machine]:
                self._change(machine, gpus)
        self._before = set(self._gpus)
        self._gpus = {}

    def withhold(self, events: list[Event], now: float) -> None:
        """Of every machine that drains, but for those on which jobs turn out to run already."""
        cluster = self._state.cluster
        found = [event.allocation for event in events if event.kind == ADOPT and event.allocation is not None]
        taken = {machine for allocation in found for machine, _ in allocation.parts()}
        for told in self._roster.latest.machines:
            machine = self._roster.machines.get(told.name)
            if machine is None or told.state != base.DRAINING or machine in taken or cluster.down[machine]:
                continue
            gpus = int(cluster.free[0][machine])
            if gpus > 0:
                self._change(machine, -gpus)
                self._gpus[machine] = gpus
        if any(not cluster.down[machine] for machine in self._before - set(self._gpus)):
            self._state.policy.others_moved(now)  # there is more to be had

    def _change(self, machine: int, gpus: int) -> None:
        self._state.cluster.change(machine, gpus)
        self._state.policy.withheld(machine, -gpus)
