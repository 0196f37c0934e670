"""The contract of a backend: what it tells of its cluster, and what it can be asked to do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from dally.job_spec import JobSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dally.cluster.topology import Topology
    from dally.live.cycle import CycleResult
    from dally.live.status import ClusterStatus

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

    def with_gpus(self, gpus: int) -> ObservedJob:
        """The same for another number of GPUs."""
        return replace(self, spec=replace(self.spec, gpus=gpus))

    @classmethod
    def read(cls, values: dict[str, Any]) -> ObservedJob:
        """The job of which `dataclasses.asdict` made these values."""
        return cls(**{**values, "spec": JobSpec(**values["spec"])})


@dataclass(frozen=True)
class ObservedMachine:
    """A machine as the backend knows it."""

    name: str
    gpus: int
    state: str = UP
    reason: str = ""
    gpu_type: str = ""  # empty: not stated


@dataclass(frozen=True)
class Observed:
    """What the backend says of its cluster at one moment. Jobs that ended may be left out after a while."""

    jobs: tuple[ObservedJob, ...]
    machines: tuple[ObservedMachine, ...]
    problems: tuple[str, ...] = ()  # what of it could not be read, a line each, as long as that is so


class Claim(Protocol):
    """A cluster that is ours alone, until it is given back."""

    def release(self) -> None:
        """Let another daemon have the cluster."""


class Backend(ABC):
    """A cluster's own software. Every method may raise a BackendError; nothing is assumed until it is read back.

    `start` and `preempt` return once the backend has taken the order, not once it is carried out: what came of
    it is in a later snapshot. Both may be asked twice for the same.
    """

    name: str

    @property
    def generation(self) -> int:
        """Another one: the cluster is not the one that the scheduler began with."""
        return 0

    def identity(self) -> str:
        """What tells this cluster from others: two daemons never schedule the same."""
        return self.name

    def claim(self) -> Claim | None:
        """Be the only one to schedule this cluster, or wait until that is so; None: a lock on this host will do."""
        return None

    def lead(self) -> None:  # noqa: B027
        """A BackendError if the cluster that was claimed is, or may be, another daemon's by now."""

    @abstractmethod
    def topology(self) -> Topology:
        """The cluster's machines, and how they hang together."""

    @abstractmethod
    def snapshot(self) -> Observed:
        """How things stand."""

    @abstractmethod
    def start(self, job_id: str, placement: Placement) -> None:
        """Start a queued job on these GPUs, which are free."""

    def start_all(self, orders: Sequence[tuple[str, Placement]]) -> list[str]:
        """Start several jobs; why not, by place, and nothing where the order was taken."""
        return [self._refusal(job_id, placement) for job_id, placement in orders]

    def _refusal(self, job_id: str, placement: Placement) -> str:
        try:
            self.start(job_id, placement)
        except BackendError as error:
            return str(error)
        return ""

    @abstractmethod
    def preempt(self, job_id: str) -> None:
        """Let a running job write its checkpoint and stop, or call a starting one back; it is queued again."""

    @abstractmethod
    def cancel(self, job_id: str) -> None:
        """End the job, wherever it is."""

    def drain(self, machine: str, why: str) -> None:
        """What runs on the machine goes on, and nothing new starts there; the cluster's own tools tell why."""
        raise BackendError(f"{self.name}: machines are drained with its own tools")

    def resume(self, machine: str) -> None:
        """The machine takes jobs again; one that is up is left as it is."""
        raise BackendError(f"{self.name}: machines are resumed with its own tools")

    @abstractmethod
    def wait(self, timeout_s: float) -> None:
        """Return when something may have changed, at the latest after that many seconds of the wall clock."""

    def mend(self) -> list[str]:
        """Set right what orders left half done; what an operator should know of it, a line each."""
        return []

    def tell(self, status: ClusterStatus, result: CycleResult) -> None:  # noqa: B027
        """Let users of the cluster's own tools know how things stand."""

    def foresee(self, expected: Callable[[str], str]) -> None:  # noqa: B027
        """Whom to ask when a job is expected to start, in words."""

    def submit(self, request: Submission) -> str:
        """Take in a job, queued; its id."""
        raise BackendError(f"{self.name}: jobs are submitted with its own tools")

    def close(self) -> None:  # noqa: B027
        """Let go of the cluster; jobs run on."""


@dataclass(frozen=True)
class Submission:
    """A job that somebody asks for."""

    spec: JobSpec
    command: tuple[str, ...] = ()  # nothing: a job that only takes time, as long as it states
    folder: str = ""  # where the command runs
