"""The words every part of Dally shares: jobs, allocations, actions and what can happen to them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from librt.vecs import append, vec
from mypy_extensions import i64

from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.pickles import picklable
from dally.sizes import SizeAccount, read_sizes

INFINITY: Final = float("inf")
NEVER: Final = -1.0  # a time that has not come yet, e.g. the start of a job that still waits

# Job.status
PENDING: Final = 0  # not submitted yet
WAITING: Final = 1
RUNNING: Final = 2
FINISHED: Final = 3
CANCELLED: Final = 4
HELD: Final = 5  # waits, and is not offered GPUs until it is released
STATUS_NAMES: Final = ("pending", "waiting", "running", "finished", "cancelled", "held")

# Event kinds, in the order in which events of one instant are handled: GPUs come back before leases
# are judged, and newcomers are seen last. `engine.cycle.turn_of` says where the later kinds belong.
FINISH: Final = 0
FAIL: Final = 1
REPAIR: Final = 2
LEASE: Final = 3
TIMER: Final = 4
SUBMIT: Final = 5
# What the engine did about them. These appear in the log only.
START: Final = 6
PREEMPT: Final = 7
EVICT: Final = 8  # lost its GPUs to a machine failure, or to somebody behind the scheduler's back
RENEW: Final = 9
MIGRATE: Final = 10
# 11 is "link": the load of a link changed, in tables only.
# What people and backends bring about.
CANCEL: Final = 12  # its user no longer wants the job
HOLD: Final = 13
RELEASE: Final = 14  # of a job on hold
START_FAILED: Final = 15  # the backend could not start the job, at once or as it turned out later
PREEMPT_FAILED: Final = 16  # these two: the job keeps its GPUs
MIGRATE_FAILED: Final = 17
ADOPT: Final = 18  # a job found waiting or running by an engine that did not start it
NETWORK: Final = 19  # links got another share of their bandwidth
RESIZE: Final = 20
REPORT: Final = 21  # the job's progress says how long it takes; not in the log, as the next
MEASURE: Final = 22  # the job's progress says how long a step takes where it sits
DEGRADE: Final = 23  # a machine or a link is slower from now on, or sound again
KIND_NAMES: Final = (
    "finish", "fail", "repair", "lease", "timer", "submit",
    "start", "preempt", "evict", "renew", "migrate", "link",
    "cancel", "hold", "release", "start_failed", "preempt_failed", "migrate_failed", "adopt", "network", "resize",
)  # fmt: skip


class Allocation:
    """Where a gang sits: GPUs per machine, and the closest tier whose one domain holds them all."""

    __slots__ = ("gpus", "machines", "tier")

    def __init__(self, tier: i64) -> None:
        self.tier: i64 = tier
        self.machines: vec[i64] = vec[i64]()
        self.gpus: vec[i64] = vec[i64]()

    def add(self, machine: i64, gpus: i64) -> None:
        self.machines = append(self.machines, machine)
        self.gpus = append(self.gpus, gpus)

    def parts(self) -> list[tuple[int, int]]:
        """(machine, GPUs) pairs."""
        return [(int(self.machines[i]), int(self.gpus[i])) for i in range(len(self.machines))]

    def total(self) -> i64:
        """GPUs in all."""
        count: i64 = 0
        for gpus in self.gpus:
            count += gpus
        return count

    def __repr__(self) -> str:
        where = "+".join(f"m{machine}:{gpus}" for machine, gpus in self.parts())
        return f"Allocation(tier={int(self.tier)}, {where})"


picklable(Allocation, 0)


def make_allocation(tier: int, parts: list[tuple[int, int]]) -> Allocation:
    """The allocation with these (machine, GPUs) pairs."""
    allocation = Allocation(tier)
    for machine, gpus in parts:
        allocation.add(machine, gpus)
    return allocation


class Profile:
    """How a model computes and communicates, per iteration and GPU.

    Given `compute_s` alone, a third of it is the forward pass. `overlap` is the share of the gradient
    exchange that may hide under the backward pass; the last bucket's never can. With `stages` the gradients are
    reduced in buckets as these become ready: each stage is (buckets, bytes of all, first and last ready, in
    seconds of the backward pass), and `overlap` and the last bucket do not count.
    """

    __slots__ = (
        "all_to_all_bytes", "all_to_all_gpus", "backward_s", "forward_s", "groups", "last_bucket_bytes", "name",
        "nbytes", "overlap", "skew", "stages", "tensor_parallel",
    )  # fmt: skip

    def __init__(
        self,
        compute_s: float = 0.0,
        nbytes: float = 0.0,
        overlap: float = 1.0,
        forward_s: float = 0.0,
        backward_s: float = 0.0,
        last_bucket_bytes: float = 0.0,
        all_to_all_bytes: float = 0.0,
        name: str = "",
        all_to_all_gpus: i64 = 0,
        tensor_parallel: i64 = 1,
        skew: float = 0.0,
        stages: tuple[tuple[float, float, float, float], ...] = (),
        groups: Any = None,
    ) -> None:
        for field, value in (
            ("compute_s", compute_s), ("nbytes", nbytes), ("overlap", overlap), ("forward_s", forward_s),
            ("backward_s", backward_s), ("last_bucket_bytes", last_bucket_bytes),
            ("all_to_all_bytes", all_to_all_bytes),
        ):  # fmt: skip
            if not 0.0 <= value < INFINITY:
                raise InputError(f"profile {name!r}: {field}: {value!r}: must be a number, not negative")
        if overlap > 1.0:
            raise InputError(f"profile {name!r}: overlap: {overlap!r}: must be a share from 0 to 1")
        if compute_s > 0.0 and forward_s + backward_s > 0.0:
            raise InputError(f"profile {name!r}: compute_s: give it or forward_s and backward_s, not both")
        self.name: str = name
        self.forward_s: float = forward_s + compute_s / 3.0
        self.backward_s: float = backward_s + (compute_s - compute_s / 3.0)
        self.nbytes: float = nbytes  # gradients
        self.overlap: float = overlap
        self.last_bucket_bytes: float = last_bucket_bytes
        self.all_to_all_bytes: float = all_to_all_bytes  # never hidden
        self.all_to_all_gpus: i64 = all_to_all_gpus  # that exchange with each other; 0: the whole gang
        self.tensor_parallel: i64 = tensor_parallel  # GPUs that must share a machine
        self.skew: float = skew  # largest tensor ÷ model
        self.stages: tuple[tuple[float, float, float, float], ...] = stages
        self.groups: Any = groups  # of a large model: prices any placement (perf/llm/placed.py)
        if len(stages) > 0:
            reduced = self._reduced_bytes()
            self.nbytes = nbytes if nbytes > 0.0 else reduced

    def _reduced_bytes(self) -> float:
        """Bytes of all stages, which must be in order."""
        before_s = 0.0
        reduced = 0.0
        for count, size, first_s, last_s in self.stages:
            if not (count >= 1.0 and 0.0 < size < INFINITY and before_s <= first_s <= last_s <= self.backward_s):
                raise InputError(
                    f"profile {self.name!r}: stages: {(count, size, first_s, last_s)!r}: must be a bucket or more, "
                    f"bytes, and moments in order within the backward pass of {self.backward_s:g} s"
                )
            before_s = last_s
            reduced += size
        return reduced

    def compute_s(self) -> float:
        """Seconds of compute in one iteration."""
        return self.forward_s + self.backward_s

    def __repr__(self) -> str:
        return f"Profile({self.name or 'unnamed'}, {self.compute_s():g} s, {self.nbytes:g} bytes)"

    def __reduce__(self) -> tuple[object, ...]:
        facts = (
            0.0, self.nbytes, self.overlap, self.forward_s, self.backward_s, self.last_bucket_bytes,
            self.all_to_all_bytes, self.name, int(self.all_to_all_gpus), int(self.tensor_parallel), self.skew,
            self.stages,
        )  # fmt: skip
        return (Profile, facts if self.groups is None else (*facts, self.groups))


class Job:
    """One training job: what it asks for (`spec`), and how far it has come.

    Policies read jobs and never write them; only the engine does. `index` is its place in order of
    submission, so comparing indexes breaks ties the same way in every run. What the engine reads at every event,
    or changes, it has of its own: `gpus`, `group`, `model` and so on are those that count, whatever `spec` states.
    """

    __slots__ = (
        "allocation", "allowed", "checkpoint_every_s", "comm_rate", "comm_s", "compute_s", "delay_until_s",
        "duration_s", "finish_s", "gpus", "group", "held_s", "index", "job_id", "kind", "lease_end_s", "lost_s",
        "migrations", "model", "non_migratable", "non_preemptible", "number", "overhead_s", "placed_s",
        "predicted_s", "preemptions", "prioritized", "rate", "renewals", "reported_s", "requested", "resizes",
        "restart_due_s", "saved_comm_s", "saved_compute_s", "saved_work_s", "signature", "since_s",
        "size_account", "sizes", "slot", "slot_class", "spec", "start_s", "status", "submit_s", "tenant", "tier",
        "unsaved", "work_s",
    )  # fmt: skip

    def __init__(
        self,
        index: i64,
        job_id: str,
        submit_s: float,
        gpus: i64,
        duration_s: float,
        model: str = "",
        spec: JobSpec | None = None,
    ) -> None:
        self.index: i64 = index
        self.job_id: str = job_id
        self.submit_s: float = submit_s
        self.gpus: i64 = gpus  # it runs on, or waits for; not `requested` only while an elastic job runs
        self.requested: i64 = gpus  # the size that its duration and its rank are stated for
        self.duration_s: float = duration_s  # running time at its closest placement, alone
        self.model: str = model
        if spec is None:
            spec = JobSpec(int(gpus), model=model)
        self.spec: JobSpec = spec
        self.group: i64 = spec.group  # GPUs that must share a machine: its model's tensor parallelism
        every_s: float | None = spec.checkpoint_every_s
        self.checkpoint_every_s: float = NEVER if every_s is None else every_s  # its own; NEVER: as all others
        self.kind: i64 = 0  # what the policy tells apart among jobs of one size
        self.signature: i64 = 0  # what else it needs and where it may be (cluster/feasibility); 0: no constraint
        self.allowed: frozenset[int] | None = None  # machines, where its backend has worked that out; None: any
        self.tenant: i64 = 0  # who of those that share the machines (policies/gate) it belongs to,
        self.number: i64 = index  # and its place among that tenant's
        self.prioritized: bool = False  # override: it comes before all jobs that are not
        self.delay_until_s: float = NEVER  # override: from then on it takes any place; NEVER: none
        self.non_preemptible: bool = False  # while it runs it can be neither preempted nor moved
        self.non_migratable: bool = False  # while it runs it is not moved, though it may be preempted
        self.unsaved: bool = False  # a stop undoes its whole run (engine/consent)
        self.predicted_s: float = NEVER  # duration_s as the policy foresaw it at submission
        self.reported_s: float = NEVER  # duration_s as the job's own progress has it; NEVER: it says nothing
        self.status: i64 = PENDING
        self.allocation: Allocation | None = None
        self.tier: i64 = -1  # of its latest allocation
        self.slot: i64 = -1  # its place in the queue's class of equal demand,
        self.slot_class: i64 = -1  # and which class that is
        self.start_s: float = NEVER  # first start
        self.placed_s: float = NEVER  # start of the current allocation
        self.finish_s: float = NEVER
        self.lost_s: float = submit_s  # submit, or the moment it last lost its GPUs (t_last)
        self.lease_end_s: float = INFINITY
        # Progress, integrated lazily: true as of `since_s`, which lies ahead of the clock while it is restarting.
        self.since_s: float = submit_s
        self.rate: float = 0.0  # seconds of work per second
        self.comm_rate: float = 0.0  # share of that time spent in exposed communication
        self.work_s: float = 0.0  # of duration_s
        self.held_s: float = 0.0  # time with GPUs before the current allocation
        self.compute_s: float = 0.0
        self.comm_s: float = 0.0
        self.overhead_s: float = 0.0  # restarts, and work that a failure undid
        self.restart_due_s: float = 0.0  # what the next start costs before work goes on
        self.saved_work_s: float = 0.0  # the latest checkpoint
        self.saved_compute_s: float = 0.0
        self.saved_comm_s: float = 0.0
        self._begin()

    def _begin(self) -> None:
        self.preemptions: i64 = 0
        self.renewals: i64 = 0
        self.migrations: i64 = 0
        self.resizes: i64 = 0
        self.sizes: tuple[int, ...] = ()  # that it may run on, rising; none: on `requested` alone
        self.size_account: SizeAccount | None = None  # of an elastic job
        if self.spec.sizes:
            self.let_resize(read_sizes(self.spec.sizes, int(self.requested)), self.spec.resize_s)

    def let_resize(self, sizes: tuple[int, ...], resize_s: float | None) -> None:
        """These are the sizes that the job may run on, and what a change takes; it has not run yet."""
        self.sizes = sizes
        self.size_account = SizeAccount(self.requested, resize_s) if sizes else None

    @property
    def name(self) -> str:
        """What its user calls it: jobs run again and again share one."""
        return self.spec.name

    @property
    def user(self) -> str:
        """Its owner; empty, as the texts below: not known."""
        return self.spec.user

    @property
    def account(self) -> str:
        """The account that it is charged to."""
        return self.spec.account

    @property
    def partition(self) -> str:
        """The partition that it asks for."""
        return self.spec.partition

    @property
    def qos(self) -> str:
        """Its quality of service."""
        return self.spec.qos

    @property
    def queue(self) -> str:
        """The queue it names."""
        return self.spec.queue

    @property
    def gpu_type(self) -> str:
        """Types of GPU it accepts, with | between them; empty: any."""
        return self.spec.gpu_type

    @property
    def priority(self) -> float:
        """As its cluster states it."""
        return self.spec.priority

    @property
    def limit_s(self) -> float:
        """The time limit it was submitted with; NEVER: none is known."""
        limit_s: float | None = self.spec.limit_s
        return NEVER if limit_s is None else limit_s

    def checkpoints_s(self, usual_s: float) -> float:
        """Seconds of work between its checkpoints: its own, or the usual; 0: a failure undoes nothing."""
        return self.checkpoint_every_s if self.checkpoint_every_s > 0.0 else usual_s

    def run_s(self, now: float) -> float:
        """Seconds it has held GPUs so far."""
        if self.status == RUNNING:
            return self.held_s + (now - self.placed_s)
        return self.held_s

    def computed_s(self, now: float) -> float:
        """Seconds it has spent computing so far."""
        if self.status == RUNNING and now > self.since_s:
            return self.compute_s + (now - self.since_s) * (1.0 - self.comm_rate)
        return self.compute_s

    def overhead_so_far_s(self, now: float) -> float:
        """Seconds spent on restarts and on work that a failure undid; a restart under way counts up to now."""
        if self.status == RUNNING and self.since_s > now:
            return self.overhead_s - (self.since_s - now)
        return self.overhead_s

    def done_s(self, now: float) -> float:
        """Seconds of work done, of `duration_s`."""
        done = self.work_s
        if self.status == RUNNING and now > self.since_s:
            done += (now - self.since_s) * self.rate
        return done

    def worked_s(self, now: float) -> float:
        """Seconds with GPUs, restarts and undone work aside."""
        return self.run_s(now) - self.overhead_so_far_s(now)

    def remaining_s(self, now: float) -> float:
        """Seconds of work left at full speed. The scheduler knows this only as an oracle."""
        left = self.duration_s - self.done_s(now)
        return left if left > 0.0 else 0.0

    def expected_finish_s(self) -> float:
        """When a running job ends if nothing changes."""
        return self.since_s + (self.duration_s - self.work_s) / self.rate

    def __repr__(self) -> str:
        return f"Job({self.job_id}, {int(self.gpus)} GPUs, {STATUS_NAMES[self.status]})"


picklable(Job, 0, "", 0.0, 1, 0.0)


def job_of_spec(index: i64, job_id: str, submit_s: float, spec: JobSpec, duration_s: float) -> Job:
    """The job that asks for this; `duration_s` is its running time at its closest placement, alone."""
    return Job(index, job_id, submit_s, spec.gpus, duration_s, spec.model, spec)


class Costs(NamedTuple):
    """What losing GPUs costs a gang."""

    restart_s: float = 0.0
    restart_per_gpu_s: float = 1.0
    checkpoint_every_s: float = 0.0  # seconds of work between checkpoints; 0: a failure undoes nothing
    jitter: int = 0  # number of the replication: restarts differ by up to 1 µs; 0: by nothing
    seed: int = 1  # of the jitter

    def gang_restart_s(self, gpus: int) -> float:
        """Seconds until a gang of that size works again."""
        return self.restart_s + self.restart_per_gpu_s * float(gpus)


class Action:
    """What a policy asks for: one of Start, Preempt, Migrate, Resize."""

    __slots__ = ("job",)

    def __init__(self, job: Job) -> None:
        self.job = job


class Start(Action):
    """Give a waiting job these GPUs."""

    __slots__ = ("allocation",)

    def __init__(self, job: Job, allocation: Allocation) -> None:
        super().__init__(job)
        self.allocation = allocation


class Preempt(Action):
    """Take a running job's GPUs; it is checkpointed and waits again."""

    __slots__ = ()


