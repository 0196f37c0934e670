"""The contract of a backend: what it tells of its cluster, and what it can be asked to do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar, runtime_checkable

from dally.job_spec import JobSpec

if TYPE_CHECKING:
    from dally.cluster.topology import Topology
    from dally.progress.log_reader import ReadableTail
    from dally.progress.log_tail import Parser

# ObservedJob.state
QUEUED: Final = "queued"  # waits until it is started
HELD: Final = "held"  # waits for its user, a dependency or a date: not to be started
BLOCKED: Final = "blocked"  # the cluster's own rules keep it from starting: a limit, a reservation, a licence
STARTING: Final = "starting"  # was told to start, does not run yet
RUNNING: Final = "running"
STOPPING: Final = "stopping"  # on its way out; its GPUs are not free yet
FINISHED: Final = "finished"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
ENDED: Final = frozenset((FINISHED, FAILED, CANCELLED))

# ObservedMachine.state
UP: Final = "up"
DRAINING: Final = "draining"  # what runs there goes on, nothing new may start
DOWN: Final = "down"

Placement = dict[str, int]  # GPUs by machine


class BackendError(Exception):
    """The backend could not be asked, or refused; says why in one line."""


@dataclass(frozen=True)
class ObservedJob:
    """A job as the backend knows it."""

    job_id: str
    state: str
    spec: JobSpec
    submit_s: float  # seconds since 1970, as are all times of a backend
    placement: Placement = field(default_factory=dict)  # while it has GPUs
    managed: bool = True  # ours to start and to stop; if not, it only takes GPUs
    reason: str = ""  # why it is held, or how it ended, in the backend's words
    # Machines that its constraints permit, where the backend has worked that out (affinity, taints); None: all that
    # `spec` permits. Both count.
    allowed: frozenset[str] | None = None
    preemptible: bool = True  # whether a managed job can be stopped, and would be queued again
    restarts: int | None = None  # how often it was queued again; None: the backend does not count that
    resizable: bool = False  # whether it can be started on each of its `spec.sizes`; if not, on `spec.gpus` alone

    def with_gpus(self, gpus: int) -> ObservedJob:
        """The same for another number of GPUs."""
        return replace(self, spec=replace(self.spec, gpus=gpus))

    @classmethod
    def read(cls, values: dict[str, Any]) -> ObservedJob:
        """The job of which `dataclasses.asdict` made these values."""
        allowed = values.get("allowed")
        named = None if allowed is None else frozenset(allowed)
        return cls(**{**values, "spec": JobSpec(**values["spec"]), "allowed": named})


@dataclass(frozen=True)
class ObservedMachine:
    """A machine as the backend knows it."""

    name: str
    gpus: int
    state: str = UP
    reason: str = ""
    gpu_type: str = ""  # empty: not stated
    cpus: float | None = None  # that jobs may have; None, here and below: not known, so no limit
    memory_mb: float | None = None
    resources: Mapping[str, float] = field(default_factory=dict)  # other ones that jobs may have; no name: none
    features: frozenset[str] = frozenset()
    # What all jobs have of these that are not `managed` jobs of this snapshot: others', and those without GPUs.
    cpus_taken: float = 0.0
    memory_mb_taken: float = 0.0
    resources_taken: Mapping[str, float] = field(default_factory=dict)
    shared_with_others: bool = False  # a job that is not of this snapshot runs there: no exclusive job may
    signs: tuple[str, ...] = ()  # names of what speaks against its health, and keeps nothing off it by itself


@dataclass(frozen=True)
class ObservedReservation:
    """Machines that are kept for the jobs that name it, for a time."""

    name: str
    machines: frozenset[str]
    start_s: float
    end_s: float  # infinity: until it is taken away
    users: frozenset[str] = frozenset()  # whose jobs may name it; no user and no account: all
    accounts: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Observed:
    """What the backend says of its cluster at one moment. Jobs that ended may be left out after a while."""

    jobs: tuple[ObservedJob, ...]
    machines: tuple[ObservedMachine, ...]
    problems: tuple[str, ...] = ()  # what of it could not be read, a line each, as long as that is so
    term: int = 0  # who led when this was read: orders that follow from it are of that term
    reservations: tuple[ObservedReservation, ...] = ()
    # Licences that managed jobs of this snapshot may have, all together: total less what others have.
    licences: Mapping[str, float] = field(default_factory=dict)


class StartOrder(NamedTuple):
    """Start a queued job on these GPUs, which are free."""

    job_id: str
    placement: Placement


class Backend(ABC):
    """A cluster's own software. Every method may raise a BackendError; nothing is assumed until it is read back.

    Orders come in batches and carry the term in which they were decided: once that has passed, all of them are
    refused by a BackendError. Otherwise each is answered by its place: why it was refused, or nothing if it was
    taken, which is not yet carried out: what came of it is in a later snapshot. All may be asked for twice.

    What not every cluster can do is in the protocols below.
    """

    name: str
    resizes: bool = False  # starts elastic jobs on any of their sizes
    concurrent: bool = False  # may be asked for several things at once, by several threads

    @abstractmethod
    def topology(self) -> Topology:
        """The cluster's machines, and how they hang together."""

    @abstractmethod
    def snapshot(self) -> Observed:
        """How things stand."""

    @abstractmethod
    def start(self, orders: Sequence[StartOrder], term: int) -> list[str]:
        """Start queued jobs."""

    @abstractmethod
    def preempt(self, jobs: Sequence[str], term: int) -> list[str]:
        """Let running jobs write their checkpoints and stop, or call starting ones back; they are queued again."""

    @abstractmethod
    def cancel(self, jobs: Sequence[str], term: int) -> list[str]:
        """End jobs, wherever they are."""

    @abstractmethod
    def wait(self, timeout_s: float) -> None:
        """Return when something may have changed, at the latest after that many seconds of the wall clock."""

    def identity(self) -> str:
        """What tells this cluster from others: two daemons never schedule the same."""
        return self.name

    @property
    def generation(self) -> int:
        """Another one: the cluster is not the one that the scheduler began with."""
        return 0

    @property
    def term(self) -> int:
        """Counts who has led the cluster so far."""
        return 0

    def begin_term(self) -> None:  # noqa: B027
        """From now on we lead: orders of earlier terms are refused. Called once the cluster is ours alone."""

    def check_term(self, term: int) -> None:
        """A BackendError if another daemon leads by now, or may lead."""
        if term != self.term:
            raise BackendError(f"decided in term {term}, and this is term {self.term}: another daemon leads")

    def close(self) -> None:  # noqa: B027
        """Let go of the cluster; jobs run on."""


