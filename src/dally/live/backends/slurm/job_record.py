"""One job of `squeue --json`: what is read off its row, whatever the version of Slurm."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dally.cluster.formats.hostlist import expand_list
from dally.cluster.formats.node_gpus import gres_gpus
from dally.errors import LONGEST, one_line
from dally.live.backends import base
from dally.live.backends.base import BackendError, Placement
from dally.live.backends.slurm.job_mark import read_mark
from dally.live.backends.slurm.left_alone import GPU_FIELDS

HELD_BY_OPERATOR = "JobHeldAdmin"
NEVER_S = 4102444800  # the year 2100: when job_submit.lua lets a job begin that its user holds
PAUSED = "STOPPED"
STOPPING = frozenset(("COMPLETING", "STAGE_OUT", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED"))
FINAL = {
    "COMPLETED": base.FINISHED, "CANCELLED": base.CANCELLED, "REVOKED": base.CANCELLED,
    **dict.fromkeys(
        ("FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"), base.FAILED
    ),
}  # fmt: skip


@dataclass(frozen=True)
class JobRecord:
    """One job of Slurm's, a task of an array too, with what is read off its row."""

    job_id: str  # as the tools take it: 12, or 12_3 for a task of an array
    script_id: str  # under which its script is kept
    row: dict[str, Any]
    states: frozenset[str]
    mark: dict[str, str] | None

    @property
    def partition(self) -> str:
        """The one that it is in, or all that it names."""
        return text_of(self.row, "partition")

    @property
    def pending(self) -> bool:
        """It waits, for whatever."""
        return "PENDING" in self.states and not self.states & STOPPING

    @property
    def released(self) -> bool:
        """Slurm may start it."""
        return number(self.row.get("priority")) > 0

    @property
    def paused(self) -> bool:
        """It has been sent SIGSTOP: see preempter.py."""
        return PAUSED in self.states

    @property
    def ended(self) -> bool:
        """It is over."""
        return bool(self.states & FINAL.keys())

    @property
    def whole_machines(self) -> bool:
        """Submitted with --exclusive: it gets all GPUs of its machines."""
        return texts_of(self.row.get("shared")) == ["none"]


@contextmanager
def unusual(row: dict[str, Any], problems: list[str]) -> Iterator[None]:
    """A job that waits and cannot be read is left out and told of; another costs the cycle: it may hold GPUs."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        problem = one_line(f"job {row.get('job_id')}: squeue's record of it cannot be read: {error}", LONGEST)
        if texts_of(row.get("job_state")) != ["PENDING"]:
            raise BackendError(problem) from None
        problems.append(problem)


def records_of(rows: Iterable[dict[str, Any]]) -> Iterator[JobRecord]:
    """The jobs that ask for GPUs or have some; a pending array as its tasks."""
    for row in rows:
        if not any("gpu" in str(row.get(field) or "") for field in (*GPU_FIELDS, "gres_detail")):
            continue
        array = number(row.get("array_job_id"))
        if not array:
            yield _record(row, str(row["job_id"]), str(row["job_id"]))
            continue
        for task in _tasks(row):
            yield _record(row, f"{array}_{task}", str(array))


def whole_records(rows: Iterable[dict[str, Any]]) -> Iterator[JobRecord]:
    """All jobs; the tasks of an array that wait and were never told apart are one, as Slurm has them: 20_[4-5]."""
    for row in rows:
        own = whole_id(row)
        yield _record(row, own, str(number(row.get("array_job_id")) or own))


def whole_id(row: dict[str, Any]) -> str:
    """As the tools take it: 12, 12_3 for a task of an array, or 12_[4-5] for tasks that are still one."""
    array, tasks = number(row.get("array_job_id")), str(row.get("array_task_string") or "").split("%")[0]
    if not array:
        return str(row["job_id"])
    return f"{array}_[{tasks}]" if tasks else f"{array}_{number(row.get('array_task_id'))}"


def _record(row: dict[str, Any], job_id: str, script_id: str) -> JobRecord:
    mark = read_mark(str(row.get("admin_comment") or ""))
    return JobRecord(job_id, script_id, row, frozenset(texts_of(row.get("job_state"))), mark)


def _tasks(row: dict[str, Any]) -> list[str]:
    waiting = str(row.get("array_task_string") or "").split("%")[0]
    if not waiting:
        return [str(number(row.get("array_task_id")))]
    result: list[str] = []
    for part in waiting.split(","):
        first, _, rest = part.partition("-")
        last, _, step = rest.partition(":")
        result += [str(task) for task in range(int(first), int(last or first) + 1, int(step or 1))]
    return result


def number(value: Any) -> int:
    """A whole number, which Slurm wraps since 23.02; 0 if it is not set or has no end."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else 0
    return value if isinstance(value, int) else 0


def text_of(row: dict[str, Any], field: str) -> str:
    """A text of a row; empty: it is not there."""
    return str(row.get(field) or "")


def texts_of(value: Any) -> list[str]:
    """One text or several: flags, which later versions of Slurm write as a list."""
    return [str(token) for token in value] if isinstance(value, list) else [str(value)]


def placement_in(row: dict[str, Any]) -> Placement:
    """The GPUs that the job has now, by machine."""
    if not row.get("nodes") or not row.get("gres_detail"):
        return {}
    counts = [gres_gpus(str(text)) for text in row["gres_detail"]]
    return {name: gpus for name, gpus in zip(expand_list(row["nodes"]), counts, strict=False) if gpus}
