"""What cannot be had: GPUs that exist and are not free, jobs that cannot be stopped, jobs that fit nowhere.

Policies would choose them again and again in vain. GPUs are unschedulable if their machine drains, if they failed,
or if jobs hold them that the books do not have there: gangs that lost another of their machines and have not ended.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dally.engine.state import State
from dally.live.backends import base
from dally.live.backends.base import ObservedJob
from dally.live.reconcile.pending import KEEP, STOP
from dally.live.reconcile.roster import Roster
from dally.model import RUNNING, Allocation
from dally.policies import events

NOT_OURS: Final = "others look after it, or it could not be started again"
REFUSED_STOP: Final = "the backend would not stop it"
NO_GAIN: Final = "its machines take no new jobs, so no job would gain by it"


def why_unschedulable(roster: Roster, observed: ObservedJob) -> str:
    """Why no machine could ever take the job; empty: some could."""
    if observed.spec.gpus > roster.topology.total_gpus():
        return "asks for more GPUs than there are"
    if not observed.placement and observed.spec.group > roster.topology.largest[0]:
        return f"asks for {observed.spec.group} GPUs in one machine, and none has as many"
    return roster.fits_nowhere(observed)


def note_non_preemptible(state: State, roster: Roster, now: float) -> None:
    """Find out which jobs cannot be stopped as things are, and have the policy know."""
    closed, before = roster.closed(), roster.non_preemptible
    reasons: dict[str, str] = {}
    for job_id, job in roster.jobs.items():
        observed, order = roster.observed[job_id], roster.orders.get(job_id)
        why = ""
        if not (observed.managed and observed.preemptible):
            why = NOT_OURS
        elif order is not None and order.desired in (KEEP, STOP) and now < order.retry_s:
            why = REFUSED_STOP
        elif closed and observed.placement and closed.issuperset(observed.placement):
            why = NO_GAIN
        if why:
            reasons[job_id] = why
        elif job.allocation is None and not job.non_preemptible and job_id not in before:
            continue  # it waits, as most do, and nothing was ever noted of it
        state.set_non_preemptible(job, bool(why), now)
    roster.non_preemptible = reasons


class UnschedulableGpus:
    """Taken out of the books for the policy's pass, and put back before the books are compared with the cluster."""

    def __init__(self, state: State, roster: Roster) -> None:
        self._state = state
        self._roster = roster
        self._gpus: dict[int, int] = {}  # by machine
        self._before: dict[int, int] = {}  # as of the latest pass
        self._now = 0.0  # when that was

    def draining(self) -> list[int]:
        """Machines that drain and are not empty yet."""
        names = [machine.name for machine in self._roster.snapshot.machines if machine.state == base.DRAINING]
        numbers = [self._roster.machines[name] for name in names if name in self._roster.machines]
        return [machine for machine in numbers if not self._state.cluster.down[machine]]

    def _failed(self) -> dict[int, int]:
        """GPUs by machine that the tree has and the backend no longer gives out."""
        roster = self._roster
        machines = [machine for machine in roster.snapshot.machines if machine.name in roster.machines]
        result: dict[int, int] = {}
        for machine in machines:
            number = roster.machines[machine.name]
            missing = int(roster.topology.gpus[0][number]) - machine.gpus
            if missing > 0 and not self._state.cluster.down[number]:
                result[number] = missing
        return result

    def put_back(self) -> None:
        """As if everything were to be had."""
        for machine, gpus in self._gpus.items():
            if not self._state.cluster.down[machine]:
                self._change(machine, gpus)
        self._before, self._gpus = self._gpus, {}

    def take_out(self, now: float) -> None:
        """Once the books are right, before the policy is asked."""
        self._now = now
        cluster = self._state.cluster
        stray = self._stray().items()
        by_machine = {machine: min(gpus, int(cluster.all_free_on(machine))) for machine, gpus in stray}
        for machine, gpus in self._failed().items():
            by_machine[machine] = min(by_machine.get(machine, 0) + gpus, int(cluster.all_free_on(machine)))
        by_machine |= {machine: int(cluster.all_free_on(machine)) for machine in self.draining()}
        self._gpus = {machine: gpus for machine, gpus in by_machine.items() if gpus > 0}
        for machine, gpus in self._gpus.items():
            self._change(machine, -gpus)
        less = (machine for machine, gpus in self._before.items() if gpus > self._gpus.get(machine, 0))
        if any(not cluster.down[machine] for machine in less):
            self._state.notify(events.CAPACITY_CHANGED, now)  # there is more to be had

    def take_out_freed(self) -> None:
        """In mid-pass: what was given back on machines that drain."""
        for machine in self.draining():
            gpus = int(self._state.cluster.all_free_on(machine))
            if gpus > 0:
                self._gpus[machine] = self._gpus.get(machine, 0) + gpus
                self._change(machine, -gpus)

    def promise(self, allocation: Allocation) -> None:
        """In a dry run: these GPUs are a job's for the rest of the pass, though it does not start."""
        for machine, gpus in allocation.parts():
            self._gpus[machine] = self._gpus.get(machine, 0) + gpus
            self._change(machine, -gpus)

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

    def _stray(self) -> dict[int, int]:
        """GPUs by machine of jobs that have some on the cluster and none in the books."""
        by_machine: dict[int, int] = {}
        for observed in self._roster.snapshot.jobs:
            if observed.placement and self._is_stray(observed):
                for name, gpus in observed.placement.items():
                    if name in self._roster.machines:
                        machine = self._roster.machines[name]
                        by_machine[machine] = by_machine.get(machine, 0) + gpus
        return by_machine

    def _is_stray(self, observed: ObservedJob) -> bool:
        """Not one that is to stop: what it leaves may be promised already."""
        job = self._roster.jobs.get(observed.job_id)
        stopping = self._roster.desired(observed.job_id) == STOP
        return observed.state not in base.ENDED and not stopping and (job is None or job.status != RUNNING)

    def _change(self, machine: int, gpus: int) -> None:
        self._state.cluster.set_aside(machine, -gpus)
        self._state.notify(events.UNSCHEDULABLE, self._now, machine, -gpus)
