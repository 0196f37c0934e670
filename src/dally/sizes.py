"""The numbers of GPUs that an elastic job may run on, and what it had at each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mypy_extensions import i64

from dally.errors import InputError
from dally.pickles import picklable

if TYPE_CHECKING:
    from dally.model import Job

MOST_SIZES: Final = 256  # of one job
FORMS: Final = "must be LEAST:MOST, LEAST:MOST:STEP or a list such as 4,8,16"


def read_sizes(text: str, gpus: int, block: int = 1) -> tuple[int, ...]:
    """The sizes that the text states, rising; () for a job of one size. InputError says what is wrong with it.

    `block`: GPUs of one model-parallel replica, of which each size is a multiple; also the usual step.
    """
    if not text:
        return ()
    numbers = _range(text, block) if ":" in text else _whole(text, ",")
    sizes = tuple(sorted(set(numbers)))
    if len(sizes) > MOST_SIZES:
        raise InputError(f"sizes: {text!r}: {len(sizes)} sizes; at most {MOST_SIZES}: state a larger step")
    uneven = [size for size in sizes if size % block]
    if uneven:
        raise InputError(
            f"sizes: {text!r}: {uneven[0]}: must be a multiple of {block} GPUs, which hold one replica"
        )
    if gpus not in sizes:
        raise InputError(f"sizes: {text!r}: must have the {gpus} GPUs among them that the job asks for")
    return sizes if len(sizes) > 1 else ()


def _range(text: str, block: int) -> list[int]:
    bounds = _whole(text, ":")
    if not 2 <= len(bounds) <= 3 or bounds[1] < bounds[0]:
        raise InputError(f"sizes: {text!r}: {FORMS}")
    step = bounds[2] if len(bounds) == 3 else block
    if (bounds[1] - bounds[0]) // step >= MOST_SIZES:
        raise InputError(f"sizes: {text!r}: more than {MOST_SIZES} sizes: state a larger step")
    return [*range(bounds[0], bounds[1] + 1, step)]


def _whole(text: str, separator: str) -> list[int]:
    """The numbers in the text, each at least 1."""
    parts = [part.strip() for part in text.split(separator)]
    if not all(part.isascii() and part.isdigit() and len(part) <= 7 and int(part) > 0 for part in parts):
        raise InputError(f"sizes: {text!r}: {FORMS}")
    return [int(part) for part in parts]


class SizeAccount:
    """What an elastic job has had, in GPU-seconds, and the size that it has or had last.

    Seconds since the latest change of size are not in it yet: all of them belong to that size.
    """

    __slots__ = (
        "_comm_s", "_compute_s", "_held_s", "_overhead_s", "_work_s", "comm_gpu_s", "compute_gpu_s", "gpus",
        "held_gpu_s", "overhead_gpu_s", "resize_s", "speedup", "work_at_s",
    )  # fmt: skip

    def __init__(self, gpus: i64, resize_s: float | None) -> None:
        self.gpus: i64 = gpus
        self.resize_s: float | None = resize_s  # that a change of size takes; None: a restart
        self.speedup: float = 1.0  # at its closest placement, against the size it asks for
        self.held_gpu_s: float = 0.0
        self.compute_gpu_s: float = 0.0
        self.comm_gpu_s: float = 0.0
        self.overhead_gpu_s: float = 0.0
        self.work_at_s: dict[int, float] = {}  # work done, by size
        # What the job had of each when its size last changed.
        self._held_s: float = 0.0
        self._compute_s: float = 0.0
        self._comm_s: float = 0.0
        self._overhead_s: float = 0.0
        self._work_s: float = 0.0

    def hold(self, job: Job, gpus: i64, speedup: float) -> None:
        """The job, which holds no GPUs, gets so many."""
        size = float(self.gpus)
        self.held_gpu_s += (job.held_s - self._held_s) * size
        self.compute_gpu_s += (job.compute_s - self._compute_s) * size
        self.comm_gpu_s += (job.comm_s - self._comm_s) * size
        self.overhead_gpu_s += (job.overhead_s - self._overhead_s) * size
        if job.work_s != self._work_s:
            done_s = self.work_at_s.get(int(self.gpus), 0.0)
            self.work_at_s[int(self.gpus)] = done_s + (job.work_s - self._work_s)
        self._held_s = job.held_s
        self._compute_s = job.compute_s
        self._comm_s = job.comm_s
        self._overhead_s = job.overhead_s
        self._work_s = job.work_s
        self.gpus = gpus
        self.speedup = speedup

    def works_at_s(self, job: Job) -> dict[int, float]:
        """Seconds of work done so far, by size."""
        result = dict(self.work_at_s)
        result[int(self.gpus)] = result.get(int(self.gpus), 0.0) + (job.work_s - self._work_s)
        return result

    def held(self, run_s: float) -> float:
        """GPU-seconds held so far, of a job that has run for so long."""
        return self.held_gpu_s + (run_s - self._held_s) * float(self.gpus)

    def computed(self, compute_s: float) -> float:
        """GPU-seconds of computing, likewise."""
        return self.compute_gpu_s + (compute_s - self._compute_s) * float(self.gpus)

    def exchanged(self, comm_s: float) -> float:
        """GPU-seconds of exposed communication, likewise."""
        return self.comm_gpu_s + (comm_s - self._comm_s) * float(self.gpus)

    def lost(self, overhead_s: float) -> float:
        """GPU-seconds of restarts and of work undone, likewise."""
        return self.overhead_gpu_s + (overhead_s - self._overhead_s) * float(self.gpus)


picklable(SizeAccount, 1, None)


def held_gpu_s(job: Job, now: float) -> float:
    """GPU-seconds that the job has held."""
    account = job.size_account
    return job.run_s(now) * float(job.gpus) if account is None else account.held(job.run_s(now))


def compute_gpu_s(job: Job) -> float:
    """GPU-seconds that it has computed."""
    account = job.size_account
    return job.compute_s * float(job.gpus) if account is None else account.computed(job.compute_s)


def comm_gpu_s(job: Job) -> float:
    """GPU-seconds of its exposed communication."""
    account = job.size_account
    return job.comm_s * float(job.gpus) if account is None else account.exchanged(job.comm_s)


def overhead_gpu_s(job: Job, now: float) -> float:
    """GPU-seconds that it has spent on restarts and on work that a failure undid."""
    account = job.size_account
    seconds = job.overhead_so_far_s(now)
    return seconds * float(job.gpus) if account is None else account.lost(seconds)


def rate_here(job: Job) -> float:
    """A running job's speed against the closest placement of the size that it has; 1 is the best there is."""
    account = job.size_account
    return job.rate if account is None else job.rate / account.speedup
