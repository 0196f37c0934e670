"""From the jobs of `squeue --json` to the jobs of the contract."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from dally.cluster.formats.hostlist import expand_list
from dally.job_spec import JobSpec
from dally.live.backends import base
from dally.live.backends.base import ObservedJob
from dally.live.backends.slurm.job_mark import number_in
from dally.live.backends.slurm.job_record import (
    FINAL,
    HELD_BY_OPERATOR,
    STOPPING,
    JobRecord,
    number,
    placement_in,
    text_of,
)
from dally.live.backends.slurm.job_request import machine_request, spec_of, unmodelled_shape
from dally.live.backends.slurm.job_sizes import sizes_of
from dally.live.backends.slurm.left_alone import OTHER_PARTITION, SHARED, left_alone, left_note, why_left_alone
from dally.live.backends.slurm.original import original_of
from dally.live.backends.slurm.partition_choice import PartitionChoice
from dally.sizes import read_sizes

# Reasons of a released job that Slurm's own rules keep from starting: how they begin. A job that only waits for its
# GPUs has another: None, Priority, Resources, or BeginTime after it was requeued.
BLOCKING = (
    "QOS", "Assoc", "MaxJobs", "Licenses", "Reservation", "ReqNodeNotAvail", "Partition", "JobArrayTaskLimit",
    "BadConstraints", "AccountNotAllowed", "Invalid", "Nodes_required_for_job", "BurstBuffer", "JobHoldMaxRequeue",
    "NodeDown", "DeadLine",
)  # fmt: skip
ARRAY_LIMIT = "JobArrayTaskLimit"
NOT_AVAILABLE = "ReqNodeNotAvail"
TOO_LATE = "DeadLine"
FAILED_DEPENDENCY = "(failed)"
RESERVED = "reserved"  # as Slurm describes it where a reservation keeps the nodes
# For how long Slurm keeps a requeued job from starting: its credentials' life, 2 minutes unless set otherwise.
REQUEUE_DELAY_S = 900.0
# A requeued job must not start in the second it was stopped in: the node would take the new order for the old one,
# whose credential is revoked, and Slurm ends the job for good.
REST_S = 1.2


class JobReader:
    """Turns records into jobs of the contract."""

    def __init__(self, partitions: frozenset[str], machine_gpus: int, simulate_hold: bool = False) -> None:
        """`machine_gpus`: of the largest machine, where a job's own are not known. No partitions: all of them.

        `simulate_hold`: jobs without our mark count as if they had come with it, and held.
        """
        self._partitions = partitions
        self._simulate_hold = simulate_hold
        self.machine_gpus = machine_gpus
        self.partitions = PartitionChoice()
        self.unused_sizes: dict[str, str] = {}  # jobs whose stated sizes have no effect, and why
        self._back: dict[str, tuple[int, float]] = {}  # requeued jobs: how often, and since when it is known

    def job(self, record: JobRecord, facts: JobSpec, now_s: float) -> ObservedJob:
        """The job; `now_s` is the present, by which a date lies ahead or behind."""
        managed = self._managed(record)
        state, reason = _state(record, managed, now_s)
        if state == base.BLOCKED and self._is_passed_over(record, reason):
            state = base.STARTING
        if record.pending and not managed:
            reason = self.left_to_slurm(record) or reason
        if self._rests(record) and state == base.QUEUED:
            state = base.STOPPING
        placement = {} if state in base.ENDED or record.pending else placement_in(record.row)
        if state == base.STARTING and placement:
            state = base.RUNNING  # its nodes are its own, and boot or run a prolog, which may take many minutes
        if record.paused and not placement:
            state = base.STOPPING  # it was paused to be requeued, and has left
        spec = spec_of(record, facts, self._machine_gpus(record), self.partitions.defaults_of(record.partition))
        spec, sizes = self._with_sizes(record, spec)
        held = sum(placement.values())
        # It lost a node, and was submitted with --no-kill.
        shrunk = state == base.RUNNING and held < spec.gpus and held not in sizes
        if placement and (shrunk or number_in(record.mark, "gpus") is None):
            spec = replace(spec, gpus=held, gpus_per_node=0, nodes_min=0, nodes_max=0, group=1, sizes="")
        submit_s = float(number_in(record.mark, "submit") or number(record.row.get("submit_time")))
        return ObservedJob(
            record.job_id, state, spec, submit_s, placement, managed, reason, self.partitions.allowed(spec),
            restarts=number(record.row.get("restart_cnt")), resizable=bool(spec.sizes),
        )  # fmt: skip

    def _with_sizes(self, record: JobRecord, spec: JobSpec) -> tuple[JobSpec, tuple[int, ...]]:
        """The job with the sizes that it may run on, which are also given as numbers."""
        stated = sizes_of(record, spec, self._machine_gpus(record))
        if stated.problem and not record.ended:
            self.unused_sizes[record.job_id] = stated.problem
        if not stated.sizes:
            return (replace(spec, sizes="") if spec.sizes else spec), ()
        spec = replace(spec, sizes=stated.sizes, nodes_min=stated.nodes_min, nodes_max=stated.nodes_max)
        return spec, read_sizes(stated.sizes, spec.gpus)

    def left_to_slurm(self, record: JobRecord) -> str:
        """Why Dally does not schedule the job, in words; empty: it does, or the job is from before the set-up."""
        name = self.unmodelled(record) or left_note(text_of(record.row, "admin_comment"))
        return why_left_alone(name) if name else ""

    def unmodelled(self, record: JobRecord) -> str:
        """The name of what Dally does not model of the job; empty: nothing."""
        partitions = original_of(record)["partition"].split(",")
        if self._partitions and not self._partitions.issuperset(partitions):
            return OTHER_PARTITION
        if any(self.partitions.rule_of(name).one_user for name in partitions):
            return SHARED
        return left_alone(record.row) or unmodelled_shape(record, self._machine_gpus(record))

    def as_its_partition_has_it(self, record: JobRecord) -> JobRecord:
        """The job with whole machines, if its partition gives no others."""
        if record.whole_machines or not self.partitions.rule_of(record.partition).whole_machines:
            return record
        return replace(record, row={**record.row, "shared": "none"})

    def _machine_gpus(self, record: JobRecord) -> int:
        """Of the largest machine that the job may use, as far as known."""
        return self.partitions.largest(machine_request(record)) or self.machine_gpus

    def _is_passed_over(self, record: JobRecord, reason: str) -> bool:
        """A released job that Slurm will look at again, and no limit keeps.

        Slurm passes over all nodes of a partition in which a job ahead cannot start, for jobs of other partitions
        too, and over a node that is silent for a moment. Both say the same as a node that is closed.
        """
        if not (record.released and reason.startswith(NOT_AVAILABLE)):
            return False
        if RESERVED in text_of(record.row, "state_description"):
            return False
        nodes = text_of(record.row, "required_nodes")
        return bool(nodes) and self.partitions.closed.isdisjoint(expand_list(nodes))

    def _rests(self, record: JobRecord) -> bool:
        """It was requeued a moment ago, by our own clock that never jumps."""
        restarts = number(record.row.get("restart_cnt"))
        if not record.pending or not restarts:
            self._back.pop(record.job_id, None)
            return False
        if self._back.get(record.job_id, (0, 0.0))[0] != restarts:
            self._back[record.job_id] = (restarts, time.monotonic())
        return time.monotonic() - self._back[record.job_id][1] < REST_S

    def _managed(self, record: JobRecord) -> bool:
        """Ours to start and stop: it came with our mark, Dally models it, and it can be requeued if it runs."""
        if (record.mark is None and not self._simulate_hold) or self.unmodelled(record):
            return False
        return record.pending or (bool(record.row.get("batch_flag")) and bool(record.row.get("requeue")))


def slurm_now_s(rows: Iterable[dict[str, Any]], now_s: float) -> float:
    """The present by slurmctld's clock as far as its jobs show it, where ours (`now_s`) is behind."""
    fields = ("submit_time", "last_sched_evaluation")
    return max(now_s, *(number(row.get(field)) for row in rows for field in fields), 0.0)


