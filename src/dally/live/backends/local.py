"""A cluster that exists on paper, on this machine: jobs are real processes, its GPUs are counts."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import structlog

from dally.cluster.topology import Topology
from dally.errors import InputError
from dally.live.backends import base
from dally.live.backends.base import (
    BackendError,
    JobByJob,
    Observed,
    ObservedJob,
    ObservedMachine,
    Placement,
    ProgressSource,
    Submission,
)
from dally.live.backends.drained_file import read_drained, write_drained
from dally.live.backends.job_environment import UMASK, job_environment
from dally.live.backends.job_folder import ALIVE, GONE, JobFolder
from dally.live.backends.stated_facts import command_line_of
from dally.progress import report_file
from dally.progress.log_reader import MOST_PER_S
from dally.sizes import read_sizes
from dally.whole_file import write_whole

GRACE_S: Final = 30.0  # between SIGTERM and SIGKILL
LOOK_EVERY_S: Final = 0.1
KEEP_ENDED_S: Final = 3600.0  # jobs that ended longer ago are no longer told of
# Runs the job and leaves its exit code behind, though nobody may be there to ask for it: the daemon may have died.
WRAPPER: Final = """
trap : TERM
mv ticket pid.new 2>/dev/null || exit 1
echo $$ > pid.new && mv pid.new pid || exit 1
cd "$DALLY_FOLDER" 2>/dev/null
"$@" & child=$!
wait $child; code=$?
while kill -0 $child 2>/dev/null; do wait $child; code=$?; done
echo $code > "$DALLY_STATE/exit.new" && mv "$DALLY_STATE/exit.new" "$DALLY_STATE/exit"
"""

log = structlog.get_logger("dally")


class LocalBackend(JobByJob):
    """Jobs of a folder, each with a folder of its own. They outlive the daemon; a new one finds them there."""

    name = "local"
    resizes = True
    logs_per_s = MOST_PER_S
    answers_at_once = True

    def __init__(self, folder: Path, topology: Topology, speed: float = 1.0, grace_s: float = GRACE_S) -> None:
        """`speed`: how much faster than the wall clock jobs without a command take their time."""
        self._folder = folder / "jobs"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._topology = topology
        self._speed = speed
        self._grace_s = grace_s
        self._last = 0  # number that a job has had
        self._jobs = self._read()
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._term_path = folder / "term"
        self._term = self.term  # in which we lead
        self._drained_path = folder / "drained.json"
        self._drained: dict[str, str] = read_drained(self._drained_path)  # why, by machine
        self._machines = tuple(
            ObservedMachine(
                name,
                int(gpus),
                gpu_type=gpu_type,
                cpus=capacity.cpus,
                memory_mb=capacity.memory_mb,
                resources=capacity.resources or {},
                features=capacity.features,
            )
            for name, gpus, gpu_type, capacity in zip(
                topology.names[0], topology.gpus[0], topology.gpu_types, topology.capacities, strict=True
            )
        )

    def _read(self) -> dict[int, JobFolder]:
        """The jobs of the folder; one that cannot be read keeps its number, and nobody from the others."""
        result: dict[int, JobFolder] = {}
        for path in self._folder.iterdir():
            if not (path.name.isascii() and path.name.isdigit()):
                continue
            self._last = max(self._last, int(path.name))
            try:
                result[int(path.name)] = JobFolder(path)
            except (OSError, ValueError, TypeError, KeyError) as error:
                log.error("job_left_out", folder=str(path), why=repr(error))
        return result

    def identity(self) -> str:
        """Its folder."""
        return str(self._folder.resolve())

    @property
    def term(self) -> int:
        """As the folder has it: whoever leads last has written it."""
        try:
            return int(self._term_path.read_text())
        except FileNotFoundError:
            return 0
        except (OSError, ValueError) as error:
            raise BackendError(f"{self._term_path}: cannot be read: {error}") from None

    def begin_term(self) -> None:
        """Written to the folder, where another daemon sees it."""
        self._term = self.term + 1
        try:
            write_whole(self._term_path, str(self._term).encode())
        except InputError as error:
            raise BackendError(str(error)) from None

    def topology(self) -> Topology:
        """As given."""
        return self._topology

    def snapshot(self) -> Observed:
        """What the folders and processes say."""
        self._reap()
        now = time.time()
        for number in sorted(self._jobs):
            self._look(self._jobs[number], now)
        record = (self._jobs[number] for number in sorted(self._jobs))
        machines = tuple(
            replace(machine, state=base.DRAINING, reason=self._drained[machine.name])
            if machine.name in self._drained
            else machine
            for machine in self._machines
        )
        jobs = tuple(one.job for one in record if now - one.ended_s < KEEP_ENDED_S)
        return Observed(jobs, machines, term=self._term)

    def submit(self, request: Submission) -> str:
        """A folder for the job; it is queued."""
        number = self._last + 1
        spec = request.spec
        if request.command and not spec.command_line:
            spec = replace(spec, command_line=command_line_of(" ".join(request.command)))
        job = ObservedJob(str(number), base.QUEUED, spec, time.time(), resizable=bool(spec.sizes))
        self._jobs[number] = JobFolder.make(self._folder / str(number), job, request)
        self._last = number
        return str(number)

    def start_job(self, job_id: str, placement: Placement) -> None:
        """A process for the whole gang; it is told its machines."""
        one = self._find(job_id)
        if one.job.state in (base.STARTING, base.RUNNING) and one.job.placement == placement:
            return
        if one.job.state != base.QUEUED:
            raise BackendError(f"job {job_id} cannot be started: it is {one.job.state}")
        self._check_free(one.job, placement)
        one.become(base.STARTING, placement)  # before the process: one that nobody knows of would run twice
        one.expect()
        before = self._children.pop(int(job_id), None)
        if before is not None:
            before.wait()  # it has left its exit code, and ends in a moment
        command = one.command or ("sleep", f"{self._left_s(one):.3f}")
        environment = (
            job_environment()
            | one.environment
            | {
                "DALLY_JOB_ID": job_id,
                "DALLY_FOLDER": one.folder,
                "DALLY_STATE": str(one.path),
                "DALLY_NODES": ",".join(placement),
                "DALLY_GPUS_PER_NODE": ",".join(str(gpus) for gpus in placement.values()),
                "DALLY_GPUS": str(sum(placement.values())),
                "DALLY_RESTARTS": str(one.restarts),
                report_file.VARIABLE: str(one.path / "progress"),
            }
        )
        try:
            with (one.path / "log").open("ab") as log:
                self._children[int(job_id)] = subprocess.Popen(
                    ["/bin/sh", "-c", WRAPPER, "dally", *command], cwd=one.path, env=environment, stdout=log,
                    stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, umask=UMASK,
                )  # fmt: skip
        except OSError as error:
            one.become(base.QUEUED)
            raise BackendError(f"job {job_id} could not be started: {error.strerror}") from None

    def preempt_job(self, job_id: str) -> None:
        """SIGTERM now, SIGKILL if it has not ended when its grace is over."""
        self._stop(self._find(job_id), base.QUEUED)

    def cancel_job(self, job_id: str) -> None:
        """Ends it, at once if it does not run."""
        one = self._find(job_id)
        if one.job.state in (base.QUEUED, base.HELD):
            one.become(base.CANCELLED)
        else:
            self._stop(one, base.CANCELLED)

    def retry(self, job_id: str) -> None:
        """It is queued as it came."""
        one = self._find(job_id)
        if one.job.state != base.FAILED:
            raise BackendError(f"job {job_id} has not failed: it is {one.job.state}")
        one.become(base.QUEUED)

    def progress_sources(self) -> tuple[ProgressSource, ...]:
        """In the folders of the jobs."""
        return tuple(_source(one) for one in self._jobs.values() if one.job.state == base.RUNNING)

    def drain(self, machine: str, why: str) -> None:
        """Noted in a file beside the jobs."""
        self._check_machine(machine)
        self._keep_drained({**self._drained, machine: why})

    def resume(self, machine: str) -> None:
        """Taken out of it."""
        self._check_machine(machine)
        self._keep_drained({name: why for name, why in self._drained.items() if name != machine})

    def _check_machine(self, name: str) -> None:
        if all(machine.name != name for machine in self._machines):
            raise BackendError(f"machine {name!r}: there is no such machine")

    def _keep_drained(self, drained: dict[str, str]) -> None:
        write_drained(self._drained_path, drained)
        self._drained = drained

    def wait(self, timeout_s: float) -> None:
        """Until a process ends, or something was submitted, started or stopped."""
        until = time.monotonic() + timeout_s
        before = len(self._jobs)
        while time.monotonic() < until and len(self._jobs) == before:
            if any(child.poll() is not None for child in self._children.values()):
                return
            time.sleep(min(LOOK_EVERY_S, max(0.0, until - time.monotonic())))

    def close(self) -> None:
        """Jobs run on: their processes are nobody's children from here on."""
        for child in self._children.values():
            child.returncode = child.poll() or 0  # or Python complains that it was left alone
        self._children.clear()

    def _stop(self, one: JobFolder, after: str) -> None:
        self._look(one, time.time())
        if one.job.state == base.STARTING:
            raise BackendError(f"job {one.job.job_id} is just starting; ask again")
        if one.job.state in (base.RUNNING, base.STOPPING):
            ran = one.job.state == base.RUNNING
            one.become(base.STOPPING, one.job.placement, after=after)
            code = one.exit_code() if ran else None  # of one that was told before, it is what that came to
            if code is not None:  # it ended before it was told to: it is not to run again
                self._end(one, code)
            else:
                self._signal(one, signal.SIGTERM)

    def _look(self, one: JobFolder, now: float) -> None:
        """Bring one job up to date with its process."""
        if one.job.state not in (base.STARTING, base.RUNNING, base.STOPPING):
            return
        process = one.process()
        code = one.exit_code()  # after that: whoever is gone has left it before
        if code is not None:
            self._ended(one, code)
        elif process == ALIVE:
            if one.job.state == base.STARTING:
                one.become(base.RUNNING, one.job.placement)
            elif one.job.state == base.STOPPING and now - one.since_s > self._grace_s:
                self._signal(one, signal.SIGKILL)
        elif process == GONE or (not self._is_child(one) and one.call_off(now)):
            self._vanished(one)

    def _is_child(self, one: JobFolder) -> bool:
        """Whether we have started its process, which lives, though it may not have come far."""
        child = self._children.get(int(one.job.job_id))
        return child is not None and child.poll() is None

    def _ended(self, one: JobFolder, code: int) -> None:
        if one.job.state == base.STOPPING:
            one.become(one.after)
        else:
            self._end(one, code)

    def _end(self, one: JobFolder, code: int) -> None:
        """By itself."""
        if code == 0:
            one.become(base.FINISHED)
        else:
            one.become(base.FAILED, reason=f"exit code {code}")

    def _vanished(self, one: JobFolder) -> None:
        """Its process is gone without a word: killed, or this machine was started anew, which is not its fault."""
        if one.job.state == base.STOPPING:
            one.become(one.after)
        elif one.was_before_boot() or one.job.state == base.STARTING:
            one.become(base.QUEUED)
        else:
            one.become(base.FAILED, reason="its process was killed")

    def _left_s(self, one: JobFolder) -> float:
        """Seconds of the wall clock that a job without a command still takes."""
        return max(0.0, (one.job.spec.duration_s or 0.0) / self._speed - one.ran_s)

    def _check_free(self, job: ObservedJob, placement: Placement) -> None:
        free = {machine.name: 0 if machine.name in self._drained else machine.gpus for machine in self._machines}
        for other in self._jobs.values():
            for name, gpus in other.job.placement.items():
                free[name] -= gpus
        short = [name for name, gpus in placement.items() if free.get(name, 0) < gpus]
        if short or sum(placement.values()) not in (job.spec.gpus, *read_sizes(job.spec.sizes, job.spec.gpus)):
            raise BackendError(f"job {job.job_id}: not enough GPUs free on {', '.join(short) or 'these machines'}")

    def _find(self, job_id: str) -> JobFolder:
        one = self._jobs.get(int(job_id)) if job_id.isdigit() else None
        if one is None:
            raise BackendError(f"job {job_id!r}: there is no such job")
        return one

    def _signal(self, one: JobFolder, number: signal.Signals) -> None:
        pid = one.pid()
        if pid is not None and one.process() == ALIVE:
            with suppress(ProcessLookupError):
                os.killpg(pid, number)

    def _reap(self) -> None:
        for number in [number for number, child in self._children.items() if child.poll() is not None]:
            del self._children[number]


def _source(one: JobFolder) -> ProgressSource:
    """Where the job says how far it is."""
    printed, report = str(one.path / "log"), str(one.path / "progress")
    return ProgressSource(one.job.job_id, printed, report, os.geteuid(), one.job.spec.pattern)
