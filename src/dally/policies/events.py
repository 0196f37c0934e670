"""What a policy is told: one event class, and its kinds."""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from dally.model import Job
from dally.pickles import picklable

# Of a job.
QUEUED: Final = 0  # it was submitted, or lost its GPUs, and waits
STARTED: Final = 1  # it got GPUs, also by migration
STOPPED: Final = 2  # it gave its GPUs back: finished, preempted, evicted or about to migrate
FINISHED: Final = 3  # it is done, after STOPPED: from here on its duration is known
# It left the queue without GPUs, held, cancelled or as its start failed: it is not to be started before QUEUED says
# so again. A job that is cancelled while it runs is STOPPED before.
WITHDRAWN: Final = 4
RERATED: Final = 5  # its speed changed while it runs
LEASE_ENDED: Final = 6  # its lease is over, and is renewed unless this pass preempts it
PREEMPTION_FAILED: Final = 7  # it was to be preempted or migrated, and still has its GPUs
OVERRIDDEN: Final = 8  # an operator's override changed: job.prioritized, job.delay_until_s
PREEMPTIBILITY: Final = 9  # a running job's job.non_preemptible changed
# Of machines and the network: `event.job` is None.
MACHINE_FAILED: Final = 10  # event.machine went down; its jobs have been evicted
MACHINE_REPAIRED: Final = 11  # event.machine is back, empty
UNSCHEDULABLE: Final = 12  # event.gpus of event.machine are free and not offered; below 0: they are again
CAPACITY_CHANGED: Final = 13  # GPUs came or went without a job of this policy's
NETWORK_CHANGED: Final = 14  # links have another bandwidth; RERATED came before for jobs whose speed that changes
PASS_ENDED: Final = 15  # the last moment to set policy.wakeup_s
REPORTED: Final = 16  # of a job: its progress says how long it takes, job.reported_s
MEASURED: Final = 17  # of a running job: its steps changed what is known of its slowdown elsewhere


class PolicyEvent:
    """What happened, to which job or machine, and when. The sender reuses the object: keep what it says, not it."""

    __slots__ = ("gpus", "job", "kind", "machine", "now")

    def __init__(
        self, kind: i64 = PASS_ENDED, now: float = 0.0, job: Job | None = None, machine: i64 = -1, gpus: i64 = 0
    ) -> None:
        self.kind: i64 = kind
        self.now: float = now
        self.job: Job | None = job
        self.machine: i64 = machine
        self.gpus: i64 = gpus


picklable(PolicyEvent)
