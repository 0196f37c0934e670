"""What must hold of every run, whatever the policy. Recomputed from the log alone, GPU by GPU.

A run is checked as plain rows, so that its checks share no code with the engine that made it.
"""

from __future__ import annotations

from dataclasses import dataclass

from dally.cluster.topology import Capacity
from dally.engine.simulate import Simulation
from dally.engine.state import State
from dally.job_spec import JobSpec
from dally.metrics.simulated import Simulated
from dally.metrics.summary import summarize
from dally.model import KIND_NAMES, STATUS_NAMES, Job
from dally.sizes import comm_gpu_s, compute_gpu_s, overhead_gpu_s
from dally.testing.placements import Parts, misplaced, overbooked


@dataclass
class EventRow:
    """One line of the event log."""

    time_s: float
    kind: str
    job: int
    machine: int
    parts: list[tuple[int, int]]
    reason: str = ""


@dataclass
class JobRow:
    """What the trace says of a job, and what the engine says became of it."""

    submit_s: float
    gpus: int
    duration_s: float
    status: str
    start_s: float
    finish_s: float
    run_s: float
    compute_s: float
    comm_s: float
    overhead_s: float
    work_s: float
    preemptions: int
    renewals: int
    migrations: int
    restart_s: float  # the least that losing its GPUs costs
    spec: JobSpec
    sizes: tuple[int, ...]  # that it may run on
    accounted_gpu_s: float  # computing, exchanging and restarting
    resizes: int
    least_s: float  # no run takes less
    fits: bool  # whether the empty cluster could hold it


@dataclass
class RunRows:
    """Everything a run left behind."""

    machine_gpus: list[int]
    machine_names: list[str]
    capacities: list[Capacity]
    jobs: list[JobRow]
    events: list[EventRow]
    end_s: float
    complete: bool  # whether it went on until nothing more could happen
    makespan_bound_s: float
    jct_bound_s: float


def record_of(simulation: Simulation) -> RunRows:
    """The run so far, in rows."""
    state = simulation.state
    topology = state.cluster.topology
    log = state.log
    summary = summarize(Simulated(simulation))
    return RunRows(
        machine_gpus=[int(gpus) for gpus in topology.gpus[0]],
        machine_names=list(topology.names[0]),
        capacities=list(topology.capacities),
        jobs=[
            JobRow(
                submit_s=job.submit_s,
                gpus=int(job.requested),
                duration_s=job.duration_s,
                status=STATUS_NAMES[job.status],
                start_s=job.start_s,
                finish_s=job.finish_s,
                run_s=job.run_s(simulation.now),
                compute_s=job.compute_s,
                comm_s=job.comm_s,
                overhead_s=job.overhead_so_far_s(simulation.now),
                work_s=job.work_s,
                preemptions=int(job.preemptions),
                renewals=int(job.renewals),
                migrations=int(job.migrations),
                restart_s=_least_restart_s(state, job),
                spec=job.spec,
                sizes=job.sizes or (int(job.requested),),
                accounted_gpu_s=compute_gpu_s(job) + comm_gpu_s(job) + overhead_gpu_s(job, simulation.now),
                resizes=int(job.resizes),
                least_s=job.duration_s / max((state.speed.speedup(job, size) for size in job.sizes), default=1.0),
                fits=state.cluster.closest_tier(job) >= 0,
            )
            for job in simulation.jobs
        ],
        events=[
            EventRow(
                log.times[row],
                KIND_NAMES[log.kinds[row]],
                int(log.jobs[row]),
                int(log.machines[row]),
                log.parts(row),
                log.reasons.get(row, ""),
            )
            for row in range(len(log))
        ],
        end_s=simulation.now,
        complete=simulation.stuck or simulation.state.finished == len(simulation.jobs),
        makespan_bound_s=summary["makespan_bound_s"],
        jct_bound_s=summary["jct_bound_s"],
    )


