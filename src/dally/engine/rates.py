"""Progress: work done so far, at what rate, since when. Integrated only when someone asks."""

from __future__ import annotations

from math import floor

from dally.model import Job


def advance(job: Job, now: float, checkpoint_every_s: float) -> None:
    """Bring a running job's progress up to `now`. It writes checkpoints so often, or as it states itself."""
    elapsed = now - job.since_s
    if elapsed <= 0.0:
        return  # still restarting
    done = elapsed * job.rate
    every_s = job.checkpoints_s(checkpoint_every_s)
    if every_s > 0.0:
        _checkpoint(job, done, every_s)
    job.work_s += done
    job.comm_s += elapsed * job.comm_rate
    job.compute_s += elapsed * (1.0 - job.comm_rate)
    job.since_s = now


def _checkpoint(job: Job, done: float, every_s: float) -> None:
    """Note the latest checkpoint written while `done` more seconds of work are done.

    One is written after every `every_s` seconds of work since the gang's latest checkpoint.
    """
    count = floor((job.work_s + done - job.saved_work_s) / every_s)
    if count <= 0:
        return
    saved = job.saved_work_s + float(count) * every_s
    elapsed = (saved - job.work_s) / job.rate
    job.saved_work_s = saved
    job.saved_comm_s = job.comm_s + elapsed * job.comm_rate
    job.saved_compute_s = job.compute_s + elapsed * (1.0 - job.comm_rate)


def save(job: Job) -> None:
    """Checkpoint now."""
    job.saved_work_s = job.work_s
    job.saved_comm_s = job.comm_s
    job.saved_compute_s = job.compute_s


def roll_back(job: Job) -> None:
    """Undo the work since the latest checkpoint: its time becomes overhead."""
    job.overhead_s += job.compute_s - job.saved_compute_s + job.comm_s - job.saved_comm_s
    job.work_s = job.saved_work_s
    job.comm_s = job.saved_comm_s
    job.compute_s = job.saved_compute_s


def begin(job: Job, now: float) -> None:
    """The gang was placed: it restarts first if it ran before, then works at full speed."""
    job.placed_s = now
    job.rate = 1.0
    job.comm_rate = 0.0
    job.since_s = now + job.restart_due_s
    job.overhead_s += job.restart_due_s
    job.restart_due_s = 0.0


def end(job: Job, now: float) -> None:
    """The gang, its progress up to date, loses its GPUs."""
    job.held_s += now - job.placed_s
    job.placed_s = now
    if job.since_s > now:
        job.overhead_s -= job.since_s - now  # the rest of a restart that was cut short
        job.since_s = now
    job.rate = 0.0
