"""One of several policies at a time, chosen anew every few hours: what is learned in `TunePolicy-v0`."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, Final

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.cluster.feasibility.signatures import Signatures
from dally.model import INFINITY, Action, Job
from dally.policies import events
from dally.policies.base import Policy
from dally.policies.choices.scorer import Scorer
from dally.policies.choices.tune_choices import TuneChoices
from dally.policies.events import PolicyEvent
from dally.policies.queue import Queue
from dally.policies.reasons import Reason, Reasons
from dally.policies.view import View

NOT_BY_ITSELF: Final = (
    "changes the policy in use by itself, which works in simulations of one type of GPU without teams alone; name "
    "one of its candidates"
)


@mypyc_attr(allow_interpreted_subclasses=True)
class TuningPolicy(Policy):
    """The candidate in use decides. At the end of a window the model scores all, and another one may succeed it.

    Without a scorer the choice is made outside: `due` says that a window has ended; `go_on_with` begins the next.
    With a seed the choice is drawn by softmax over the scores, window by window, as in a mixture of policies.
    What a candidate learnt it hands on to others of its name. A change costs what it costs: the successor preempts
    and moves what it finds.
    """

    def __init__(
        self, choices: TuneChoices, scorer: Scorer | None = None, seed: i64 = -1, number: i64 = 0,
        end_s: float = -INFINITY, window: i64 = 0,
    ) -> None:  # fmt: skip
        """The candidate of that number is in use, in the window of that place, which ends at `end_s`."""
        self.choices: TuneChoices = choices
        self.due: bool = False
        self._scorer: Scorer | None = scorer
        self._seed: i64 = seed
        self._number: i64 = number
        self._end_s: float = end_s
        self._window: i64 = window
        self._stirred: bool = False  # whether anything happened since the latest pass
        self._known: set[int] = set()  # indexes of jobs that have come
        self._learnt: dict[str, Any] = {}  # by the candidate before, of the same name
        self._cluster: Cluster | None = None
        self.base: Policy = choices.candidates[number]()
        self.answer_for(self.base)
        own: Any = self.base
        self.queue = own.queue

    def begin(self, view: View) -> None:
        self.view = view
        self.reasons = Reasons()
        self.choices.begin(view)
        self.choices.waiting.clear()
        self.choices.waiting_gpus = 0
        self.choices.in_use = self._number
        self.base.begin(view)
        self.base.reasons = self.reasons
        if self._learnt:
            self.base.load(self._learnt)

    def constrain(self, signatures: Signatures) -> None:
        self.base.constrain(signatures)

    def on(self, event: PolicyEvent) -> None:
        job = event.job
        if job is not None:
            self.choices.now = event.now
            self._count(event.kind, job)
        self.base.on(event)
        if event.kind == events.PASS_ENDED:
            self._end_pass(event.now)
            self._stirred = False
        else:
            self._stirred = True

    def _count(self, kind: i64, job: Job) -> None:
        choices = self.choices
        if kind == events.QUEUED:
            choices.queued(job)
            if int(job.index) not in self._known:
                self._known.add(int(job.index))
                choices.arrived(job)
        elif kind in (events.STARTED, events.WITHDRAWN):
            choices.left(job)
        elif kind == events.FINISHED:
            choices.finished(job)

    def _end_pass(self, now: float) -> None:
        cluster = self._cluster
        if cluster is None:
            return
        if self._end_s == -INFINITY:
            self._end_s = now + self.choices.window_s
        if now >= self._end_s and (len(cluster.running) > 0 or self._stirred):
            self._end_s = now + self.choices.window_s
            self._window += 1
            self.choices.cluster = cluster
            self.choices.now = now
            self.choices.next()
            self._choose()
        # While nothing runs, only what happens can lead to anything.
        ends = self._end_s if len(cluster.running) > 0 else INFINITY
        self.wakeup_s = min(self.base.wakeup_s, ends)

    def _choose(self) -> None:
        scorer = self._scorer
        if scorer is None:
            self.due = True
        elif self._seed < 0:
            self.go_on_with(scorer.best(self.choices.rows, self.choices.width, self.choices.mask))
        else:
            drawn = Random(int(self._seed) * 1000003 + int(self._window)).random()
            self.go_on_with(scorer.drawn(self.choices.rows, self.choices.width, self.choices.mask, drawn))

    def go_on_with(self, number: i64) -> None:
        """The candidate that decides in the window which begins now."""
        self.due = False
        if number == self._number:
            return
        successor = TuningPolicy(self.choices, self._scorer, self._seed, number, self._end_s, self._window)
        successor._known = self._known
        if successor.base.registered_name == self.base.registered_name:
            successor._learnt = self.base.save()
        self.successor = successor

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        self._cluster = cluster
        return self.base.schedule(now, queue, cluster)

    def why(self, job: Job) -> Reason:
        return self.base.why(job)

    def save(self) -> dict[str, Any]:
        return self.base.save()

    def load(self, saved: dict[str, Any]) -> None:
        self.base.load(saved)
