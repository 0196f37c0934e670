"""The policy whose every decision is a choice among rows: what `dally train` leaves, and what a learner steers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.model import WAITING, Action, Job
from dally.policies import events
from dally.policies.base import Policy
from dally.policies.choices.base import Choices
from dally.policies.choices.scorer import Scorer
from dally.policies.events import PolicyEvent
from dally.policies.ordering.simple import SubmitOrder
from dally.policies.queue import Queue
from dally.policies.reasons import Reason
from dally.policies.view import View


@mypyc_attr(allow_interpreted_subclasses=True)
class ChoosingPolicy(Policy):
    """Chooses the row of highest score, until a pass has no more decisions.

    It decides only after jobs came or GPUs were given back: being asked when nothing happened changes nothing.
    """

    def __init__(self, choices: Choices, scorer: Scorer) -> None:
        self.order = SubmitOrder()
        self.choices: Choices = choices
        self._scorer: Scorer = scorer
        self._due: bool = False  # whether something happened since the latest pass

    def begin(self, view: View) -> None:
        super().begin(view)
        self.order.begin(view)
        self.choices.begin(view)

    def on(self, event: PolicyEvent) -> None:
        job = event.job
        kind = event.kind
        if kind == events.QUEUED and job is not None:
            self.choices.queued(job)
            self._due = True
        elif kind in (events.STARTED, events.WITHDRAWN) and job is not None:
            self.choices.left(job)
        if kind in (events.STOPPED, events.WITHDRAWN) or events.MACHINE_FAILED <= kind <= events.NETWORK_CHANGED:
            self._due = True

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        if not self._due or len(queue) == 0:
            return []
        self._due = False
        return self._choose(now, queue, cluster)

    def _choose(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        choices = self.choices
        choices.open(now, queue, cluster)
        while choices.next():
            best: i64 = 0
            if not choices.forced:
                best = self._scorer.best(choices.rows, choices.width, choices.mask)
            if best < 0:
                break
            yield from choices.take(best)
        action_left = choices.close()
        while action_left is not None:
            yield action_left
            action_left = choices.close()
        self._due = False  # what it did itself is no reason to be asked again

    def why(self, job: Job) -> Reason:
        """What the job waits for."""
        if job.status != WAITING:
            return super().why(job)
        for place, other in enumerate(self.choices.waiting):
            if other is job:
                return Reason(
                    f"a place that the learned policy takes for it; {place} jobs have waited longer",
                    changed_by="running jobs end: it then scores all that fit again",
                )
        return super().why(job)