class Migrate(Action):
    """Move a running job to other GPUs, at the cost of a restart.

    Its own GPUs count as free for the new allocation.
    """

    __slots__ = ("allocation",)

    def __init__(self, job: Job, allocation: Allocation) -> None:
        super().__init__(job)
        self.allocation = allocation


class Resize(Migrate):
    """Give a running job another number of GPUs, one of its sizes, at the cost of a restart or of `resize_s`."""

    __slots__ = ()


# Decision.kind
WAITS: Final = 0  # the job begins to wait
OFFER: Final = 1  # what jobs of one demand (or this job) are offered changed, or their timers did
ACCEPT: Final = 2  # the job took what it was offered
LOSE: Final = 3  # the job's GPUs went to another, or to nobody yet: its lease ended far from home
RANK: Final = 4  # a waiting job's rank changed
HEAD: Final = 5  # the job is first in the queue, does not fit, and nobody behind it is offered anything
RESERVE: Final = 6  # GPUs are kept for the job, from some moment on; no job: for nobody any more
ROUND: Final = 7  # GPUs are shared out next at some moment
DEFER: Final = 8  # the job is not offered anything yet
ADMIT: Final = 9  # from now on it is
MOVE: Final = 10  # a running job moves, to a faster place or out of another's way
DECISION_NAMES: Final = (
    "wait", "offer", "accept", "lose", "rank", "head", "reserve", "round", "defer", "admit", "move",
)  # fmt: skip


