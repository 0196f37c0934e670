"""The Slurm backend: a few calls for a snapshot, orders beside the cycles, all of it read back."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dally.cluster.topology import Topology
from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.live.backends import base
from dally.live.backends.base import (
    BackendError,
    ClusterClaim,
    JobByJob,
    Observed,
    ObservedJob,
    ObservedMachine,
    Placement,
    ProgressSource,
    Publication,
    StartOrder,
    Submission,
)
from dally.live.backends.slurm.comments import WaitingComments
from dally.live.backends.slurm.job_facts import facts_of_comment, facts_of_mark, facts_of_script
from dally.live.backends.slurm.job_logs import sources_of
from dally.live.backends.slurm.job_mark import with_mark
from dally.live.backends.slurm.job_record import FINAL, JobRecord, placement_in, records_of, unusual
from dally.live.backends.slurm.job_sizes import start_arguments
from dally.live.backends.slurm.jobs_json import JobReader, slurm_now_s, throttled
from dally.live.backends.slurm.lease import HeldLease, Lease, leases
from dally.live.backends.slurm.mark_memory import MarkMemory
from dally.live.backends.slurm.nodes_json import cluster_shape, less_ours, machines_of, threads_of
from dally.live.backends.slurm.order_checks import (
    RAN_NOWHERE,
    check_free,
    check_permitted,
    free_gpus,
    held_again,
    too_late,
    with_orders,
)
from dally.live.backends.slurm.partition_choice import job_defaults
from dally.live.backends.slurm.preempter import Preempter, all_or_each, finish_paused
from dally.live.backends.slurm.requeue_holds import RequeueHolds
from dally.live.backends.slurm.rollback import Rollback
from dally.live.backends.slurm.shown_limits import SHOW, ShownLimits
from dally.live.backends.slurm.shown_topology import NO_GPUS, ShownSwitches, topology_of
from dally.live.backends.slurm.starter import Starter, StartRequest
from dally.live.backends.slurm.submit_arguments import sbatch_arguments, script_of
from dally.live.backends.slurm.survey import Survey, survey
from dally.live.backends.slurm.tools import Tools
from dally.live.backends.stated_facts import NOTHING_STATED, read_facts

POLL_S = 1.0
BUSY_POLL_S = 0.2  # while jobs come and go: GPUs stand idle until an end is noticed
BUSY_S = 10.0  # after the latest change
LOOK_SHARE = 0.2  # of the time at most goes into such looks
IDENTITY = r"^(?:ClusterName|SlurmctldHost\S*|SlurmctldPort)\s*=\s*(.*)$"
RESUMED_WITHIN_S = 3.0
PAUSE_S = 0.2
SUBMITTED = {"read": "1"}  # note of a job that we submit: all that is stated of it is in its comment
READERS = 4  # scripts read at a time
QUIET_S = 300.0  # without a snapshot: the daemon no longer schedules, and its lease may expire
ONE_ORDER_WITHIN_S = 60.0


class SlurmBackend(JobByJob):
    """A cluster under Slurm. Jobs wait in it held; this alone releases them, with the machines to run on.

    An operator's `scontrol hold` keeps a job from us: our own holds are those of its user (`uhold`).
    """

    name = "slurm"
    resizes = True
    logs_per_s = 100.0
    answers_at_once = False
    concurrent = True

    def __init__(
        self, partitions: Sequence[str] = (), conf: str = "", timeout_s: float = 10.0, simulate_hold: bool = False
    ) -> None:
        """No partitions: all of them. `conf`: the path of slurm.conf, if not the usual one.

        `simulate_hold`: jobs are reported as if job_submit.lua had been there when they came, for a dry run.
        """
        self._tools = Tools(conf, timeout_s)
        self._partitions = frozenset(partitions)
        self._reader = JobReader(self._partitions, 1, simulate_hold)
        self._generation = 0
        self._shape: frozenset[tuple[object, ...]] = frozenset()  # of the cluster, as of the latest snapshot
        self._switches = ""  # as of the latest snapshot
        self._shown_switches = ShownSwitches()
        self._limits = ShownLimits()
        self._counts_memory: bool | None = None  # whether Slurm counts memory; None: not known yet
        self._records: dict[str, JobRecord] = {}
        self._ordered: set[str] = set()  # jobs that were ordered to start since then
        self._latest = Observed((), ())
        self._snapshot_s = time.monotonic()  # at the latest snapshot
        self._facts: dict[tuple[str, str], tuple[JobSpec, list[str]]] = {}  # and problems, by job and comment
        self._print = "", ""  # jobs and nodes, as last looked at
        self._nodes_due_s = 0.0  # when nodes are looked at again
        self._changed_s = -BUSY_S  # when that was last another
        self._lease: Lease | None = None
        self._starter = Starter(self._tools, self._check_lease)
        self._preempter = Preempter(self._tools, self._check_lease, self._starter.drop)
        self._left_paused: set[str] | None = None  # by an earlier daemon; None: not known yet
        self._snapshot_lock = threading.Lock()
        self._comments = WaitingComments()
        self._marks = MarkMemory()
        self._requeue_holds = RequeueHolds()

    @property
    def generation(self) -> int:
        """How often nodes came or went, had other GPUs, switches or partitions; one that is down keeps its own."""
        return self._generation

    def identity(self) -> str:
        """The cluster's name and its controller, as slurm.conf has them."""
        return " ".join(re.findall(IDENTITY, self._config(), re.MULTILINE))

    def topology(self) -> Topology:
        """From `scontrol show topology` and the nodes' Gres."""
        self._shown_switches.look_soon()
        machines = self._cluster()
        try:
            return topology_of(self._switches, machines, self._reader.partitions.members)
        except InputError as error:
            raise BackendError(str(error)) from None

    def snapshot(self) -> Observed:
        """How things stand, by one `squeue` and one `sinfo`; now and then `scontrol` for what changes rarely."""
        with self._snapshot_lock:
            return self._snapshot()

    def _snapshot(self) -> Observed:
        self._ordered = set()
        starting = self._starter.in_flight()
        released = self._starter.released()
        refused, unanswered = self._starter.outcomes()
        stopping = self._preempter.in_flight()
        rows = self._tools.rows("jobs", "squeue", "--json")
        problems: list[str] = []
        self._limits.look(self._tools, problems)
        machines = self._cluster()
        self._reader.machine_gpus = max(machine.gpus for machine in machines)
        reservations = self._limits.reservations(frozenset(machine.name for machine in machines))
        self._reader.partitions.update(self._limits.partitions(), machines, reservations)
        records: list[JobRecord] = []
        for row in rows:
            with unusual(row, problems):
                records += map(self._reader.as_its_partition_has_it, records_of([row]))
        records = self._marks.restored(records)
        self._read_facts(records)
        now_s = slurm_now_s(rows, time.time())
        before, self._records = self._records, {record.job_id: record for record in records}
        self._requeue_holds.look(self._records, before, stopping)
        refused |= {job_id: RAN_NOWHERE for job_id in released if held_again(self._records.get(job_id))}
        jobs: list[ObservedJob] = []
        self._reader.unused_sizes.clear()
        for record in records:
            with unusual(record.row, problems):
                job = self._reader.job(record, self._facts[_facts_key(record)][0], now_s)
                jobs.append(self._requeue_holds.apply_to(with_orders(job, starting.keys(), refused, stopping)))
        jobs = throttled(jobs, self._records)
        self._marks.remember(self._records, (job.job_id for job in jobs if job.managed))
        self._facts = {key: self._facts[key] for key in map(_facts_key, records)}
        problems += [problem for _, result in self._facts.values() for problem in result]
        problems += [f"job {job_id}: {why}" for job_id, why in self._reader.unused_sizes.items()]
        problems += [f"start of job {job_id}: {why}" for job_id, why in refused.items()] + unanswered
        problems += self._preempter.take_failures()
        machines = self._reader.partitions.with_cpu_limits(less_ours(machines, jobs), jobs)
        self._latest = Observed(
            tuple(jobs), tuple(machines), tuple(problems), self.term, reservations, self._limits.licences(jobs)
        )
        self._reader.partitions.free_gpus = free_gpus(self._latest)
        self._snapshot_s = time.monotonic()
        return self._latest

    def start(self, orders: Sequence[StartOrder], term: int) -> list[str]:
        """Checked against the latest snapshot here, and carried out beside the cycles."""
        self.check_term(term)
        answers, requests = [], []
        promised = self._starter.in_flight()
        for order in orders:
            try:
                request = self._start_request(order, promised)
            except BackendError as error:
                answers.append(str(error))
                continue
            answers.append("")
            if request is not None:
                requests.append(request)
                promised[order.job_id] = order.placement
                self._ordered.add(order.job_id)
        self._starter.add(requests)
        return answers

    def start_job(self, job_id: str, placement: Placement) -> None:
        """One start, carried out when this returns."""
        self._record(job_id)
        (why,) = self.start([StartOrder(job_id, placement)], self.term)
        if why:
            raise BackendError(why)
        self._starter.wait_idle(ONE_ORDER_WITHIN_S)

    def _start_request(self, order: StartOrder, promised: dict[str, Placement]) -> StartRequest | None:
        """What to tell Slurm; None: nothing, it was told or has started."""
        job_id, placement = order
        record = self._record(job_id)
        entry = next(job for job in self._latest.jobs if job.job_id == job_id)
        if promised.get(job_id) == placement or (entry.placement == placement and entry.state == base.RUNNING):
            return None
        if entry.state not in (base.QUEUED, base.STARTING):
            raise BackendError(f"job {job_id} cannot be started: it is {entry.state} {entry.reason}".rstrip())
        check_permitted(entry, placement)
        check_free(entry, placement, free_gpus(self._latest, job_id, promised))
        partition = self._reader.partitions.setting(entry.spec, placement)
        return StartRequest(job_id, (*partition, *start_arguments(record, entry, placement)), dict(placement))

    def preempt(self, jobs: Sequence[str], term: int) -> list[str]:
        """SIGTERM reaches the script, which has KillWait seconds; the job is then pending and held."""
        self.check_term(term)
        known = zip(jobs, base.answers(self._record, jobs), strict=True)
        result = [why or self._preempter.refusal(job_id) for job_id, why in known]
        due = (job_id for job_id, why in zip(jobs, result, strict=True) if not why)
        self._preempter.add(self._requeue_holds.ordered(due))
        return result

    def preempt_job(self, job_id: str) -> None:
        """One, requeued when this returns."""
        self._record(job_id)
        self._preempter.add(self._requeue_holds.ordered([job_id]))
        self._preempter.wait_idle(ONE_ORDER_WITHIN_S)

    def cancel_job(self, job_id: str) -> None:
        """By scancel."""
        self._starter.drop(job_id)
        self._preempter.wait_idle(ONE_ORDER_WITHIN_S)
        if self._preempter.states([job_id]).get(job_id) not in FINAL:
            self._check_lease()
            self._tools.run("scancel", job_id)

    def retry(self, job_id: str) -> None:
        """By scontrol: the job is pending and held, as one that was preempted."""
        state = self._preempter.states([job_id]).get(job_id, "unknown")
        if FINAL.get(state) != base.FAILED:
            raise BackendError(f"job {job_id} has not failed: it is {state}")
        self._check_lease()
        self._tools.run("scontrol", "requeuehold", *self._requeue_holds.ordered([job_id]))

    def drain(self, machine: str, why: str) -> None:
        """By scontrol; `sinfo -R` tells why."""
        self._machine(machine)
        self._tools.run("scontrol", "update", f"NodeName={machine}", "State=DRAIN", f"Reason={why}")

    def resume(self, machine: str) -> None:
        """By scontrol, if it does not take jobs already."""
        until_s = time.monotonic() + RESUMED_WITHIN_S
        while self._machine(machine).state != base.UP:
            try:
                self._tools.run("scontrol", "update", f"NodeName={machine}", "State=RESUME")
                return
            except BackendError:  # it may be on its way: a node that was just resumed has yet to answer
                if time.monotonic() > until_s:
                    raise
            time.sleep(PAUSE_S)

    def submit(self, request: Submission) -> str:
        """By sbatch, held, and with our note, which job_submit.lua writes only where it is set up."""
        job_id = self._tools.run(*sbatch_arguments(request), stdin=script_of(request)).strip().split(";")[0]
        try:
            self._tools.run("scontrol", "update", f"JobId={job_id}", f"AdminComment={with_mark('', SUBMITTED)}")
        except BackendError:
            self._tools.run("scancel", job_id)
            raise
        return job_id

    def wait(self, timeout_s: float) -> None:
        """Until another job or node has another state: looked at more often where that was so a moment ago."""
        until_s = time.monotonic() + timeout_s
        while True:
            began_s = time.monotonic()
            try:
                result = self._tools.run("squeue", "-h", "-a", "-t", "all", "-o", "%i %T %Q"), self._shown_nodes()
            except BackendError:
                result = self._print
            now_s = time.monotonic()
            if result != self._print:
                self._print, self._changed_s = result, now_s
                return
            if now_s >= until_s:
                return
            busy_s = max(BUSY_POLL_S, (now_s - began_s) / LOOK_SHARE)
            pause_s = min(POLL_S, busy_s) if now_s - self._changed_s < BUSY_S else POLL_S
            time.sleep(min(pause_s, until_s - now_s))

    def _shown_nodes(self) -> str:
        """Their states, once a second: those of jobs say when GPUs fall free."""
        if time.monotonic() < self._nodes_due_s:
            return self._print[1]
        self._nodes_due_s = time.monotonic() + POLL_S
        return self._tools.run("sinfo", "-h", "-N", "-o", "%N %T")

    def publish(self, publication: Publication) -> None:
        """Users see why their jobs wait by `squeue -O admin_comment`; written when no start is due."""
        starting = self._ordered | self._starter.in_flight().keys()
        comments = self._comments.due(publication, self._records, starting)
        if comments:
            self._starter.comment(comments)

    def progress_sources(self) -> tuple[ProgressSource, ...]:
        """What batch scripts print, where this machine has the file and its owner is the job's user."""
        return sources_of(self._latest.jobs, self._records)

    # For operators and for jobs.

    def conf_path(self) -> str:
        """The slurm.conf that slurmctld reads."""
        result = re.search(r"^SLURM_CONF\s*=\s*(\S+)", self._config(), re.MULTILINE)
        if result is None:
            raise BackendError("scontrol show config does not say where slurm.conf is")
        return result.group(1)

    def reconfigure(self) -> None:
        """Have slurm.conf read again."""
        self._tools.run("scontrol", "reconfigure")

    def rollback(self) -> Rollback:
        """Every job as its user submitted it."""
        return Rollback(self._tools)

    def survey(self) -> Survey:
        """Which jobs are ours, and which are left to Slurm."""
        shown = self._tools.run(*SHOW, "partition")
        self._reader.partitions.update(shown, self._machines(), ())
        return survey(self._tools.rows("jobs", "squeue", "--json"), self._reader)

    def leases(self) -> list[HeldLease]:
        """Which daemons lead or led."""
        return leases(self._tools)

    def complete(self) -> list[str]:
        """Give jobs back to Slurm that Dally does not model or that are too late; requeue those left paused."""
        left = self._take_up() + self._requeue_holds.write(self._tools, self._check_lease)
        late = too_late(self._latest.jobs, self._records)
        if late:
            self._check_lease()
            left += all_or_each(self._tools, ("scontrol", "release"), late, "release")
        if self._marks.has_lost:
            self._check_lease()
            left += self._marks.write(self._tools)
        others = (self._records[job.job_id] for job in self._latest.jobs if not job.managed)
        strays = [record.job_id for record in others if record.pending and record.mark is not None]
        if not strays:
            return left
        self._check_lease()
        rollback = Rollback(self._tools, lambda record: record.pending and bool(self._reader.unmodelled(record)))
        return left + rollback.carry_out(rollback.plan())

    def _take_up(self) -> list[str]:
        """An earlier daemon may have died while it stopped jobs: they are requeued, however often that takes."""
        managed = {job.job_id for job in self._latest.jobs if job.managed}
        paused = {name for name, record in self._records.items() if record.paused and name in managed}
        self._left_paused = paused if self._left_paused is None else self._left_paused & paused
        due = self._left_paused - self._preempter.in_flight()
        if not due:
            return []
        self._check_lease()
        return finish_paused(self._tools, sorted(self._requeue_holds.ordered(due)))

    # Who leads.

    @property
    def term(self) -> int:
        """Of the lease; 0: there is none, and the lock of this host must do."""
        return self._lease.term if self._lease is not None else 0

    def check_term(self, term: int) -> None:
        """A BackendError if another daemon leads, as far as known: every order asks Slurm itself."""
        super().check_term(term)
        if self._lease is not None:
            self._lease.check_known()

    def take_lease(self, memory: Path) -> ClusterClaim:
        """Be the only daemon of all hosts to schedule this cluster, or wait until that is so."""
        node = self._machines()[0].name
        self._lease = Lease(self._tools, node, self._is_scheduling, memory)
        return self._lease

    def close(self) -> None:
        """Carry out no more starts; jobs run on."""
        self._starter.close()
        self._preempter.close()

    def _is_scheduling(self) -> bool:
        return time.monotonic() - self._snapshot_s < QUIET_S

    def _check_lease(self) -> None:
        if self._lease is not None:
            self._lease.check()

    def hosts(self, job_id: str) -> Placement:
        """The GPUs of a running job by machine, in the order of the fabric."""
        rows = self._tools.rows("jobs", "squeue", "--json")
        held = next((placement_in(row) for row in rows if str(row["job_id"]) == job_id), {})
        if not held:
            raise BackendError(f"job {job_id} has no GPUs")
        return {name: held[name] for name in self.topology().names[0] if name in held}

    # What was read.

    def _config(self) -> str:
        return self._tools.run("scontrol", "show", "config")

    def _machines(self) -> list[ObservedMachine]:
        rows = self._tools.nodes()
        if self._counts_memory is None:
            self._read_config(threads_of(rows))
        machines = machines_of(rows, self._partitions, bool(self._counts_memory), self._limits.reserved_nodes())
        self._reader.partitions.see_nodes(rows, frozenset(machine.name for machine in machines))
        return machines

    def _read_config(self, threads: int) -> None:
        """What slurm.conf says of CPUs and memory; `threads`: of a core."""
        lines = re.findall(r"^(SelectTypeParameters|JobDefaults)\s*=\s*(\S*)", self._config(), re.MULTILINE)
        config = dict(lines)
        self._counts_memory = "MEMORY" in config.get("SelectTypeParameters", "").upper()
        self._reader.partitions.defaults = job_defaults(config.get("JobDefaults", ""))._replace(threads=threads)

    def _cluster(self) -> list[ObservedMachine]:
        """The machines, with an eye on whether they and their switches are the same as before."""
        machines = self._machines()
        if not machines:
            raise BackendError(NO_GPUS)
        shape = cluster_shape(machines, self._reader.partitions.members)
        switches = self._shown_switches.latest(self._tools)
        self._generation += bool(self._shape) and (shape != self._shape or switches != self._switches)
        self._shape, self._switches = shape, switches
        return machines

    def _machine(self, name: str) -> ObservedMachine:
        """As it is now: a name of Slurm's may also stand for several nodes."""
        result = [machine for machine in self._machines() if machine.name == name]
        if not result:
            raise BackendError(f"there is no machine {name} with GPUs in these partitions")
        return result[0]

    def _record(self, job_id: str) -> JobRecord:
        if job_id not in self._records:
            self.snapshot()
        if job_id not in self._records:
            raise BackendError(f"there is no job {job_id}")
        return self._records[job_id]

    def _read_facts(self, records: Sequence[JobRecord]) -> None:
        """Facts of jobs that are new: from the comment, our note, or the script, which costs a call."""
        scripts: list[JobRecord] = []
        for record in records:
            key = _facts_key(record)
            if key in self._facts:
                continue
            if record.states & FINAL.keys():
                self._facts[key] = NOTHING_STATED, []
                continue
            problems: list[str] = []
            stated = facts_of_comment(key[1], problems)
            if stated is None and record.mark is not None and "read" in record.mark:
                stated = read_facts(
                    facts_of_mark(record.mark), problems
                )  # as job_submit.lua found them in the script
            if stated is None and record.row.get("batch_flag"):
                scripts.append(record)
                continue
            self._keep(record, stated or NOTHING_STATED, problems)
        with ThreadPoolExecutor(READERS) as readers:
            for record, script in zip(scripts, readers.map(self._script, scripts), strict=True):
                result: list[str] = []
                self._keep(record, facts_of_script(script, result), result)

    def _keep(self, record: JobRecord, facts: JobSpec, problems: list[str]) -> None:
        self._facts[_facts_key(record)] = facts, [f"job {record.job_id}: {problem}" for problem in problems]

    def _script(self, record: JobRecord) -> str:
        try:
            return self._tools.run("scontrol", "write", "batch_script", record.script_id, "-")
        except BackendError:
            return ""  # gone meanwhile, or not ours to read


def _facts_key(record: JobRecord) -> tuple[str, str]:
    return record.script_id, str(record.row.get("comment") or "")
