"""GPUs that the books have as free and that are not to be had: policies would choose them again and again in vain.

What is free of machines that drain, and what jobs hold that the books do not have there: gangs that lost another of
their machines and have not ended yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dally.engine.state import State
from dally.live.backends import base
from dally.live.backends.base import ClusterJob
from dally.live.roster import Roster
from dally.model import RUNNING
from dally.policies import events


class Withheld:
    """Taken out of the books for the policy's pass, and put back before the books are compared with the cluster."""

    def __init__(self, state: State, roster: Roster) -> None:
        self._state = state
        self._roster = roster
        self._gpus: dict[int, int] = {}  # by machine
        self._before: dict[int, int] = {}  # as of the latest pass
        self._now = 0.0  # when that was

    def draining(self) -> list[int]:
        """Machines that drain and are not empty yet."""
        found = [machine.name for machine in self._roster.latest.machines if machine.state == base.DRAINING]
        numbers = [self._roster.machines[name] for name in found if name in self._roster.machines]
        return [machine for machine in numbers if not self._state.cluster.down[machine]]

    def give_back(self) -> None:
        """As if everything were to be had."""
        for machine, gpus in self._gpus.items():
            if not self._state.cluster.down[machine]:
                self._change(machine, gpus)
        self._before, self._gpus = self._gpus, {}

    def withhold(self, now: float) -> None:
        """Once the books are right, before the policy is asked."""
        self._now = now
        cluster = self._state.cluster
        free = cluster.free[0]
        found = {machine: min(gpus, int(free[machine])) for machine, gpus in self._held().items()}
        found |= {machine: int(free[machine]) for machine in self.draining()}
        self._gpus = {machine: gpus for machine, gpus in found.items() if gpus > 0}
        for machine, gpus in self._gpus.items():
            self._change(machine, -gpus)
        less = (machine for machine, gpus in self._before.items() if gpus > self._gpus.get(machine, 0))
        if any(not cluster.down[machine] for machine in less):
            self._state.notify(events.CAPACITY_CHANGED, now)  # there is more to be had

    @contextmanager
    def as_if_stopped(self) -> Iterator[None]:
        """Meanwhile gangs that lost a machine have given the others back, as they will."""
        draining = self.draining()
        lent = {machine: gpus for machine, gpus in self._gpus.items() if machine not in draining}
        for machine, gpus in lent.items():
            self._change(machine, gpus)
        try:
            yield
        finally:
            for machine, gpus in lent.items():
                self._change(machine, -gpus)

    def _held(self) -> dict[int, int]:
        """GPUs by machine of jobs that have some on the cluster and none in the books."""
        found: dict[int, int] = {}
        for told in self._roster.latest.jobs:
            if told.placement and self._is_stray(told):
                for name, gpus in told.placement.items():
                    if name in self._roster.machines:
                        machine = self._roster.machines[name]
                        found[machine] = found.get(machine, 0) + gpus
        return found

    def _is_stray(self, told: ClusterJob) -> bool:
        """Not one that we have told to stop: what it leaves may be promised already."""
        job, wanted = self._roster.jobs.get(told.job_id), self._roster.wanted.get(told.job_id)
        to_stop = wanted is not None and wanted.placement is None
        return told.state not in base.ENDED and not to_stop and (job is None or job.status != RUNNING)

    def _change(self, machine: int, gpus: int) -> None:
        self._state.cluster.change(machine, gpus)
        self._state.notify(events.UNSCHEDULABLE, self._now, machine, -gpus)