class JobByJob(Backend):
    """A backend that carries out one order after the other. Each of these may raise a BackendError."""

    @abstractmethod
    def start_job(self, job_id: str, placement: Placement) -> None:
        """Start one job."""

    @abstractmethod
    def preempt_job(self, job_id: str) -> None:
        """Preempt one job."""

    @abstractmethod
    def cancel_job(self, job_id: str) -> None:
        """Cancel one job."""

    def start(self, orders: Sequence[StartOrder], term: int) -> list[str]:
        """One by one."""
        self.check_term(term)
        return answers(lambda order: self.start_job(order.job_id, order.placement), orders)

    def preempt(self, jobs: Sequence[str], term: int) -> list[str]:
        """One by one."""
        self.check_term(term)
        return answers(self.preempt_job, jobs)

    def cancel(self, jobs: Sequence[str], term: int) -> list[str]:
        """One by one."""
        self.check_term(term)
        return answers(self.cancel_job, jobs)


Order = TypeVar("Order")


def answers(carry_out: Callable[[Order], object], orders: Sequence[Order]) -> list[str]:
    """Why not, by place, and nothing where the order was taken."""
    result = []
    for order in orders:
        try:
            carry_out(order)
        except BackendError as error:
            result.append(str(error))
        else:
            result.append("")
    return result


# What a backend may be able to do besides.


@dataclass(frozen=True)
class Submission:
    """A job that somebody asks for."""

    spec: JobSpec
    command: tuple[str, ...] = ()  # nothing: a job that only takes time, as long as it states
    folder: str = ""  # where the command runs
    environment: dict[str, str] = field(default_factory=dict)  # besides a login's: never the daemon's


@runtime_checkable
class Submits(Protocol):
    """Takes in jobs; of others they are submitted with their own tools."""

    def submit(self, request: Submission) -> str:
        """Take in a job, queued; its id."""


