"""The Slurm backend: two calls for a snapshot, four for a start, and nothing assumed until it is read back."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from dally.cluster.formats.hostlist import expand_list
from dally.cluster.topology import Topology
from dally.errors import InputError
from dally.job_spec import JobSpec
from dally.live.backends import base
from dally.live.backends.base import (
    BackendError,
    JobByJob,
    Observed,
    ObservedJob,
    ObservedMachine,
    Placement,
    Submission,
)
from dally.live.backends.slurm.job_facts import facts_of_comment, facts_of_script
from dally.live.backends.slurm.job_mark import with_mark
from dally.live.backends.slurm.job_shape import note_of, shape_of, update_arguments
from dally.live.backends.slurm.jobs_json import (
    FINAL,
    STOPPING,
    JobReader,
    JobRecord,
    number,
    placement_in,
    records_of,
    tres_gpus,
    unusual,
)
from dally.live.backends.slurm.nodes_json import machines_of
from dally.live.backends.slurm.shown_topology import NO_GPUS, topology_of
from dally.live.backends.slurm.submit_arguments import sbatch_arguments, script_of
from dally.live.backends.slurm.tools import Tools
from dally.live.backends.stated_facts import NOTHING_STATED, read_facts

POLL_S = 1.0
RESUMED_WITHIN_S = 3.0
PAUSE_S = 0.2
NEVER_S = 4102444800  # the year 2100: when job_submit.lua lets a job begin that its user holds
SUBMITTED = {"read": "1"}  # note of a job that we submit: all that is stated of it is in its comment
READERS = 4  # scripts read at a time
SWITCHES_EVERY_S = 60.0  # they are looked at: cables are not moved every second


class SlurmBackend(JobByJob):
    """A cluster under Slurm. Jobs wait in it held; this alone releases them, with the machines to run on.

    An operator's `scontrol hold` keeps a job from us: our own holds are those of its user (`uhold`).
    """

    name = "slurm"

    def __init__(self, partitions: Sequence[str] = (), conf: str = "", timeout_s: float = 20.0) -> None:
        """No partitions: all of them. `conf`: the path of slurm.conf, if not the usual one."""
        self._tools = Tools(conf, timeout_s)
        self._partitions = frozenset(partitions)
        self._reader = JobReader(self._partitions, 1)
        self._generation = 0
        self._shape: frozenset[tuple[str, int, str]] = frozenset()  # of the cluster: names, GPUs and their types
        self._switches = ""  # as Slurm shows them
        self._switches_due_s = 0.0  # when they are looked at again, by the monotonic clock
        self._records: dict[str, JobRecord] = {}
        self._latest = Observed((), ())
        self._promised: dict[str, Placement] = {}  # started since the latest snapshot
        self._facts: dict[tuple[str, str], tuple[JobSpec, list[str]]] = {}  # and problems, by job and comment
        self._print = ""

    @property
    def generation(self) -> int:
        """How often nodes came or went, had other GPUs or other switches; one that is down keeps its own."""
        return self._generation

    def identity(self) -> str:
        """The cluster's name and its controller, as slurm.conf has them."""
        result = re.findall(
            r"^(?:ClusterName|SlurmctldHost\S*|SlurmctldPort)\s*=\s*(.*)$", self._config(), re.MULTILINE
        )
        return " ".join(result)

    def topology(self) -> Topology:
        """From `scontrol show topology` and the nodes' Gres."""
        self._switches_due_s = 0.0
        machines = self._cluster()
        try:
            return topology_of(self._switches, machines)
        except InputError as error:
            raise BackendError(str(error)) from None

    def snapshot(self) -> Observed:
        """How things stand, by one `squeue` and one `sinfo`; now and then a `scontrol` for the switches."""
        rows = self._tools.rows("jobs", "squeue", "--json")
        machines = self._cluster()
        self._reader.machine_gpus = max(machine.gpus for machine in machines)
        problems: list[str] = []
        records: list[JobRecord] = []
        for row in rows:
            with unusual(row, problems):
                records += records_of([row])
        self._read_facts(records)
        now_s = time.time()
        jobs: list[ObservedJob] = []
        for record in records:
            with unusual(record.row, problems):
                jobs.append(self._reader.job(record, self._facts[_facts_key(record)][0], now_s))
        self._records = {record.job_id: record for record in records}
        self._facts = {key: self._facts[key] for key in map(_facts_key, records)}
        problems += [problem for _, result in self._facts.values() for problem in result]
        self._latest = Observed(tuple(jobs), tuple(machines), tuple(problems))
        self._promised = {}
        return self._latest

    def start_job(self, job_id: str, placement: Placement) -> None:
        """Tell Slurm where and how, see that it has understood, and release the job."""
        record = self._record(job_id)
        if self._standing(job_id) != "PENDING":
            entry = next((job for job in self.snapshot().jobs if job.job_id == job_id), None)
            if entry is None or entry.placement != placement or entry.state in base.ENDED:
                raise BackendError(f"job {job_id} cannot be started: it is {entry.state if entry else 'gone'}")
            return
        entry = next(job for job in self._latest.jobs if job.job_id == job_id)
        if self._promised.get(job_id) == placement:
            return
        if entry.state not in (base.QUEUED, base.STARTING):
            raise BackendError(f"job {job_id} cannot be started: it is {entry.state} {entry.reason}".rstrip())
        self._check_free(entry, placement)
        shape = shape_of(record, entry.spec.gpus)
        parts = update_arguments(record, shape, placement)
        self._tools.run("scontrol", "update", f"JobId={job_id}", *parts, f"AdminComment={note_of(record, shape)}")
        self._check_taken(job_id, placement)
        self._tools.run("scontrol", "release", job_id)
        self._promised[job_id] = dict(placement)

    def preempt_job(self, job_id: str) -> None:
        """SIGTERM reaches the script, which has KillWait seconds; the job is then pending and held."""
        standing = self._standing(job_id)
        if standing == "PENDING":
            self._tools.run("scontrol", "uhold", job_id)
            standing = self._standing(job_id)  # it may have started in that very moment
        if standing not in ("PENDING", *STOPPING, *FINAL):
            self._tools.run("scontrol", "requeuehold", job_id)

    def cancel_job(self, job_id: str) -> None:
        """By scancel."""
        if self._standing(job_id) not in FINAL:
            self._tools.run("scancel", job_id)

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
        """Until another job or node has another state, looked at once a second."""
        until_s = time.monotonic() + timeout_s
        while True:
            try:
                result = self._tools.run("squeue", "-h", "-a", "-t", "all", "-o", "%i %T %Q")
                result += self._tools.run("sinfo", "-h", "-N", "-o", "%N %T")
            except BackendError:
                result = self._print
            if result != self._print:
                self._print = result
                return
            left_s = until_s - time.monotonic()
            if left_s <= 0.0:
                return
            time.sleep(min(POLL_S, left_s))

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

    def hand_over(self) -> list[str]:
        """Release every job that waits for us to Slurm's own scheduler, wherever it likes; what came of it."""
        result = self.snapshot()
        record = [job for job in result.jobs if job.managed and self._records[job.job_id].pending]
        released = 0
        for job in record:
            by_user = number(self._records[job.job_id].row.get("eligible_time")) >= NEVER_S
            if job.state == base.HELD and not by_user:
                continue
            self._tools.run("scontrol", "update", f"JobId={job.job_id}", "ReqNodeList=", "StartTime=now")
            if not by_user:
                self._tools.run("scontrol", "release", job.job_id)
                released += 1
        return [f"{released} waiting jobs left to Slurm", *result.problems]

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
        return machines_of(self._tools.rows("nodes", "sinfo", "--json"), self._partitions)

    def _cluster(self) -> list[ObservedMachine]:
        """The machines, with an eye on whether they and their switches are the same as before."""
        machines = self._machines()
        if not machines:
            raise BackendError(NO_GPUS)
        shape = frozenset((machine.name, machine.gpus, machine.gpu_type) for machine in machines)
        switches = self._shown_switches()
        self._generation += bool(self._shape) and (shape != self._shape or switches != self._switches)
        self._shape, self._switches = shape, switches
        return machines

    def _shown_switches(self) -> str:
        if time.monotonic() < self._switches_due_s:
            return self._switches
        self._switches_due_s = time.monotonic() + SWITCHES_EVERY_S
        try:
            return self._tools.run("scontrol", "-o", "show", "topology")
        except BackendError:
            return self._switches  # no topology plugin; where there is one, it may not have answered this time

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

    def _standing(self, job_id: str) -> str:
        """The job's state this very moment, in Slurm's words."""
        return self._tools.run("squeue", "-h", "-a", "-t", "all", "-j", job_id, "-o", "%T").split("\n")[0].strip()

    def _check_free(self, record: ObservedJob, placement: Placement) -> None:
        if sum(placement.values()) != record.spec.gpus or min(placement.values(), default=0) < 1:
            raise BackendError(
                f"job {record.job_id} asks for {record.spec.gpus} GPUs, not {sum(placement.values())}"
            )
        free = {machine.name: machine.gpus if machine.state == base.UP else 0 for machine in self._latest.machines}
        held = [(job.job_id, job.placement) for job in self._latest.jobs if job.state not in base.ENDED]
        for job_id, parts in (*held, *self._promised.items()):
            for name, gpus in parts.items():
                if job_id != record.job_id and name in free:
                    free[name] -= gpus
        for name, gpus in placement.items():
            if gpus > free.get(name, 0):
                raise BackendError(f"job {record.job_id}: {name} has {free.get(name, 0)} free GPUs, not {gpus}")

    def _check_taken(self, job_id: str, placement: Placement) -> None:
        """An update can be taken in part; the job is still held, so nothing has happened.

        The number of nodes cannot be read back: of a requeued job Slurm shows that of its last run.
        """
        fields = f"tres-per-node:200,tres-per-job:200,ReqNodes:{len(','.join(placement)) + 20}"
        line = self._tools.run("squeue", "-h", "-a", "-j", job_id, "-O", fields).split("\n")[0]
        per_node, in_all, names = line[:200].strip(), line[200:400].strip(), line[400:].strip()
        gpus = set(placement.values())
        counted = tres_gpus(per_node) in gpus if len(gpus) == 1 else tres_gpus(in_all) == sum(placement.values())
        if not counted or not names or set(expand_list(names)) != set(placement):
            problem = f"{per_node or in_all or 'no GPUs'} on {names or 'any machine'}"
            raise BackendError(f"job {job_id}: Slurm did not take the machines as told: {problem}")

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
                stated = read_facts(record.mark, problems)  # as job_submit.lua found them in the script
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
