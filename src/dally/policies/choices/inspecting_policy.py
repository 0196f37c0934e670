"""A base policy whose starts are put off or not, as a model scores: what is learned in `InspectDecision-v0`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mypy_extensions import mypyc_attr

from dally.cluster.capacity import Cluster
from dally.cluster.feasibility.signatures import Signatures
from dally.model import Action, Job
from dally.policies import events
from dally.policies.base import Policy
from dally.policies.choices.choosing_policy import ChoosingPolicy
from dally.policies.choices.inspect_choices import RETRY_S, InspectChoices
from dally.policies.choices.scorer import Scorer
from dally.policies.events import PolicyEvent
from dally.policies.queue import Queue
from dally.policies.reasons import Reason, Reasons
from dally.policies.view import View


@mypyc_attr(allow_interpreted_subclasses=True)
class InspectingPolicy(ChoosingPolicy):
    """The base decides, and is told of all that happens; a start of low score waits for another pass."""

    def __init__(self, choices: InspectChoices, scorer: Scorer) -> None:
        super().__init__(choices, scorer)
        base = choices.base
        self.inspected: InspectChoices = choices
        self.base: Policy = base
        self.answer_for(base)
        own: Any = base
        self.queue = own.queue

    def begin(self, view: View) -> None:
        self.view = view
        self.reasons = Reasons()
        self.choices.begin(view)
        self.base.begin(view)
        self.base.reasons = self.reasons

    def constrain(self, signatures: Signatures) -> None:
        self.base.constrain(signatures)

    def on(self, event: PolicyEvent) -> None:
        if event.kind != events.PASS_ENDED:
            super().on(event)
            self.base.on(event)
            return
        some = self.inspected.give_back(event.now)
        self.base.on(event)
        self.wakeup_s = min(self.base.wakeup_s, event.now + RETRY_S) if some else self.base.wakeup_s

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        return self._choose(now, queue, cluster)

    def why(self, job: Job) -> Reason:
        return self.base.why(job)

    def save(self) -> dict[str, Any]:
        return self.base.save()

    def load(self, saved: dict[str, Any]) -> None:
        self.base.load(saved)
