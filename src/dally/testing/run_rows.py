"""A run as plain rows, so that its checks share no code with the engine that made it."""

from __future__ import annotations

from dataclasses import dataclass

from dally.engine.simulate import Simulation
from dally.engine.state import State
from dally.metrics.simulated import Simulated
from dally.metrics.summary import summarize
from dally.model import KIND_NAMES, STATUS_NAMES, Job


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


@dataclass
class RunRows:
    """Everything a run left behind."""

    machine_gpus: list[int]
    jobs: list[JobRow]
    events: list[EventRow]
    end_s: float
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
        jobs=[
            JobRow(
                submit_s=job.submit_s,
                gpus=int(job.gpus),
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
        makespan_bound_s=summary["makespan_bound_s"],
        jct_bound_s=summary["jct_bound_s"],
    )


def _least_restart_s(state: State, job: Job) -> float:
    usual_s = state.costs.gang_restart_s(int(job.gpus))
    return min(usual_s, state.policy.suspend_s)