def throttled(jobs: Iterable[ObservedJob], records: Mapping[str, JobRecord]) -> list[ObservedJob]:
    """The same with tasks blocked that their array's limit (--array=0-9%2) does not let start now."""
    every = list(jobs)
    active: Counter[str] = Counter()
    for job in every:
        if job.state in (base.STARTING, base.RUNNING, base.STOPPING) or job.placement:
            active[records[job.job_id].script_id] += 1
    result = []
    for job in every:
        record = records[job.job_id]
        most = number(record.row.get("array_max_tasks"))
        if most and job.state == base.QUEUED:
            active[record.script_id] += 1
            if active[record.script_id] > most:
                job = replace(job, state=base.BLOCKED, reason=ARRAY_LIMIT)
        result.append(job)
    return result


def _state(record: JobRecord, managed: bool, now_s: float) -> tuple[str, str]:
    """The state by the contract, and why it is so in Slurm's words."""
    row, states = record.row, record.states
    reason = text_of(row, "state_reason")
    if states & STOPPING:
        return base.STOPPING, ""
    if "CONFIGURING" in states:
        return base.STARTING, ""
    for token in states:
        if token in FINAL:
            return FINAL[token], token if reason in ("", "None") else f"{token}, {reason}"
    if not record.pending:
        return (base.HELD, "SPECIAL_EXIT") if "SPECIAL_EXIT" in states else (base.RUNNING, "")
    if not managed:
        return base.HELD, "Slurm's own scheduler looks after it" if record.released else reason
    if record.mark is None:
        return _as_if_held(record, reason, now_s)
    if record.released and not _is_too_late(row, now_s):
        return (base.BLOCKED if reason.startswith(BLOCKING) else base.STARTING), reason
    return _waits_for(row, reason, now_s)


