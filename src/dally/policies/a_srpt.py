"""A-SRPT: jobs run in the order in which an imaginary machine of the whole cluster's speed finishes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from mypy_extensions import i64, mypyc_attr

from dally.cluster.capacity import Cluster
from dally.heap import IndexedHeap
from dally.model import CANCELLED, INFINITY, WAITING, Action, Job, Start
from dally.pickles import picklable
from dally.policies import events
from dally.policies.base import Param, Policy
from dally.policies.declaration import NamedPolicy
from dally.policies.events import PolicyEvent
from dally.policies.ordering.base import Order
from dally.policies.placement.base import Placement
from dally.policies.placement.closest_tier import TIER, at_tier
from dally.policies.placement.delay import PATIENCE, BreakEvenDelay
from dally.policies.placement.heavy_edge import HeavyEdge
from dally.policies.prediction.base import Predictor
from dally.policies.prediction.named import PREDICTOR, make_predictor
from dally.policies.queue import Queue
from dally.policies.settings import Settings
from dally.policies.view import View


class VirtualMachine:
    """Preemptive shortest remaining processing time: the order in which it lets jobs go is a guide.

    Work is in GPU-seconds, and the machine does as much of it in a second as the cluster has GPUs.
    """

    __slots__ = ("_gpus", "_left", "_now", "_since")

    def __init__(self) -> None:
        self._gpus: float = 1.0
        self._left: IndexedHeap = IndexedHeap()  # jobs by GPU-seconds left, the served one as of `_since`
        self._now: float = 0.0
        # Not brought up to date at every look, or rounding would make the outcome depend on how often one looks.
        self._since: float = 0.0

    def add(self, job: i64, gpu_s: float) -> None:
        """A job comes with so much work, at the moment last advanced to."""
        served = self._left.first()
        if served >= 0:
            self._left.put(served, self.left_gpu_s(served), 0.0)
        self._since = self._now
        self._left.put(job, gpu_s, 0.0)

    def remove(self, job: i64) -> None:
        """Nothing is left to do of a job, if it holds it: what it was doing since last advanced goes to others."""
        if job == self._left.first():
            self._since = self._now
        self._left.discard(job)

    def holds(self, job: i64) -> bool:
        return self._left.holds(job)

    def left_gpu_s(self, job: i64) -> float:
        """Work left of a job it holds."""
        left = self._left.key(job)
        if job == self._left.first():
            left -= (self._now - self._since) * self._gpus
        return left if left > 0.0 else 0.0

    def served(self) -> i64:
        """The job it works on, or -1."""
        return self._left.first()

    def advance(self, now: float, gpus: float) -> list[int]:
        """Work until then, as fast as so many GPUs; returns the jobs that are done, in that order."""
        self._gpus = gpus
        done: list[int] = []
        while len(self._left) > 0:
            end_s = self.next_done_s()
            if end_s > now:
                break
            self._since = end_s
            done.append(int(self._left.pop()))
        self._now = now
        return done

    def next_done_s(self) -> float:
        """When it lets the next job go if no other comes."""
        if len(self._left) == 0:
            return INFINITY
        return self._since + self._left.key(self._left.first()) / self._gpus


picklable(VirtualMachine)


LEFT = 0.0  # keys: jobs that left the virtual machine come before
SERVED = 1.0  # those it still works on


@mypyc_attr(allow_interpreted_subclasses=True)
class VirtualOrder(Order):
    """Jobs that left the virtual machine as they did; then the others, least GPU-seconds left there first."""

    def __init__(self) -> None:
        self.machine: VirtualMachine = VirtualMachine()
        self.places: dict[int, float] = {}  # in the order of leaving it, of jobs that have not finished

    def key(self, job: Job, now: float) -> float:
        return LEFT if int(job.index) in self.places else SERVED

    def tie(self, job: Job) -> float:
        if int(job.index) in self.places:
            return self.places[int(job.index)]
        if self.machine.holds(job.index):
            return self.machine.left_gpu_s(job.index)
        return float(job.gpus) * max(job.predicted_s, 0.0)


@mypyc_attr(allow_interpreted_subclasses=True)
class AdaptiveSrpt(Policy):
    """Luo et al., Prediction-Assisted Online Distributed Deep Learning Workload Scheduling (arXiv 2501.05563).

    A virtual machine as fast as all GPUs together serves jobs of GPUs × predicted duration by preemptive SRPT,
    which is optimal there. Jobs that have left the virtual machine are offered GPUs in the order in which they
    left it. A job that does not fit is passed over, and no job is preempted. With `early`, the GPUs that are
    left go to jobs that are still in the virtual machine, least remaining work first; without it these jobs
    wait, because the cluster cannot be faster than that machine.

    In the paper, gangs that communicate much wait for a place on fewer machines, up to a limit. Here each gang
    declines a place until it has waited `patience` times as long as it would lose there. The paper's forest
    knows past jobs when the run begins: `--past` gives ours an earlier trace, and it continues to learn during
    the run. Departures: whole durations are predicted, where the paper predicts iterations of known length, and
    the limit of the wait is ours. The paper's job graphs with mixed parallelism are left out: our gangs are
    data-parallel, with groups of GPUs that stay on a machine. With true durations the policy is near `srtf`
    (tests/policies/test_claims.py). Public traces name few recurring jobs, so the forest gains less here than
    in the paper ([predictions](prediction.md)).
    """

    def __init__(self, predictor: Predictor, placement: Placement, early: bool) -> None:
        ranks = VirtualOrder()
        self.predictor = predictor
        self.placement = placement
        self.order = ranks
        self._early: bool = early
        self._ranks: VirtualOrder = ranks
        self._machine: VirtualMachine = ranks.machine
        self._jobs: dict[int, Job] = {}  # on the virtual machine
        self._arrived: list[Job] = []
        self._gone: float = 0.0  # jobs that left it

    def begin(self, view: View) -> None:
        super().begin(view)
        self.placement.begin(view)

    def on(self, event: PolicyEvent) -> None:
        job = event.job
        kind = event.kind
        if kind == events.PASS_ENDED:
            # Early starters leave no GPUs for jobs that leave the virtual machine later.
            leaves_s = INFINITY if self._early else self._machine.next_done_s()
            self.wakeup_s = min(leaves_s, self.placement.wakeup_s(event.now))
        elif job is None:
            return
        elif kind == events.QUEUED:
            self._queued(job)
        elif kind == events.FINISHED:
            self.predictor.learn(job, event.now)
            self._ranks.places.pop(int(job.index), 0.0)
            self._jobs.pop(int(job.index), None)  # the virtual machine goes on with it
        elif kind == events.WITHDRAWN and job.status != WAITING:
            self._withdrawn(job)  # one that still waits could not be started: it is back after this pass

    def _queued(self, job: Job) -> None:
        if int(job.index) not in self._jobs and int(job.index) not in self._ranks.places:
            self._arrived.append(job)
            if not self._early:
                self.reasons.deferred(job)

    def _withdrawn(self, job: Job) -> None:
        self._machine.remove(job.index)
        self._jobs.pop(int(job.index), None)
        self._arrived = [other for other in self._arrived if other is not job]
        if job.status == CANCELLED:
            self._ranks.places.pop(int(job.index), 0.0)

    def schedule(self, now: float, queue: Queue, cluster: Cluster) -> Iterable[Action]:
        self._advance(now, queue, float(cluster.topology.total_gpus()))
        self.placement.begin_pass(queue.tenant)
        if len(queue) == 0:
            return []
        return self._offer(now, queue, cluster)

    def _offer(self, now: float, queue: Queue, cluster: Cluster) -> Iterator[Action]:
        while True:
            job = queue.best(float(cluster.all_free()))
            if job is None or (not self._early and queue.key(job) == SERVED):
                return
            allocation = self.placement.place(job, now, cluster)
            if allocation is None:
                queue.close(job)
            else:
                yield Start(job, allocation)

    def _advance(self, now: float, queue: Queue, gpus: float) -> None:
        """Bring the virtual machine up to `now`, and the queue's ranks with it."""
        self._leave(self._machine.advance(now, gpus), queue)
        served = self._machine.served()
        if served >= 0 and int(served) in self._jobs:
            self._rank(self._jobs[int(served)], queue)  # before others come: one of them may be served next
        for job in self._arrived:
            self._jobs[int(job.index)] = job
            self._machine.add(job.index, self._ranks.tie(job))
        self._arrived.clear()
        self._leave(self._machine.advance(now, gpus), queue)  # jobs without a prediction, at once

    def _leave(self, done: list[int], queue: Queue) -> None:
        for index in done:
            job = self._jobs.pop(index, None)
            self._gone += 1.0
            if job is not None:
                self._ranks.places[index] = self._gone
                if not self._early:
                    self.reasons.admitted(job)
                self._rank(job, queue)

    def _rank(self, job: Job, queue: Queue) -> None:
        if job.status == WAITING:
            queue.rerank(job, self._ranks.key(job, 0.0), self._ranks.tie(job))


def _a_srpt(settings: Settings) -> Policy:
    placement = BreakEvenDelay(at_tier(HeavyEdge(), settings["tier"]), settings["patience"])
    return AdaptiveSrpt(make_predictor(settings["predictor"]), placement, settings["early"])


PAPER: Final = (
    "Luo et al., Prediction-Assisted Online Distributed Deep Learning Workload Scheduling, arXiv 2501.05563"
)
EARLY: Final = Param("early", False, "idle GPUs go to jobs that the virtual machine has not finished")
A_SRPT: Final = NamedPolicy(
    "a-srpt", _a_srpt, "a virtual machine's SRPT", "fewest machines", "never", "what its predictor does", PAPER,
    (PREDICTOR._replace(default="forest"), EARLY, PATIENCE, TIER),
)  # fmt: skip
