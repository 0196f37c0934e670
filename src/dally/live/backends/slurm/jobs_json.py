"""From the jobs of `squeue --json` to the jobs of the contract."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from dally.cluster.formats.hostlist import expand_list, split_outside
from dally.cluster.formats.node_gpus import gres_gpus, gres_type
from dally.errors import LONGEST, one_line
from dally.job_spec import JobSpec
from dally.live.backends import base
from dally.live.backends.base import BackendError, ObservedJob, Placement
from dally.live.backends.slurm.job_mark import number_in, read_mark

HELD_BY_OPERATOR = "JobHeldAdmin"
# Reasons of a released job that Slurm's own rules keep from starting: how they begin.
BLOCKING = (
    "QOS",
    "Assoc",
    "MaxJobs",
    "Licenses",
    "Reservation",
    "PartitionTimeLimit",
    "PartitionNodeLimit",
    "Invalid",
)
# For how long Slurm keeps a requeued job from starting: its credentials' life, 2 minutes unless set otherwise.
REQUEUE_DELAY_S = 900.0
# A requeued job must not start in the second it was stopped in: the node would take the new order for the old one,
# whose credential is revoked, and Slurm ends the job for good.
REST_S = 1.2
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
    def pending(self) -> bool:
        """It waits, for whatever."""
        return "PENDING" in self.states and not self.states & STOPPING

    @property
    def released(self) -> bool:
        """Slurm may start it."""
        return number(self.row.get("priority")) > 0

    @property
    def whole_machines(self) -> bool:
        """Submitted with --exclusive: it gets all GPUs of its machines."""
        return _texts(self.row.get("shared")) == ["none"]


@contextmanager
def unusual(row: dict[str, Any], problems: list[str]) -> Iterator[None]:
    """A job that waits and cannot be read is left out and told of; another costs the cycle: it may hold GPUs."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        problem = one_line(f"job {row.get('job_id')}: squeue's record of it cannot be read: {error}", LONGEST)
        if _texts(row.get("job_state")) != ["PENDING"]:
            raise BackendError(problem) from None
        problems.append(problem)


def records_of(rows: Iterable[dict[str, Any]]) -> Iterator[JobRecord]:
    """The jobs that ask for GPUs or have some; a pending array as its tasks."""
    for row in rows:
        if not any("gpu" in str(row.get(field) or "") for field in GPU_FIELDS):
            continue
        states = frozenset(_texts(row.get("job_state")))
        mark = read_mark(str(row.get("admin_comment") or ""))
        array = number(row.get("array_job_id"))
        own = str(row["job_id"])
        if not array:
            yield JobRecord(own, own, row, states, mark)
            continue
        for task in _tasks(row):
            yield JobRecord(f"{array}_{task}", str(array), row, states, mark)


