"""From the policy's actions to the backend: noted first, written down, and then sent."""

from __future__ import annotations

from typing import Final

from dally.cluster.links import Network
from dally.engine.executor import Executor
from dally.live.backends import base
from dally.live.backends.base import Backend, BackendError, Observed, Placement, StartOrder
from dally.live.facts import placement_of
from dally.live.rank_order import in_rank_order
from dally.live.reconcile import transitions
from dally.live.reconcile.pending import PREEMPT, RUN, START, PendingOrder
from dally.live.reconcile.reconciler import JobCase
from dally.live.reconcile.roster import Roster
from dally.live.reconcile.unschedulable import UnschedulableGpus
from dally.model import Action, Migrate, Start
from dally.perf.base import SpeedModel

DRY_RUN: Final = "dry run: nothing is done"
REQUESTS: Final = transitions.index(transitions.REQUESTS)
SEND_AGAIN_S: Final = 20.0  # of the wall clock: before a backend that took a request is sent the same again


class Orders(Executor):
    """Notes what is desired of which job; nothing happens to the cluster before `send`."""

    def __init__(
        self,
        roster: Roster,
        unschedulable: UnschedulableGpus,
        dry_run: bool = False,
        speed: SpeedModel | None = None,
        network: Network | None = None,
    ) -> None:
        super().__init__()
        self._speed = speed  # these two say in which order ranks go through a gang's machines
        self._network = network
        self.dry_run = dry_run
        self._would: dict[str, str] = {}  # in a dry run: what was last to become of which job
        self._new: list[tuple[str, str]] = []
        self._roster = roster
        self._unschedulable = unschedulable

    def before_pass(self, now: float) -> None:
        """What is not to be had is not offered."""
        self._unschedulable.take_out(now)

    def refusal(self, action: Action) -> str:
        """Of a machine that takes no new jobs: some policies plan with what a job leaves there."""
        closed = self._roster.closed().intersection(self._target(action) or ())
        return f"{min(closed)} takes no new jobs" if closed else ""

    def _target(self, action: Action) -> Placement | None:
        if not isinstance(action, Start | Migrate):
            return None
        placement = placement_of(self._roster.topology, action.allocation)
        profile = None if self._speed is None else self._speed.profile(action.job)
        if profile is None or self._network is None:
            return placement
        return in_rank_order(placement, action.allocation, self._network, profile)

    def apply(self, action: Action, now: float) -> str:
        """Note the action; why not, if the backend would not take it."""
        job, target = action.job, self._target(action)
        if self.dry_run:
            self._note_would(job.job_id, _text_of(target))
            if isinstance(action, Start):
                self._unschedulable.promise(action.allocation)
            return DRY_RUN
        if not self._roster.observed[job.job_id].managed:
            return "another scheduler looks after this job"
        if job.allocation is not None and not self._roster.observed[job.job_id].preemptible:
            return "it cannot be stopped, as nothing would start it again"
        if self._roster.is_stopping(job):
            return "it is on hold, and about to stop"
        self._roster.desire(job.job_id, target, now)
        return ""

    def applied(self, action: Action, now: float) -> None:
        """What a job gave back on a machine that takes no new jobs is not offered either."""
        if not isinstance(action, Start):
            self._unschedulable.take_out_freed()

    def _note_would(self, job_id: str, what: str) -> None:
        if self._would.get(job_id) != what:
            self._would[job_id] = what
            self._new.append((job_id, what))

    def would(self) -> list[tuple[str, str]]:
        """In a dry run: jobs, and what would have become of them, as far as that is new."""
        self._would = {job_id: what for job_id, what in self._would.items() if job_id in self._roster.jobs}
        new, self._new = self._new, []
        return new


def requests_due(roster: Roster, now: float, speed: float) -> list[PendingOrder]:
    """What is to be sent now, noted as such; no answer is known yet."""
    if not roster.orders:
        return []
    observed = {job.job_id: job for job in roster.snapshot.jobs}
    free = _free_gpus(roster.snapshot, roster)
    again_s = SEND_AGAIN_S * speed
    due: list[PendingOrder] = []
    for order in roster.orders.values():
        job = observed.get(order.job_id)
        case = JobCase(roster, roster.jobs[order.job_id], job, now, 0.0)
        case.free = free
        row = case.row(REQUESTS)
        if row is None or (row.order == order.request and order.is_taken and now - order.sent_s < again_s):
            continue
        if row.order == START:
            for name, gpus in (order.placement or {}).items():
                free[name] -= gpus
        order.request, order.sent_s, order.answer = row.order, now, None
        order.attempts += row.order == START
        due.append(order)
    return due


def send(backend: Backend, due: list[PendingOrder], term: int) -> tuple[list[str], str]:
    """Send requests and note the answers: what was refused, a line each, and why the backend failed, if it did.

    A job may have ended since the snapshot: its end is looked up before it is preempted, or it would run again.
    """
    failed = ""
    try:
        starts = [order for order in due if order.request == START]
        requests = [StartOrder(order.job_id, order.placement or {}) for order in starts]
        _answer(starts, backend.start(requests, term))
        stops = [order for order in due if order.request == PREEMPT]
        if stops:
            live = {job.job_id for job in backend.snapshot().jobs if job.state not in base.ENDED}
            ended = [order for order in stops if order.job_id not in live]
            stops = [order for order in stops if order.job_id in live]
            _answer(ended, [""] * len(ended))
            _answer(stops, backend.preempt([order.job_id for order in stops], term))
    except BackendError as error:
        failed = str(error)
        for order in due:
            order.answer = failed if order.answer is None else order.answer
    return [f"{order.request} of job {order.job_id}: {order.answer}" for order in due if order.answer], failed


def _answer(orders: list[PendingOrder], answers: list[str]) -> None:
    """Note each order's answer."""
    for order, answer in zip(orders, answers, strict=True):
        order.answer = answer


def _free_gpus(observed: Observed, roster: Roster) -> dict[str, int]:
    """GPUs by machine that no job holds and that no job was promised."""
    free = {machine.name: machine.gpus if machine.state == base.UP else 0 for machine in observed.machines}
    for job in observed.jobs:
        held, state = job.placement, job.state
        if (not held and state != base.STARTING) or state in base.ENDED:
            continue
        order = roster.orders.get(job.job_id)
        if state == base.STARTING and not held and order is not None and order.desired == RUN:
            held = order.placement or {}
        for name, gpus in held.items():
            free[name] = free.get(name, 0) - gpus
    return free


def _text_of(placement: dict[str, int] | None) -> str:
    if placement is None:
        return "stop"
    return "run on " + "+".join(f"{name}:{gpus}" for name, gpus in placement.items())