def _least_restart_s(state: State, job: Job) -> float:
    usual_s = state.costs.gang_restart_s(min(job.sizes, default=int(job.gpus)))
    if job.size_account is not None and job.size_account.resize_s is not None:
        usual_s = min(usual_s, job.size_account.resize_s)
    return min(usual_s, state.policy.suspend_s)


CLOSE = 1e-6  # relative; sums of floats in another order


class InvariantError(AssertionError):
    """An invariant is broken; `name` says which."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")
        self.name = name


def check_record(record: RunRows) -> None:
    """Raise InvariantError unless every invariant holds."""
    replay = _Replay(record)
    for event in record.events:
        replay.step(event)
    replay.close()
    _check_bounds(record)


class _Replay:
    """Walks the log with a table of single GPUs."""

    def __init__(self, record: RunRows) -> None:
        self._record = record
        self._owner: list[list[int]] = [[-1] * gpus for gpus in record.machine_gpus]  # job per GPU, or -1
        self._down: set[int] = set()
        self._failed: tuple[float, set[int]] = (0.0, set())  # machines that failed at the latest instant
        self._status = ["pending"] * len(record.jobs)
        self._placed_s = [0.0] * len(record.jobs)
        self._run_s = [0.0] * len(record.jobs)
        self._held_gpu_s = 0.0
        self._sizes = [0] * len(record.jobs)  # GPUs of each since its latest start
        self._starts = [0] * len(record.jobs)
        self._first_s = [-1.0] * len(record.jobs)
        # What happened to each job while it ran.
        counted = ("preempt", "renew", "migrate", "resize", "evict", "cancel", "start_failed")
        self._counts = [dict.fromkeys(counted, 0) for _ in record.jobs]
        self._machines: list[list[int]] = [[] for _ in record.jobs]
        self._parts: dict[int, Parts] = {}  # of running jobs
        self._now = float("-inf")

    def step(self, event: EventRow) -> None:
        """One row of the log."""
        if event.time_s < self._now:
            raise InvariantError("causality", f"{event} comes after time {self._now}")
        if event.time_s > self._now:
            self._check_down()
        self._now = event.time_s
        if event.kind in ("fail", "repair"):
            self._outage(event)
            return
        if event.kind in ("timer", "network"):
            return
        job = self._record.jobs[event.job]
        if event.time_s < job.submit_s and event.kind != "cancel":
            raise InvariantError("causality", f"{event} comes before the job's submission at {job.submit_s}")
        if event.kind == "submit":
            self._expect(event, "pending")
            self._status[event.job] = "waiting"
            if event.time_s != job.submit_s:
                raise InvariantError("causality", f"{event}, but the job was submitted at {job.submit_s}")
        elif event.kind == "start":
            self._expect(event, "waiting")
            self._start(event, job)
        elif event.kind in ("adopt", "hold", "release"):
            self._steer(event, job)
        elif event.kind in ("cancel", "start_failed") and self._status[event.job] != "running":
            self._expect(event, "waiting", *(("pending", "held") if event.kind == "cancel" else ()))
            self._status[event.job] = "cancelled" if event.kind == "cancel" else "waiting"
        elif event.kind in ("preempt_failed", "migrate_failed"):
            self._expect(event, "running")
        else:
            self._expect(event, "running")
            self._end(event, job)

    def _expect(self, event: EventRow, *statuses: str) -> None:
        if self._status[event.job] not in statuses:
            raise InvariantError("once", f"{event}, but the job is {self._status[event.job]}")

    def _steer(self, event: EventRow, job: JobRow) -> None:
        """Held, released, or adopted: as it was, or on GPUs that we did not see it start on."""
        if event.kind == "hold":
            self._expect(event, "waiting")
            self._status[event.job] = "held"
        elif event.kind == "release" or not event.parts:
            self._expect(event, "held", *(() if event.kind == "release" else ("pending", "waiting")))
            self._status[event.job] = "waiting"
        elif self._status[event.job] != "running":
            self._expect(event, "pending", "waiting")
            self._start(event, job)
        elif sorted(machine for machine, _ in event.parts) != sorted(self._machines[event.job]):
            raise InvariantError("once", f"{event}, but the job runs on machines {self._machines[event.job]}")

    def _outage(self, event: EventRow) -> None:
        if event.kind == "repair":
            self._down.discard(event.machine)
            return
        self._down.add(event.machine)
        since, failed = self._failed
        self._failed = (event.time_s, failed if since == event.time_s else set())
        self._failed[1].add(event.machine)

    def _start(self, event: EventRow, job: JobRow) -> None:
        size = sum(gpus for _, gpus in event.parts)
        if size not in job.sizes or any(gpus < 1 for _, gpus in event.parts):
            raise InvariantError("gang", f"{event} for a job of {job.sizes} GPUs")
        if event.kind == "resize" and size == self._sizes[event.job]:
            raise InvariantError("gang", f"{event} leaves the job at {size} GPUs")
        self._sizes[event.job] = size
        for machine, gpus in event.parts:
            if machine in self._down:
                raise InvariantError("capacity", f"{event}: machine {machine} is down")
            free = [gpu for gpu, owner in enumerate(self._owner[machine]) if owner < 0]
            if len(free) < gpus:
                raise InvariantError("capacity", f"{event}: machine {machine} has {len(free)} GPUs free")
            for gpu in free[:gpus]:
                self._owner[machine][gpu] = event.job
        self._check_place(event, job)
        self._status[event.job] = "running"
        self._machines[event.job] = [machine for machine, _ in event.parts]
        self._placed_s[event.job] = event.time_s
        self._starts[event.job] += 1
        if self._first_s[event.job] < 0:
            self._first_s[event.job] = event.time_s

    def _check_place(self, event: EventRow, job: JobRow) -> None:
        """The job may be there, and all that runs has what it needs."""
        names, capacities = self._record.machine_names, self._record.capacities
        self._parts[event.job] = event.parts
        problem = misplaced(job.spec, event.parts, names, capacities) or overbooked(
            [(self._record.jobs[number].spec, parts) for number, parts in self._parts.items()], names, capacities
        )
        if problem:
            raise InvariantError("constraints", f"{event}: {problem}")

    def _end(self, event: EventRow, job: JobRow) -> None:
        if event.kind in self._counts[event.job]:
            self._counts[event.job][event.kind] += 1
        if event.kind == "renew":
            return
        since, failed = self._failed
        by_failure = since == event.time_s and failed & set(self._machines[event.job])
        if event.kind == "evict" and not by_failure and not event.reason:
            raise InvariantError("once", f"{event}, but no machine of the job failed")
        for machine in set(self._machines[event.job]):
            self._owner[machine] = [-1 if owner == event.job else owner for owner in self._owner[machine]]
        self._parts.pop(event.job, None)
        self._run_s[event.job] += event.time_s - self._placed_s[event.job]
        self._held_gpu_s += (event.time_s - self._placed_s[event.job]) * self._sizes[event.job]
        self._status[event.job] = {"finish": "finished", "cancel": "cancelled"}.get(event.kind, "waiting")
        if event.kind == "start_failed" and self._first_s[event.job] == self._placed_s[event.job]:
            self._first_s[event.job] = -1.0
        if event.kind == "finish" and event.time_s != job.finish_s:
            raise InvariantError("once", f"{event}, but the job says it finished at {job.finish_s}")
        if event.kind in ("migrate", "resize"):
            self._start(event, job)

    def _check_down(self) -> None:
        """Nobody sits on a failed machine once the instant of its failure is over."""
        for machine in self._down:
            if any(owner >= 0 for owner in self._owner[machine]):
                raise InvariantError("capacity", f"machine {machine} is down and in use after {self._now}")

    def close(self) -> None:
        """What must hold at the end."""
        self._check_down()
        accounted_gpu_s = 0.0
        for index, job in enumerate(self._record.jobs):
            if self._status[index] == "running":
                self._run_s[index] += self._record.end_s - self._placed_s[index]
                self._held_gpu_s += (self._record.end_s - self._placed_s[index]) * self._sizes[index]
            self._agree(index, job)
            self._conserve(index, job)
            accounted_gpu_s += job.accounted_gpu_s
        self._check_served()
        if not _close(self._held_gpu_s, accounted_gpu_s):
            problem = f"{self._held_gpu_s} GPU-s held, {accounted_gpu_s} GPU-s accounted for"
            raise InvariantError("conservation", problem)

    def _check_served(self) -> None:
        """A run that went on until nothing more could happen finished every job that the cluster could hold."""
        if not self._record.complete or self._down:
            return
        for index, job in enumerate(self._record.jobs):
            if job.fits and job.status not in ("finished", "cancelled"):
                raise InvariantError("starvation", f"job {index} could have run, and is {job.status}")

    def _agree(self, index: int, job: JobRow) -> None:
        """The engine's own account of a job is that of the log."""
        counts = self._counts[index]
        seen = (
            self._status[index], self._first_s[index], counts["preempt"], counts["renew"], counts["migrate"],
            counts["resize"],
        )  # fmt: skip
        record = (job.status, job.start_s, job.preemptions, job.renewals, job.migrations, job.resizes)
        if seen != record:
            raise InvariantError("once", f"job {index}: the log says {seen}, the engine {record}")
        if not _close(self._run_s[index], job.run_s):
            raise InvariantError("conservation", f"job {index}: ran {self._run_s[index]} s, told {job.run_s} s")

    def _conserve(self, index: int, job: JobRow) -> None:
        """Time with GPUs is work, communication or overhead; and a finished job did all its work."""
        record = job.compute_s + job.comm_s + job.overhead_s
        if not _close(self._run_s[index], record):
            raise InvariantError("conservation", f"job {index}: ran {self._run_s[index]} s, accounts for {record}")
        if _below(job.duration_s, job.work_s):
            raise InvariantError("conservation", f"job {index}: did {job.work_s} of {job.duration_s} s")
        counts = self._counts[index]
        losses = sum(counts.values()) - counts["renew"]
        if self._starts[index] != losses + (job.status in ("running", "finished")):
            raise InvariantError("once", f"job {index}: {self._starts[index]} starts do not fit {counts}")
        restarts = max(0, self._starts[index] - 1)
        if job.status == "finished" and not counts["start_failed"]:
            # With no network each second of work takes a second, and the last start ran to the end.
            rigid = len(job.sizes) == 1
            if rigid and job.comm_s == 0.0 and not _close(job.compute_s, job.duration_s):
                raise InvariantError("conservation", f"job {index}: computed {job.compute_s} of {job.duration_s} s")
            if restarts and _below(job.overhead_s, job.restart_s):
                raise InvariantError("conservation", f"job {index}: {restarts} restarts cost {job.overhead_s} s")
            if not restarts and job.overhead_s > CLOSE:
                raise InvariantError("conservation", f"job {index}: no restart cost {job.overhead_s} s")


def _check_bounds(record: RunRows) -> None:
    """No run beats the lower bounds, which count the work of all."""
    done = [job for job in record.jobs if job.status == "finished"]
    if not done or any(job.status == "cancelled" for job in record.jobs):
        return
    makespan_s = max(job.finish_s for job in done) - min(job.submit_s for job in done)
    jct_s = sum(job.finish_s - job.submit_s for job in done) / len(done)
    if _below(makespan_s, record.makespan_bound_s):
        raise InvariantError("bounds", f"makespan {makespan_s} s is below {record.makespan_bound_s} s")
    if _below(jct_s, record.jct_bound_s):
        raise InvariantError("bounds", f"mean JCT {jct_s} s is below {record.jct_bound_s} s")
    for job in done:
        if _below(job.finish_s - job.submit_s, job.least_s):
            raise InvariantError("bounds", f"a job of {job.least_s} s took {job.finish_s - job.submit_s} s")


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= CLOSE * max(1.0, abs(a), abs(b))


def _below(value: float, bound: float) -> bool:
    return value < bound and not _close(value, bound)