GPU_FIELDS = ("tres_per_job", "tres_per_node", "tres_per_task", "tres_per_socket", "gres_detail")


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
    """A whole number, which later versions of Slurm wrap; 0 if it is not set or has no end."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else 0
    return value if isinstance(value, int) else 0


def _texts(value: Any) -> list[str]:
    return [str(token) for token in value] if isinstance(value, list) else [str(value)]


def placement_in(row: dict[str, Any]) -> Placement:
    """The GPUs that the job has now, by machine."""
    if not row.get("nodes") or not row.get("gres_detail"):
        return {}
    counts = [gres_gpus(str(text)) for text in row["gres_detail"]]
    return {name: gpus for name, gpus in zip(expand_list(row["nodes"]), counts, strict=False) if gpus}


def requested_gpus(record: JobRecord, machine_gpus: int) -> int:
    """GPUs in all, as its user asked; once we have started it, as we noted then."""
    noted = number_in(record.mark, "gpus")
    if noted is not None:
        return noted
    row = record.row
    nodes = max(1, number(row.get("node_count")))
    if record.whole_machines:
        return nodes * machine_gpus
    for field, times in (
        ("tres_per_job", 1),
        ("tres_per_node", nodes),
        ("tres_per_task", number(row.get("tasks"))),
    ):
        gpus = tres_gpus(str(row.get(field) or ""))
        if gpus:
            return gpus * max(1, times)
    return tres_gpus(str(row.get("tres_per_socket") or "")) * nodes * max(1, number(row.get("sockets_per_node")))


def requested_group(record: JobRecord) -> int:
    """GPUs that its user wants on each node; 1: he named a total, and any split will do."""
    noted = number_in(record.mark, "group")
    return noted or tres_gpus(str(record.row.get("tres_per_node") or "")) or 1


def tres_gpus(text: str) -> int:
    """GPUs of `gres:gpu:4` or `gres/gpu:a100:4,gres/nic:1`."""
    return gres_gpus(",".join(plain_gres(item) for item in split_outside(text, "()")))


def requested_type(row: dict[str, Any]) -> str:
    """The type of GPU that its user named; empty: any."""
    texts = [str(row.get(field) or "") for field in ("tres_per_job", "tres_per_node", "tres_per_task")]
    items = [plain_gres(item) for text in texts for item in split_outside(text, "()")]
    return gres_type(",".join(items))


def plain_gres(item: str) -> str:
    """`gpu:4` of `gres:gpu:4` and `gres/gpu:4`; later versions write `gres/gpu=4` too."""
    name = item.removeprefix("gres:").removeprefix("gres/")
    return name.replace("=", ":")


class JobReader:
    """Turns records into jobs of the contract."""

    def __init__(self, partitions: frozenset[str], machine_gpus: int) -> None:
        """`machine_gpus`: of the largest machine, as long as that is so. No partitions: all of them."""
        self._partitions = partitions
        self.machine_gpus = machine_gpus
        self._back: dict[str, tuple[int, float]] = {}  # requeued jobs: how often, and since when it is known

    def job(self, record: JobRecord, facts: JobSpec, now_s: float) -> ObservedJob:
        """The job; `now_s` is the present, by which a date lies ahead or behind."""
        row = record.row
        managed = self._managed(record)
        state, reason = _state(record, managed, now_s)
        if self._rests(record) and state == base.QUEUED:
            state = base.STOPPING
        placement = {} if state in base.ENDED or record.pending else placement_in(row)
        request = requested_gpus(record, self.machine_gpus)
        minutes = number(row.get("time_limit"))
        held = sum(placement.values())
        shrunk = state == base.RUNNING and held < request  # it lost a node, and was submitted with --no-kill
        if placement and (shrunk or number_in(record.mark, "gpus") is None):
            request = held
        spec = replace(
            facts, gpus=request, name=_text(row, "name"), user=_text(row, "user_name"),
            account=_text(row, "account"), partition=_text(row, "partition"), qos=_text(row, "qos"),
            group=self._group(record, facts, request), limit_s=minutes * 60.0 if minutes else None,
            gpu_type=requested_type(row),
        )  # fmt: skip
        submit_s = float(number_in(record.mark, "submit") or number(row.get("submit_time")))
        return ObservedJob(record.job_id, state, spec, submit_s, placement, managed, reason)

    def _rests(self, record: JobRecord) -> bool:
        """It was requeued a moment ago, by our own clock that never jumps."""
        restarts = number(record.row.get("restart_cnt"))
        if not record.pending or not restarts:
            self._back.pop(record.job_id, None)
            return False
        if self._back.get(record.job_id, (0, 0.0))[0] != restarts:
            self._back[record.job_id] = (restarts, time.monotonic())
        return time.monotonic() - self._back[record.job_id][1] < REST_S

    def _group(self, record: JobRecord, facts: JobSpec, request: int) -> int:
        """As stated, or as many as it asks for on each node: those stay together."""
        if record.whole_machines:
            return self.machine_gpus
        group = facts.group if facts.group > 1 else requested_group(record)
        return group if request % group == 0 and group <= self.machine_gpus else 1

    def _managed(self, record: JobRecord) -> bool:
        """Ours to start and stop: it came with our note, and it can be requeued if it runs."""
        row = record.row
        if self._partitions and not self._partitions.issuperset(_text(row, "partition").split(",")):
            return False
        if number(row.get("het_job_id")):
            return False
        if record.mark is None:
            return False
        return record.pending or (bool(row.get("batch_flag")) and bool(row.get("requeue")))


def _text(row: dict[str, Any], field: str) -> str:
    return str(row.get(field) or "")


def _state(record: JobRecord, managed: bool, now_s: float) -> tuple[str, str]:
    """The state by the contract, and why it is so in Slurm's words."""
    row, states = record.row, record.states
    reason = _text(row, "state_reason")
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
    if record.released:
        return (base.BLOCKED if reason.startswith(BLOCKING) else base.STARTING), reason
    return _waits_for(row, reason, now_s)


def _waits_for(row: dict[str, Any], reason: str, now_s: float) -> tuple[str, str]:
    if reason == HELD_BY_OPERATOR:
        return base.HELD, reason
    if row.get("dependency"):
        return base.HELD, f"Dependency {row['dependency']}"
    begin_s = number(row.get("eligible_time"))
    requeued = number(row.get("restart_cnt")) and begin_s - number(row.get("submit_time")) <= REQUEUE_DELAY_S
    if begin_s > now_s + 1.0 and not requeued:
        return base.HELD, "BeginTime"
    return base.QUEUED, ""
