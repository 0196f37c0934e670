"""What a backend reports of machines beyond their GPUs, and of jobs beyond theirs, handed on to feasibility."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from dally.cluster.feasibility.signatures import ReservedTime, Signatures
from dally.cluster.feasibility.statement import is_constrained
from dally.cluster.topology import Capacity
from dally.engine.signing import constrain, sign_again, why_unschedulable
from dally.engine.state import State
from dally.job_spec import JobSpec
from dally.live.backends.base import Observed, ObservedJob, ObservedMachine, ObservedReservation
from dally.live.reconcile.roster import Roster
from dally.model import RUNNING, Job
from dally.policies import events

KEEP_PER_JOB: Final = 3  # what is known of jobs that ended is forgotten once there is more of it than that


class KnownReason(NamedTuple):
    """Why a job that asks for this fits nowhere; empty: it does fit."""

    spec: JobSpec
    allowed: frozenset[str] | None
    reason: str

    def is_of(self, observed: ObservedJob) -> bool:
        """Whether the job asks for the same. Most backends hand on the same objects."""
        same = self.spec is observed.spec and self.allowed is observed.allowed
        return same or (self.spec == observed.spec and self.allowed == observed.allowed)


class LiveConstraints:
    """Keeps the engine's feasibility up to date with the backend. Where nothing is constrained it does nothing."""

    def __init__(self, state: State, roster: Roster, moment_s: Callable[[float], float]) -> None:
        """`moment_s` puts the backend's times on the engine's clock, those ahead too."""
        self._state = state
        self._roster = roster
        self._moment_s = moment_s
        self._machines: dict[str, ObservedMachine] = {}  # as of the latest snapshot
        self._all_machines: tuple[ObservedMachine, ...] = ()  # the same as it had them
        self._jobs: dict[str, tuple[ObservedJob, Job]] = {}  # that were looked at while they did not run
        self._reasons: dict[str, KnownReason] = {}  # why jobs fit nowhere

    def update(self, observed: Observed, now: float) -> None:
        """Before the books are compared with the cluster."""
        if self._state.cluster.feasibility is None and not is_anything_constrained(observed):
            return
        if self._state.cluster.feasibility is None:
            self._forget_reasons()
        signatures = constrain(self._state)
        signatures.now = now
        changed = self._update_machines(observed, signatures)
        signatures.free_licences = dict(observed.licences)
        windows = [self._window(one) for one in observed.reservations]
        if windows != signatures.windows:
            signatures.set_windows(windows)
            self._forget_reasons()
            changed = True
        changed = self._update_jobs(observed) or changed
        signatures.version += 1
        if changed:
            sign_again(self._state)
            self._state.notify(events.CAPACITY_CHANGED, now)

    def _forget_reasons(self) -> None:
        self._reasons.clear()
        self._roster.permits_version += 1

    def _window(self, one: ObservedReservation) -> ReservedTime:
        numbers = self._roster.machines
        machines = frozenset(numbers[name] for name in one.machines if name in numbers)
        return ReservedTime(
            one.name, machines, self._moment_s(one.start_s), self._moment_s(one.end_s), one.users, one.accounts
        )

    def _update_machines(self, observed: Observed, signatures: Signatures) -> bool:
        """Capacities, features, and what others take; whether anything is new to jobs that wait."""
        if observed.machines is self._all_machines:
            return False
        self._all_machines = observed.machines
        topology = self._roster.topology
        changed = refeatured = False
        for machine in observed.machines:
            known = self._machines.get(machine.name)
            number = self._roster.machines.get(machine.name)
            if machine is known or number is None or machine == known:
                continue
            self._machines[machine.name] = machine
            before = topology.capacities[number]
            after = Capacity(machine.cpus, machine.memory_mb, dict(machine.resources), machine.features)
            topology.capacities[number] = after
            refeatured = refeatured or before.features != after.features
            if before != after:
                self._forget_reasons()
            for name in machine.resources_taken:  # though no job may have asked for it yet
                signatures.resource_number(name)
            taken = {"cpus": machine.cpus_taken, "memory_mb": machine.memory_mb_taken, **machine.resources_taken}
            for fit in signatures.fits:
                changed = fit.set_machine(number, taken, machine.shared_with_others) or changed
        if refeatured:
            signatures.forget_machines()
        return changed or refeatured

    def _update_jobs(self, observed: Observed) -> bool:
        """Jobs that wait and ask for something else now; whether there are any."""
        changed = False
        if len(self._jobs) + len(self._reasons) > KEEP_PER_JOB * (len(observed.jobs) + 100):
            self._forget_ended(observed)
        for one in observed.jobs:
            job = self._roster.jobs.get(one.job_id)
            if job is None or job.status == RUNNING:
                continue
            seen = self._jobs.get(one.job_id)
            if seen is not None and seen[0] is one and seen[1] is job:
                continue
            self._jobs[one.job_id] = one, job
            spec, allowed = self._roster.constraints_of(one)
            if job.allowed != allowed or job.spec != spec:
                job.allowed, job.spec = allowed, spec
                changed = True
        return changed

    def _forget_ended(self, observed: Observed) -> None:
        here = {one.job_id for one in observed.jobs}
        self._jobs = {job_id: seen for job_id, seen in self._jobs.items() if job_id in here}
        self._reasons = {job_id: known for job_id, known in self._reasons.items() if job_id in here}

    def why_unschedulable(self, observed: ObservedJob) -> str:
        """Why no machines could ever hold the job; empty: some could, or it has GPUs."""
        if self._state.cluster.feasibility is None or observed.placement or not observed.managed:
            return ""
        job_id = observed.job_id
        known = self._reasons.get(job_id)
        if known is None or not known.is_of(observed):
            job = self._roster.job_of(observed)
            self._state.cluster.feasibility.signatures.sign(job)
            known = KnownReason(observed.spec, observed.allowed, why_unschedulable(job, self._state.cluster))
        self._reasons[job_id] = known
        return known.reason


def is_anything_constrained(observed: Observed) -> bool:
    """Whether a job could be kept from machines that have free GPUs."""
    return bool(observed.reservations) or any(
        job.managed and (job.allowed is not None or is_constrained(job.spec)) for job in observed.jobs
    )