def _as_if_held(record: JobRecord, reason: str, now_s: float) -> tuple[str, str]:
    """Of a job that Slurm may start by itself, in a dry run: as if Dally held it. Whoever else holds it counts."""
    if not record.released:
        return base.HELD, reason
    if reason.startswith(BLOCKING):
        return base.BLOCKED, reason
    return _waits_for(record.row, reason, now_s)


def _waits_for(row: dict[str, Any], reason: str, now_s: float) -> tuple[str, str]:
    dependency = text_of(row, "dependency")
    if FAILED_DEPENDENCY in dependency:  # Slurm holds such a job itself, as if an operator had
        return base.HELD, f"DependencyNeverSatisfied {dependency}"
    if reason == HELD_BY_OPERATOR:
        return base.HELD, reason
    if dependency:
        return base.HELD, f"Dependency {dependency}"
    begin_s, submit_s = number(row.get("eligible_time")), number(row.get("submit_time"))
    requeued = number(row.get("restart_cnt")) and begin_s - submit_s <= REQUEUE_DELAY_S
    if begin_s > now_s + 1.0 and begin_s > submit_s and not requeued:
        return base.HELD, "BeginTime"
    return (base.BLOCKED, TOO_LATE) if _is_too_late(row, now_s) else (base.QUEUED, "")


def _is_too_late(row: dict[str, Any], now_s: float) -> bool:
    """Whether it can no longer end before its deadline, for a second: Slurm ends such a job when it looks at it."""
    deadline_s, minutes = (
        number(row.get("deadline")),
        number(row.get("time_minimum")) or number(row.get("time_limit")),
    )
    return 0 < deadline_s < now_s - 1.0 + 60.0 * minutes