class Decision:
    """Why a policy did what it did. The policy hands these out; `explain` reads them."""

    __slots__ = ("demand_kind", "gpus", "group", "job", "kind", "other", "tier", "timers_s", "value")

    def __init__(self, kind: i64, job: Job | None, gpus: i64 = 0, group: i64 = 1, demand_kind: i64 = 0) -> None:
        self.kind: i64 = kind
        self.job: i64 = job.index if job is not None else -1
        self.gpus: i64 = gpus if job is None else job.gpus
        self.group: i64 = group if job is None else job.group
        self.demand_kind: i64 = demand_kind if job is None else job.kind  # tells demands of one size apart
        self.tier: i64 = -1  # on offer, or accepted; -1: none
        self.value: float = 0.0  # accept: how long it had to wait for that tier; reserve, round: the moment
        self.other: i64 = -1  # lose, move: the job that gets the GPUs; -1: nobody yet
        # offer: for each tier above the machine; lose: both ranks, restart, work at risk; move: cost, saving
        self.timers_s: vec[float] = vec[float]()


picklable(Decision, 0, None, 0, 0)


class Event:
    """Something that happened at one instant: to a job, to a machine, or to the network."""

    __slots__ = ("allocation", "job", "kind", "machine", "reason", "share", "step_s")

    def __init__(
        self,
        kind: i64,
        job: Job | None = None,
        machine: i64 = -1,
        reason: str = "",
        share: float = 1.0,
        allocation: Allocation | None = None,
        step_s: float = NEVER,
    ) -> None:
        self.kind: i64 = kind
        self.job = job
        self.machine: i64 = machine
        self.reason: str = reason  # why, if anybody said
        self.share: float = share  # of the links' bandwidth that is there from now on
        self.allocation = allocation  # adopt: where the job was found
        self.step_s: float = step_s  # measure: seconds per step where the job sits
