"""Whether a start that a base policy proposes is made now: the decisions of `InspectDecision-v0`."""

from __future__ import annotations

from collections.abc import Iterator
from math import log2
from typing import Final

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.errors import InputError
from dally.model import Action, Allocation, Job, Start
from dally.pickles import picklable
from dally.policies import events
from dally.policies.base import Policy
from dally.policies.choices.base import KNOWS, Choices, bounded, largest_domain, log_time, lost_speed, time_left
from dally.policies.events import PolicyEvent
from dally.policies.queue import Queue

INSPECT_COLUMNS: Final = (
    "waited", "size", "share", "attained", "left", "farther", "exchange", "slowdown", "inflicted", "times",
    "before", "decline", "free", "running", "demand", "largest_domain", "delay", "lost_speed",
)  # fmt: skip
INSPECT_WIDTH: Final = len(INSPECT_COLUMNS)
OWN_COLUMNS: Final = 12  # of the proposed job; the others are the same in both rows
MOST_TIMES: Final = 72  # that a job is put off, as in the paper
RETRY_S: Final = 600.0  # after this at the latest a job that was put off is proposed again, as in the paper


@mypyc_attr(allow_interpreted_subclasses=True)
class InspectChoices(Choices):
    """A base policy proposes starts, each of which is accepted, or put off until something else happens.

    SchedInspector (Zhang et al., HPDC 2022), over any policy: what the base preempts or moves is not asked about. A
    job is put off `most_times` at most, and only while another runs. To the base that is a start that failed.
    """

    columns: tuple[str, ...] = INSPECT_COLUMNS

    def __init__(self, base: Policy, knows: str = "nothing", most_times: i64 = MOST_TIMES) -> None:
        if knows not in KNOWS:
            raise InputError(f"knows {knows!r}: must be one of {', '.join(KNOWS)}")
        if most_times < 1:
            raise InputError(f"most_times {int(most_times)}: must be 1 or more")
        super().__init__(1, INSPECT_WIDTH)
        self.base: Policy = base
        self.knows: str = knows
        self.most_times: i64 = most_times
        self.put_off: list[Job] = []  # in this pass
        self._times: dict[int, int] = {}  # that a waiting job was put off, by index
        self._proposals: Iterator[Action] | None = None
        self._action: Action | None = None
        self._event: PolicyEvent = PolicyEvent()

    def open(self, now: float, queue: Queue, cluster: Cluster) -> None:
        super().open(now, queue, cluster)
        self._proposals = iter(self.base.schedule(now, queue, cluster))

    def next(self) -> bool:
        proposals = self._proposals
        cluster = self.cluster
        assert proposals is not None
        assert cluster is not None
        action = next(proposals, None)
        self._action = action
        if action is None:
            return False
        if not isinstance(action, Start):
            self.forced = True
            return True
        job = action.job
        times = self._times.get(int(job.index), 0)
        self.forced = len(cluster.running) == 0 or job.prioritized or times >= int(self.most_times)
        if not self.forced:
            self._write(job, action.allocation, times, cluster)
        return True

    def take(self, choice: i64) -> list[Action]:
        action = self._action
        queue = self.queue
        assert action is not None
        assert queue is not None
        if choice == 0:
            return [action]
        job = action.job
        queue.take(job)
        self._times[int(job.index)] = self._times.get(int(job.index), 0) + 1
        self.put_off.append(job)
        self._notify(events.WITHDRAWN, job, self.now)
        return []

    def close(self) -> Action | None:
        self._proposals = None
        self._action = None
        return None

    def left(self, job: Job) -> None:
        super().left(job)
        self._times.pop(int(job.index), None)

    def give_back(self, now: float) -> bool:
        """The pass is over: jobs that were put off wait again, for the base too; whether there are any."""
        some = len(self.put_off) > 0
        for job in self.put_off:
            self._notify(events.QUEUED, job, now)
        self.put_off.clear()
        return some

    def _notify(self, kind: i64, job: Job, now: float) -> None:
        event = self._event
        event.kind, event.now, event.job = kind, now, job
        event.machine, event.gpus = -1, 0
        self.base.on(event)

    def _write(self, job: Job, place: Allocation, times: int, cluster: Cluster) -> None:
        rows = self.rows
        view = self.view
        assert view is not None
        total = float(cluster.topology.total_gpus())
        own, inflicted = view.slowdown(job, place)
        before: i64 = 0
        for other in self.waiting:
            if other is job:
                break
            before += 1
        waiting = float(len(self.waiting))
        size = float(job.gpus)
        root = float(cluster.root) if cluster.root > 0 else 1.0
        rows[0] = log_time(self.now - job.lost_s)
        rows[1] = log2(size) / log2(total) if total > 1.0 else 0.0
        rows[2] = size / total
        rows[3] = log_time(job.done_s(self.now))
        rows[4] = time_left(job, self.knows, self.now)
        rows[5] = float(cluster.topology.tier_of(place) - cluster.closest_tier(job)) / root
        rows[6] = self.intensity(job)
        rows[7] = 1.0 - 1.0 / own if own > 1.0 else 0.0
        rows[8] = bounded(inflicted)
        rows[9] = bounded(float(times))
        rows[10] = float(before) / waiting if waiting > 0.0 else 0.0
        cluster.focus(None)
        delay_s = 0.0
        for other in self.waiting:
            delay_s += self.now - other.lost_s
        running = float(len(cluster.running))
        common = [
            float(cluster.all_free()) / total,
            running / (running + waiting) if running + waiting > 0.0 else 0.0,
            bounded(float(self.waiting_gpus) / total),
            largest_domain(cluster),
            log_time(delay_s / waiting) if waiting > 0.0 else 0.0,
            lost_speed(cluster),
        ]
        for column in range(OWN_COLUMNS):
            rows[INSPECT_WIDTH + column] = 0.0
        rows[11] = 0.0
        rows[INSPECT_WIDTH + 11] = 1.0
        for column in range(len(common)):
            rows[OWN_COLUMNS + column] = common[column]
            rows[INSPECT_WIDTH + OWN_COLUMNS + column] = common[column]
        self.mask[0] = 1
        self.mask[1] = 1


picklable(InspectChoices, Policy())