@runtime_checkable
class Drains(Protocol):
    """Closes machines for new jobs; of others that is done with their own tools."""

    def drain(self, machine: str, why: str) -> None:
        """What runs on the machine goes on, and nothing new starts there; the cluster's own tools tell why."""

    def resume(self, machine: str) -> None:
        """The machine takes jobs again; one that is up is left as it is."""


@runtime_checkable
class RunsAgain(Protocol):
    """Runs failed jobs again under their own ids; others leave that to their own tools."""

    def retry(self, job_id: str) -> None:
        """Queue a job that has failed; a BackendError if it has not, or cannot run again."""


@runtime_checkable
class HasQueues(Protocol):
    """May know of queues and quotas itself; of others an operator's file says them."""

    def queues(self) -> str:
        """A file of them, written anew with another generation; empty: it knows of none."""

    def usual_queues(self) -> str:
        """The same, for operators who give no queues of their own."""


class ClusterClaim(Protocol):
    """A cluster that is ours alone, until it is given back."""

    def release(self) -> None:
        """Let another daemon have the cluster."""


@runtime_checkable
class Elects(Protocol):
    """Says which daemon leads, on whatever host; for others a lock on this host must do."""

    def claim(self) -> ClusterClaim:
        """Be the only one to schedule this cluster, or wait until that is so."""


@runtime_checkable
class Leases(Protocol):
    """Keeps daemons of several hosts apart; those of one host its lock does."""

    def take_lease(self, memory: Path) -> ClusterClaim:
        """Be the only one of all hosts, or wait until that is so. `memory`: a file of this host for the lease."""


@runtime_checkable
class Completes(Protocol):
    """Carries orders out in several steps, and may be left between two of them."""

    def complete(self) -> list[str]:
        """Finish or take back what was left half done; what an operator should know of it, a line each."""


@dataclass(frozen=True)
class ProgressSource:
    """Where a running job says how far it is; empty: not there."""

    job_id: str
    log: str  # what it prints: a file, or what `tail` reads
    report: str  # the file of `dally.report`
    owner: int  # the user to whom both must belong
    pattern: str = ""  # of the lines that say how far it is, if its user states one
    stated: str = ""  # steps done, of how many: 120/400
    tail: Callable[[Parser], ReadableTail] | None = None  # reads a log that is no file of this machine
    own_id: str = ""  # by which the job knows itself, where others may have the same file


@runtime_checkable
class HasProgress(Protocol):
    """Can read what its jobs print; of others how far jobs are is not known."""

    logs_per_s: float  # looks at all logs
    answers_at_once: bool  # the logs are files of this machine: nobody has to wait for them

    def progress_sources(self) -> tuple[ProgressSource, ...]:
        """The files of all running jobs."""


class WaitingNotice(NamedTuple):
    """Why a job waits. A tuple, as every cycle makes one of every job."""

    job_id: str
    state: str  # waiting, held, blocked or unschedulable
    reason: str  # in a word
    message: str
    until_s: float | None  # since 1970


@dataclass(frozen=True)
class PreemptionNotice:
    """A job that gives its GPUs up, for another if there is one."""

    job_id: str
    winner: str


@dataclass(frozen=True)
class StartNotice:
    """A job that starts."""

    job_id: str
    tier: str
    placement: Placement


@dataclass(frozen=True)
class Publication:
    """What users of the cluster's own tools are to see after a cycle."""

    jobs: Set[str]  # all that have not ended
    waiting: tuple[WaitingNotice, ...]
    changes: tuple[StartNotice | PreemptionNotice, ...]  # of this cycle, in order
    expected_start: Callable[[str], str]  # of a job that waits, in words; empty: not known


@runtime_checkable
class Publishes(Protocol):
    """Shows its users how things stand, in its own tools."""

    def publish(self, publication: Publication) -> None:
        """Show this."""


@dataclass(frozen=True)
class BackendOptions:
    """What a backend is opened with."""

    folder: Path  # for what it keeps
    cluster: str = ""  # RxMxG or a topology file; empty: it knows its machines itself
    speed: float = 1.0  # of the clock, for a cluster that only takes time
    settings: Mapping[str, str] = field(default_factory=dict)  # its table of dally.toml
    dry_run: bool = False  # nothing will be sent: it may report as if what `setup` does were done
