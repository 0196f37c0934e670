"""Jobs with constraints in the engine: who gets which signature, and which jobs no machines could ever hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dally.cluster.capacity import Cluster
from dally.cluster.feasibility.signatures import Signatures
from dally.engine.log import EventLog
from dally.model import HELD, HOLD, Job
from dally.policies.queue import Queue

if TYPE_CHECKING:
    from dally.engine.state import State

NO_MACHINES: Final = "no machines have all that it needs"


def constrain(state: State, known: Signatures | None = None) -> Signatures:
    """From now on jobs have constraints, and those here are signed. `known`: signatures that jobs have already."""
    fit = state.cluster.feasibility
    if fit is not None:
        return fit.signatures
    signatures = Signatures(state.cluster.topology) if known is None else known
    for job in state.cluster.running.values():
        signatures.sign(job)
    state.cluster.constrain(signatures)
    state.view.constrain(state.cluster, signatures)
    state.policy.constrain(signatures)
    sign_again(state)
    return signatures


def sign_again(state: State) -> None:
    """What is open to jobs has changed: those that wait get signatures anew. Those that run keep theirs."""
    for job in state.queue.all_jobs():
        key, tie = state.queue.key(job), state.queue.tie(job)
        state.queue.remove(job)
        sign(job, state.cluster, state.queue)
        state.queue.add(job, key, tie)


def sign(job: Job, cluster: Cluster, queue: Queue) -> None:
    """Give a job that neither waits nor runs its signature."""
    fit = cluster.feasibility
    if fit is None:
        job.signature = 0
        return
    before = job.signature
    fit.signatures.sign(job)
    if job.signature != before and job.slot >= 0:
        queue.forget(job)
        job.slot = -1


def why_unschedulable(job: Job, cluster: Cluster) -> str:
    """Why no machines could ever hold the job; empty: some could."""
    fit = cluster.feasibility
    if fit is None or job.signature == 0 or cluster.closest_tier(job) >= 0:
        return ""
    return fit.signatures.rows[job.signature].problem or NO_MACHINES


def hold_unschedulable(job: Job, cluster: Cluster, log: EventLog, now: float) -> bool:
    """Hold the job if no machines could ever hold it; whether that is so. Policies would wait for it in vain."""
    problem = why_unschedulable(job, cluster)
    if not problem:
        return False
    job.status = HELD
    log.reasons[len(log)] = problem
    log.add(now, HOLD, job.index, -1, None)
    return True
