"""The contract of a policy, and of the parameters it shows to users."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.errors import PolicyError
from dally.model import CANCELLED, INFINITY, NEVER, Action, Decision, Job
from dally.policies.part import Part
from dally.policies.queue import Queue
from dally.policies.reasons import Reasons
from dally.policies.view import View


class Param(NamedTuple):
    """A parameter that `--set name=value` changes; its default also gives its type."""

    name: str
    default: float | int | str | bool
    about: str
    least: float = 0.0  # numbers below this are refused
    period: bool = False  # seconds from one decision to the next: refused where the clock would not move on


@mypyc_attr(allow_interpreted_subclasses=True)
class Policy(Part):
    """Decides who runs where. Subclass it and write `schedule`; everything else has a default.

    A policy has no clock, no engine and no I/O: what it knows is what it is handed. The same object
    runs in the simulator and on a live cluster.
    """

    reasons: Reasons  # where it tells why, from `begin` on

    def begin(self, view: View) -> None:
        """A run begins. Called once, before anything else."""
        super().begin(view)
        self.reasons = Reasons()

    def make_queue(self) -> Queue:
        """Where its jobs wait. Asked once, before `begin`."""
        return Queue()

    def predict_s(self, job: Job, now: float) -> float:
        """How long the job will run, if the policy predicts that. Asked once, at submission."""
        return NEVER

    def teach(self, past: list[Job]) -> None:
        """Jobs of an earlier time, all before the run's, with their durations. Called after `begin`, if at all."""

    def key(self, job: Job, now: float) -> float:
        """The rank under which a job waits, lowest first. Asked once, when the job enters the queue."""
        return job.submit_s

    def tie(self, job: Job) -> float:
        """Breaks equal keys, lowest first; what is still equal goes by order of submission."""
        return 0.0

    def kind(self, job: Job) -> int:
        """A number below 2^20: jobs of one size and kind must be equally easy to place. Asked at submission."""
        return 0

    def lease_s(self) -> float:
        """For how long GPUs are granted before the job must defend them again."""
        return INFINITY

    def sharing(self) -> str:
        """How transfers of its jobs share links: `fair`, or admitted one by one by `adadual`."""
        return "fair"

    def migrates(self) -> bool:
        """Whether its running gangs may move to faster GPUs (policies/sharing: of another type)."""
        return False

    def suspend_s(self, job: Job, usual_s: float) -> float:
        """Seconds until the gang works again after the policy itself took its GPUs; `usual_s` is the run's price.

        For policies that bring a mechanism of their own. After a failure the usual price is due in any case.
        """
        return usual_s

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        """Yield actions. Each is carried out before the next is asked for, so queue and cluster stay true."""
        raise PolicyError(f"policy {type(self).__name__}: schedule(now, queue, cluster) is missing")

    def next_wakeup(self, now: float) -> float:
        """When to be asked again even if nothing happens until then; infinity: not needed."""
        return INFINITY

    def has_timers(self) -> bool:
        """Whether its jobs hold out for closer places, so that operators can say for how long."""
        return False

    def set_timer(self, gpus: int, wait_s: float) -> None:
        """An operator says for how long gangs of that size hold out; NEVER: as long as the policy thinks fit."""

    def save(self) -> dict[str, Any]:
        """What it has learnt, as plain values (JSON): a daemon that restarts goes on with it."""
        return {}

    def load(self, saved: dict[str, Any]) -> None:
        """Go on with what `save` gave."""

    def decisions(self) -> list[Decision]:
        """The reasons for what was done since this was last asked."""
        return self.reasons.collect()

    # What happens to jobs, for policies that keep books. Nothing needs to be done here.
    def queued(self, job: Job, now: float) -> None:
        """The job was submitted, or lost its GPUs, and waits."""

    def started(self, job: Job, now: float) -> None:
        """The job got GPUs (also by migration)."""

    def stopped(self, job: Job, now: float) -> None:
        """The job gave its GPUs back: finished, preempted, evicted or about to migrate."""

    def instructed(self, job: Job, now: float) -> None:
        """An operator put the job first in line, said how long it holds out, or took that back."""

    def stays_changed(self, job: Job, now: float) -> None:
        """From now on nobody can stop the running job, or somebody can again: see `job.stays`."""

    def finished(self, job: Job, now: float) -> None:
        """The job is done; `stopped` was called before. From here on its duration is known."""

    def withdrawn(self, job: Job, now: float) -> None:
        """The job left the queue without GPUs, held, cancelled or as its start failed: it is not to be started.

        `queued` tells of it again when it is back. One that is cancelled while it runs is `stopped` before.
        """

    def left(self, job: Job, now: float) -> None:
        """The job goes on under another policy (policies/sharing): for this one it is as gone as one cancelled."""
        status = job.status
        job.status = CANCELLED
        self.withdrawn(job, now)
        job.status = status

    def kept(self, job: Job, now: float) -> None:
        """The job was to be preempted or migrated and still has its GPUs: that failed."""
        self.stopped(job, now)
        self.started(job, now)

    def rerated(self, job: Job, now: float) -> None:
        """A running job's speed changed."""

    def lease_ended(self, job: Job, now: float) -> None:
        """The job's lease is over; it is renewed unless this pass preempts it."""

    def others_moved(self, now: float) -> None:
        """GPUs came or went by the doing of others: who share the machines (policies/sharing), or operators."""

    def machine_failed(self, machine: i64, now: float) -> None:
        """The machine went down; its jobs have been evicted."""

    def machine_repaired(self, machine: i64, now: float) -> None:
        """The machine is back, empty."""

    def withheld(self, machine: i64, gpus: i64) -> None:
        """So many free GPUs of a machine are not offered from now on, as it drains; below 0: they are again."""

    def network_changed(self, now: float) -> None:
        """Links have another bandwidth from now on; `rerated` tells of those whose speed that changes."""


def ahead(key: float, tie: float, index: i64, other_key: float, other_tie: float, other_index: i64) -> bool:
    """Whether the first rank comes before the second."""
    if key != other_key:
        return key < other_key
    if tie != other_tie:
        return tie < other_tie
    return index < other_index
